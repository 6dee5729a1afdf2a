"""Ends: when the tuples that an operator has counted are over, and what to take off then."""

from collections.abc import Callable, Sequence

import numpy as np

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.groups import BLOCK, enter_ends, keep_ends, mark_ends, renumber_ends, take_ends
from midstream.operators.hopping.tuples import FOREVER, Tuples
from midstream.operators.source.memory import check_room
from midstream.operators.source.tape import grown
from midstream.operators.source.value_table import ValueTable

SAMPLE = np.random.default_rng(0).integers(0, 2**62, 2048)
"""Tuples, here and there, that are looked at to tell whether many of a slot end together."""
FOLD_ENDS = 1 << 18
"""How many entries are held before it is seen whether many of a slot end together."""


class Ends:
    """Tuples that will end: slot, sign and some columns of each.

    A tuple that goes before its time leaves two entries that cancel each other at its end. Places of entries that were
    taken out are used again when they are half of all.
    """

    def __init__(self, columns: Sequence[int] = ()) -> None:
        self._columns = np.array(columns, np.int64)
        self._count = self._taken = 0
        self._fold_at = FOLD_ENDS
        self._until = np.empty(16, np.int64)
        self._least = np.empty(1, np.int64)
        """The least end of each block of entries."""
        self._entries = np.empty((16, 2 + len(columns)), np.int64)

    @property
    def tuples(self) -> int:
        """Return how many entries are held."""
        return self._count - self._taken

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return self._until.nbytes + self._least.nbytes + self._entries.nbytes

    def add(self, slots: Vector, tuples: Tuples) -> None:
        """Note tuples, but those that time alone does not end."""
        assert tuples.signs is not None, "a delta"
        need = self._count + len(tuples)
        if need > len(self._until):
            size = max(need, 3 * len(self._until) // 2)
            check_room(8 * size * (3 + len(self._columns)), "the ends of tuples")
            self._until = grown(self._until, self._count, size)
            self._entries = grown(self._entries, self._count, size)
            self._least = grown(self._least, len(self._least), size // BLOCK + 1)
        self._count = enter_ends(
            self._until, self._entries, self._least, self._count,
            slots, tuples.until, tuples.signs, tuples.rows, self._columns, FOREVER,
        )  # fmt: skip

    def fold(self, added: Callable[[Vector, int, Matrix], Matrix] | None = None) -> None:
        """Hold entries of a slot that end together as one, when they are many: pieces of a join bring the same again.

        `added` returns columns of entries added up by lot, of so many.
        """
        if self.tuples < self._fold_at:
            return
        n = self._count = keep_ends(self._until, self._entries, self._least, self._count)
        self._taken = 0
        entries, until = self._entries[:n], self._until[:n]
        first, lots = ending_together(entries[:, 0], until)
        if 2 * len(first) <= n:
            signs = np.bincount(lots, weights=entries[:, 1]).astype(np.int64)
            columns = np.ascontiguousarray(entries[:, 2:])
            columns = columns[: len(first)] if added is None else added(lots, len(first), columns)
            self._count = 0
            self.add(entries[first, 0], Tuples(columns, until[first], signs))
        self._fold_at = max(FOLD_ENDS, 2 * self._count)

    def widen(self, places: Vector, columns: Sequence[int]) -> None:
        """Note other columns from now on; those there are move to new places among them."""
        self._columns = np.array(columns, np.int64)
        moved = np.concatenate([np.arange(2), 2 + places])
        out = np.zeros((len(self._entries), 2 + len(self._columns)), np.int64)
        out[: self._count, moved] = self._entries[: self._count]
        self._entries = out

    def take(self, now_us: int) -> tuple[Vector, Vector, Matrix]:
        """Take out what is over; return slots, signs and columns."""
        found = take_ends(self._until, self._entries, self._least, self._count, now_us)
        self._taken += len(found[0])
        if 2 * self._taken > self._count:
            self._count, self._taken = keep_ends(self._until, self._entries, self._least, self._count), 0
        return found

    def mark(self, used: Mask) -> None:
        """Mark the slots that are mentioned."""
        mark_ends(self._until, self._entries, self._count, used)

    def renumber(self, numbers: Vector) -> None:
        """Follow the slots to their new numbers."""
        renumber_ends(self._until, self._entries, self._count, numbers)


def many_together(slots: Vector, until: Vector) -> bool:
    """Tell by some tuples whether four of a slot, or more, end together."""
    if len(slots) < 4 * len(SAMPLE):
        return False
    some = np.unique(SAMPLE % len(slots))
    same = len(some) - len(ending_together(slots[some], until[some])[0])
    # As with birthdays: of some tuples, some**2 / (2 * lots) are expected to be of the lot of another.
    return same * len(slots) >= 2 * len(some) ** 2


def ending_together(slots: Vector, until: Vector) -> tuple[Vector, Vector]:
    """Find tuples of a slot that end together; return the first of each such lot, and the lot of every tuple."""
    lots = ValueTable(2)
    of_tuple = lots.find(np.column_stack([slots, until]))
    first = np.empty(len(lots), np.int64)
    first[of_tuple[::-1]] = np.arange(len(slots))[::-1]
    return first, of_tuple


def in_lots(slots: Vector, until: Vector, signs: Vector) -> tuple[Vector, Tuples]:
    """Return slots, ends and signs as `Ends` takes them; those of a slot that end together as one, if they are many."""
    if len(slots) >= 32 * len(SAMPLE) and many_together(slots, until):
        first, lots = ending_together(slots, until)
        slots, until = slots[first], until[first]
        signs = np.bincount(lots, weights=signs).astype(np.int64)
    return slots, Tuples(np.empty((len(slots), 0), np.int64), until, signs)
