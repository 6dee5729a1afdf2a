"""Sources: the windowed rows every plan of a query works on, and where in them a change took effect.

arrivals ──▶ scans ──▶ rows taken in ──▶ joins of one or more plans

State: one scan per alias and the eviction table they share. Plans come and go; the sources stay.
"""

from dataclasses import dataclass, field

import numpy as np

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.complete import live_before
from midstream.model.batch import Arrival
from midstream.model.effort import Effort
from midstream.operators.source.scan import Scan, TakenRows
from midstream.operators.source.window import EvictionTable

Taken = dict[str, TakenRows]


@dataclass(frozen=True)
class Renumbering:
    """The rows of an alias have new numbers: `places[n - base]` for row n, -1 when it is gone."""

    alias: str
    places: Vector
    base: int


@dataclass
class Position:
    """Where a change took effect: before sequence number `seq` and event time `time_us`.

    A row is old when its number is below `rows[alias]`; an entry is all old when its latest row is below `seq`.
    """

    seq: int
    time_us: int
    rows: dict[str, int] = field(default_factory=dict)

    def renumber(self, change: Renumbering) -> None:
        """Follow a row store that has numbered its rows anew."""
        held = change.places[: max(0, self.rows[change.alias] - change.base)]
        self.rows[change.alias] = int(np.count_nonzero(held >= 0))


class Sources:
    """The scans of a query in FROM order."""

    def __init__(self, scans: dict[str, Scan], evictions: EvictionTable, members: dict[int, dict[str, int]]) -> None:
        self.scans = scans
        self.evictions = evictions
        self.members = members
        """Per equality class and alias: which stored code holds its member. Empty when every join has the same key."""
        self.predicate_evaluations = 0
        """Pairs the joins have tested so far."""
        self.entries_kept = 0
        """Entries put into states so far."""
        self.probes = 0
        """Entries that have looked for partners in a state so far."""

    @property
    def watched(self) -> bool:
        """Tell whether rows keep what statistics of them are made of."""
        return all(scan.spec.watched is not None for scan in self.scans.values())

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        return self.evictions.nbytes + sum(s.nbytes for s in self.scans.values())

    @property
    def effort(self) -> Effort:
        """Return what the operators above have done so far."""
        return Effort(self.predicate_evaluations, self.entries_kept, self.probes)

    def take_in(self, arrivals: dict[str, Arrival]) -> Taken:
        """Take in the next rows of every alias."""
        return {alias: scan.on_rows(arrivals[alias]) for alias, scan in self.scans.items()}

    def expire(self, now_us: int, seq: int) -> list[Renumbering]:
        """Drop rows that cannot join a row at or after `now_us`; return which aliases have new row numbers."""
        changes = []
        for alias, scan in self.scans.items():
            base = scan.store.base
            places = scan.expire(now_us, seq)
            if places is not None:
                changes.append(Renumbering(alias, places, base))
        return changes

    def position(self, seq: int, time_us: int) -> Position:
        """Return the position after all rows taken in so far: the next row has number `seq`."""
        return Position(seq, time_us, {alias: scan.store.end for alias, scan in self.scans.items()})

    def has_old(self, alias: str, position: Position, now_us: int, seq: int) -> bool:
        """Tell whether a row from before a position can still be part of a result."""
        return self.scans[alias].holds_before(position.rows[alias], now_us, seq)

    def live(self, entries: Matrix, slots: Vector, before: int, now_us: int, seq: int) -> Mask:
        """Tell which entries are alive and have their latest row below `before`; `slots` as in a join's input state."""
        table = (slots, self.evictions.table, self.evictions.bases)
        return live_before(entries, len(entries), before, now_us, seq, *table)
