"""Characteristics table: which results the new plan cannot produce yet, so that the old plan must.

Each line is a region: a set of aliases with a position each. A result lies in it when its rows of these aliases are all
from before their positions. The new plan lacks exactly the entries in the regions of its states; the old plan keeps
what lies in some region and drops the rest, by a lineage bitmap that is read off the row numbers.
"""

from dataclasses import dataclass, field

import numpy as np

from midstream.operators.contract.execution import Parts
from midstream.operators.sliding.entry import ROWS, Mask, Matrix, Vector, lineage
from midstream.operators.source.sources import Position, Renumbering, Sources

BITS = 62
"""Regions told apart by one bitmap."""


@dataclass(frozen=True)
class Region:
    """Rows of some aliases before a position each."""

    bounds: dict[str, Position]

    @property
    def aliases(self) -> Parts:
        """Return the aliases it speaks of."""
        return frozenset(self.bounds)

    @property
    def seq(self) -> int:
        """Return the sequence number that no row of it reaches."""
        return max(p.seq for p in self.bounds.values())

    def and_before(self, parts: Parts, position: Position) -> "Region":
        """Return the region that also asks for the rows of further aliases to be from before a position."""
        return Region(self.bounds | dict.fromkeys(parts, position))

    def is_over(self, sources: Sources, now_us: int, seq: int) -> bool:
        """Tell whether nothing in it can be part of a result any more: one alias has no such row left."""
        return not all(sources.has_old(a, p, now_us, seq) for a, p in self.bounds.items())


@dataclass
class CharacteristicsTable:
    """The regions the old plan still answers for, by the new plan's state that lacks them."""

    regions: dict[Parts, list[Region]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(r) for r in self.regions.values())

    def lines(self) -> list[Region]:
        """Return all regions."""
        return [region for regions in self.regions.values() for region in regions]

    def drop_expired(self, sources: Sources, now_us: int, seq: int) -> list[Parts]:
        """Drop regions that are over; return the states that lack nothing because of it."""
        done = []
        for parts, regions in list(self.regions.items()):
            left = [r for r in regions if not r.is_over(sources, now_us, seq)]
            self.regions[parts] = left
            if not left:
                del self.regions[parts]
                done.append(parts)
        return done

    def disconnected(self, source: Parts) -> bool:
        """Tell whether a new row of a source lies in no region, so that it need not enter the old plan."""
        return all(region.aliases & source for region in self.lines())

    def until(self, source: Parts, otherwise: int) -> int:
        """Return the sequence number below which entries of a source matter to the old plan."""
        return max(r.seq for r in self.lines()) if self.disconnected(source) else otherwise

    def needed(self, results: Matrix, components: tuple[str, ...]) -> Mask:
        """Tell which results lie in some region, as far as their components say."""
        keep = np.zeros(len(results), np.bool_)
        lines = self.lines()
        for start in range(0, len(lines), BITS):
            chunk = lines[start : start + BITS]
            keep |= self._bitmap(results, components, chunk) != (1 << len(chunk)) - 1
        return keep

    @staticmethod
    def _bitmap(results: Matrix, components: tuple[str, ...], regions: list[Region]) -> Vector:
        """Return the lineage of each result: one bit for every region it lies outside of."""
        columns, bounds, members = [], [], []
        for bit, region in enumerate(regions):
            for k, alias in enumerate(components):
                if alias in region.bounds:
                    columns.append(ROWS + k)
                    bounds.append(region.bounds[alias].rows[alias])
                    members.append(1 << bit)
        arrays = (np.array(values, np.int64) for values in (columns, bounds, members))
        return lineage(results, *arrays)

    def renumber(self, change: Renumbering) -> None:
        """Follow a row store that has numbered its rows anew."""
        positions = {id(p): p for region in self.lines() for p in region.bounds.values()}
        for position in positions.values():
            position.renumber(change)
