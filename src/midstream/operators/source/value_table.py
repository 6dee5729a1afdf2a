"""Value table: different rows of codes, each with a number that other arrays are indexed by."""

from collections.abc import Callable, Sequence

import numpy as np

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.bag import hash_rows
from midstream.kernels.values import find_slots, keep_slots, known_slots, place_slots
from midstream.operators.source.memory import check_room
from midstream.operators.source.tape import grown


class ValueTable:
    """Values of some columns, numbered as they are seen. Without columns everything has the number 0."""

    def __init__(self, width: int, room: int = 32) -> None:
        """Start with room for so many values."""
        self._width = width
        self._count = 0
        self.tidy_at = 1024
        """How many values are worth looking for those that nobody needs any more."""
        self._table = np.full((1 << (2 * room).bit_length(), 1), -1, np.int32)
        self.rows = np.empty((room, width), np.int64)
        self._hashes = np.empty(room, np.int64)

    def __len__(self) -> int:
        return self._count if self._width else 1

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return self._table.nbytes + self.rows.nbytes + self._hashes.nbytes

    def find(self, rows: Matrix) -> Vector:
        """Return the number of every row's first columns, a new one for a new value."""
        if not self._width:
            return np.zeros(len(rows), np.int64)
        need = self._count + len(rows)
        if need > len(self.rows):
            size = max(need, 3 * len(self.rows) // 2)
            check_room(8 * size * (self._width + 2), "different values")
            self.rows, self._hashes = grown(self.rows, self._count, size), grown(self._hashes, self._count, size)
        if 2 * need > len(self._table):
            self._place(1 << (2 * need).bit_length())
        wanted = np.ascontiguousarray(rows[:, : self._width])
        slots, self._count = find_slots(self._table, self.rows, self._hashes, self._count, wanted)
        return slots

    def known(self, rows: Matrix) -> Vector:
        """Return the number of every row's first columns, -1 for a value that was not seen."""
        if not self._width:
            return np.zeros(len(rows), np.int64)
        return known_slots(self._table, self.rows, np.ascontiguousarray(rows[:, : self._width]))

    def recode(self, columns: Sequence[Callable[[Vector], Vector]]) -> None:
        """Put other codes in the place of those held, column by column; numbers stay."""
        if not self._width:
            return
        held = self.rows[: self._count]
        for k, new in enumerate(columns):
            held[:, k] = new(np.ascontiguousarray(held[:, k]))
        self._hashes[: self._count] = hash_rows(held, np.arange(self._width))
        self._place(len(self._table))

    def keep(self, kept: Vector) -> Vector:
        """Forget all values but some, given in order; return the new number of each, -1 for none."""
        numbers = keep_slots(self.rows, self._hashes, self._count, kept)
        self._count = len(kept)
        self.tidy_at = 3 * len(kept) // 2 + 1024
        self._place(max(64, 1 << (4 * len(kept)).bit_length()))
        return numbers

    def _place(self, slots: int) -> None:
        self._table = np.full((slots, 1), -1, np.int32)
        place_slots(self._table, self._hashes, self._count)
