"""Lookup: the entries of a state by a value that is not the key of its join. Derived: it can be made anew."""

from collections.abc import Callable

import numpy as np

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.key_index import LEFT_HEAD
from midstream.operators.sliding.join_state import JoinInputState
from midstream.operators.sliding.key_index import KeyIndex

PLACE, VALUE, NEXT = range(3)
"""Columns of a line: the place of the entry, its value, the next line with that value."""


class Lookup:
    """An index over the entries of a state that were alive when they were first looked at.

    Invariant: every entry before `_upto` that was alive then is in a line, while the state has not moved its entries.
    """

    def __init__(self) -> None:
        self._index = KeyIndex(VALUE, NEXT)
        self._lines: Matrix = np.empty((0, 3), np.int64)
        self._count = 0
        self._upto = 0
        self._moves = 0

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        return self._index.nbytes + int(self._lines.nbytes)

    def places(self, state: JoinInputState, keys: Vector, alive: Callable[[Matrix], Mask],
               values: Callable[[Matrix], Vector]) -> Vector:  # fmt: skip
        """Return the places of the entries that have one of the values.

        `alive` tells which of some entries are alive and of interest, `values` what is looked for in them.
        """
        if self._moves != state.moves:
            self._index, self._count, self._upto, self._moves = KeyIndex(VALUE, NEXT), 0, 0, state.moves
        fresh = state.held[self._upto :]
        if len(fresh):
            found = np.flatnonzero(alive(fresh))
            self._add(found + self._upto, values(fresh[found]))
            self._upto = state.count
        places: Vector = self._lines[self._index.places(LEFT_HEAD, keys, self._lines), PLACE]
        return places

    def _add(self, places: Vector, values: Vector) -> None:
        start, end = self._count, self._count + len(places)
        if end > len(self._lines):
            grown = np.empty((max(64, end if not start else 2 * end), 3), np.int64)
            grown[:start] = self._lines[:start]
            self._lines = grown
        self._lines[start:end, PLACE], self._lines[start:end, VALUE] = places, values
        self._count = end
        if not start:
            self._index.rebuild(self._lines[:end], self._lines[:0], 0)
            return
        self._index.make_room(end - start)
        self._index.add(LEFT_HEAD, self._lines[:end], start)
