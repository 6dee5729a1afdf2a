"""Lookup: the entries of a state by a value that is not the key of its join. Derived: it can be made anew."""

from collections.abc import Callable

import numpy as np

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.key_index import LEFT_HEAD
from midstream.operators.sliding.backlog import Alive, Backlog
from midstream.operators.sliding.join_state import JoinInputState
from midstream.operators.sliding.key_index import KeyIndex
from midstream.operators.sliding.key_run import KeyRun

PLACE, VALUE, NEXT = range(3)
"""Columns of a line: the place of the entry, its value, the next line with that value."""

Values = Callable[[Matrix, tuple[str, ...]], tuple[Vector, Mask]]
"""Returns what is looked for in entries with certain components, and which of them have it: some rows are gone."""


class Lookup:
    """The entries of a state and of its backlog by value.

    Those that are there at first are in a run, those that come later in an index, if they are alive when they are first
    looked at. Invariant: every live entry before `_upto` is in either, while the state has not moved its entries.
    """

    def __init__(self, group: int) -> None:
        self._group = group
        """The equality class of the value."""
        self._run: KeyRun | None = None
        self._index = KeyIndex(VALUE, NEXT)
        self._lines: Matrix = np.empty((0, 3), np.int64)
        self._count = 0
        self._upto = 0
        self._moves = 0
        self._backlog: list[tuple[Backlog, KeyRun | None]] = []

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        runs = [self._run, *(run for _, run in self._backlog)]
        return self._index.nbytes + int(self._lines.nbytes) + sum(run.nbytes for run in runs if run is not None)

    def entries(self, state: JoinInputState, keys: Vector, alive: Alive, values: Values) -> Matrix:
        """Return entries that have one of the values, in the layout of the state; some of them may be dead."""
        self._follow(state, alive, values)
        assert self._run is not None
        lines = self._lines[self._index.places(LEFT_HEAD, keys, self._lines), PLACE]
        found = [state.entries[np.concatenate([self._run.places(keys), lines])]]
        for backlog, run in self._backlog:
            places = backlog.known_places(keys) if run is None else run.places(keys)
            found.append(backlog.laid_out(places[~backlog.gone[places]], alive))
        return np.concatenate(found)

    def _follow(self, state: JoinInputState, alive: Alive, values: Values) -> None:
        """Know what has become of the entries since."""
        if self._run is None or self._moves != state.moves:
            self._run = KeyRun(*values(state.held, state.components))
            self._index, self._count, self._moves = KeyIndex(VALUE, NEXT), 0, state.moves
        else:
            fresh = state.held[self._upto :]
            found = np.flatnonzero(alive(fresh, state.slots))
            self._add(found + self._upto, values(fresh[found], state.components)[0])
        self._upto = state.count
        known = {id(backlog): run for backlog, run in self._backlog}
        self._backlog = [(b, known[id(b)] if id(b) in known else self._run_of(b, values)) for b in state.backlog]

    def _run_of(self, backlog: Backlog, values: Values) -> KeyRun | None:
        """Return a run of what is left in a backlog, or None if the index that its entries had is by the same value."""
        if backlog.known is not None and backlog.known.groups == (self._group,):
            return None
        return backlog.run_of(*values(backlog.entries, backlog.components))

    def _add(self, places: Vector, values: Vector) -> None:
        start, end = self._count, self._count + len(places)
        if end > len(self._lines):
            grown = np.empty((max(64, 2 * end), 3), np.int64)
            grown[:start] = self._lines[:start]
            self._lines = grown
        self._lines[start:end, PLACE], self._lines[start:end, VALUE] = places, values
        self._count = end
        self._index.make_room(end - start)
        self._index.add(LEFT_HEAD, self._lines[:end], start)
