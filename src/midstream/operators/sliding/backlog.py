"""Backlog: what the state of an earlier plan holds, for a join that asks for it by another key.

    entries of the earlier state ──▶ keys somebody asks for, and a part of the others in each micro-batch
        ──▶ laid out anew ──▶ state of the join

So a plan that asks a state by another key can start at once, however much the state holds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.entries import LATEST, ROWS
from midstream.operators.sliding.feed import Feed
from midstream.operators.sliding.key_index import KeyIndex
from midstream.operators.sliding.key_run import KeyRun
from midstream.operators.source.window import moved

PART = 2048
"""Entries whose keys are taken in each micro-batch besides those asked for."""

Alive = Callable[[Matrix, Vector], Mask]
"""Tells which entries are alive, given the lines of their components in the eviction table."""


@dataclass(frozen=True)
class FormerIndex:
    """The index of the join that entries come from, on one of its sides, and the equality classes it is by."""

    groups: tuple[int, ...]
    index: KeyIndex
    side: int


class Backlog:
    """Entries in an earlier layout, those from row `since` on.

    Invariant: of each key of the new layout all live entries are left here, or none.
    """

    def __init__(
        self,
        entries: Matrix,
        components: tuple[str, ...],
        slots: Vector,
        layout: Feed,
        since: int,
        gone: Mask,
        known: FormerIndex | None,
    ) -> None:
        self.entries = entries
        self.components = components
        self.slots = slots
        self.layout = layout
        self.since = since
        self.gone = gone
        """Which entries have been taken."""
        self.known = known
        self._run: KeyRun | None = None
        self._at = 0

    def __len__(self) -> int:
        return len(self.gone) - int(np.count_nonzero(self.gone))

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        run = 0 if self._run is None else self._run.nbytes
        index = 0 if self.known is None else self.known.index.nbytes
        return int(self.entries.nbytes + self.gone.nbytes) + run + index

    @property
    def is_over(self) -> bool:
        """Tell whether all keys have been taken."""
        return self._run is not None and self._at >= len(self._run)

    def again(self, layout: Feed, since: int) -> "Backlog":
        """Return what is left for another layout; this one is used up by that."""
        since = max(since, self.since)
        return Backlog(self.entries, self.components, self.slots, layout, since, self.gone, self.known)

    def next_keys(self) -> Vector:
        """Return keys that nobody has asked for; in the end there are none left."""
        run = self._sorted()
        start, self._at = self._at, self._at + PART
        return run.some_keys(start, self._at)

    def take(self, keys: Vector, alive: Alive) -> Matrix:
        """Take the live entries with one of the keys, laid out for the join."""
        places = self._sorted().places(keys)
        places = np.sort(places[~self.gone[places]])
        self.gone[places] = True
        return self.laid_out(places, alive)

    def known_places(self, keys: Vector) -> Vector:
        """Return the places of entries by the index they had."""
        assert self.known is not None
        places = self.known.index.places(self.known.side, keys, self.entries)
        return places[self.entries[places, LATEST] >= self.since] if self.since else places

    def laid_out(self, places: Vector, alive: Alive) -> Matrix:
        """Return the live entries at some places, laid out for the join."""
        found = self.entries[places]
        found = found[alive(found, self.slots)]
        return self.layout.prepare(self.layout.arrange(found, self.components))

    def run_of(self, keys: Vector, there: Mask) -> KeyRun:
        """Return the entries that are left by a key, of which only those that are there count."""
        there &= ~self.gone
        if self.since:
            there &= self.entries[:, LATEST] >= self.since
        return KeyRun(keys, there)

    def _sorted(self) -> KeyRun:
        if self._run is None:
            self._run = self.run_of(*self.layout.keys_of(self.entries, self.components))
        return self._run

    def renumber(self, component: str, places: Vector, base: int) -> None:
        """Follow a row store that has numbered its rows anew."""
        if component in self.components:
            column = self.entries[:, ROWS + self.components.index(component)]
            column[:] = moved(column, places, base)
