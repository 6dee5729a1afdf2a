"""Difference and distinct: how often a value is given follows from how often it comes on either side.

    deltas:    counts per value, brought up to date by what comes, goes, and ends; the change of the answer leaves
    complete:  both sides are counted anew; nothing is held

What is given does not end with time: it is taken back when it is no longer in the answer, and may come again when a
right tuple ends.
"""

import numpy as np

from midstream.kernels.arrays import Mask, Vector
from midstream.kernels.values import (
    BAG,
    SET,
    add_counts,
    compare_sides,
    find_slots,
    keep_used,
    mark_slots,
    place_slots,
    renumber,
    repeat_rows,
    settle,
    settle_each,
    take_ended,
)
from midstream.operators.hopping.bag import NEVER, grown
from midstream.operators.hopping.tuples import FOREVER, Tuples, nothing, together


class Entries:
    """The tuples of one side that will end: slot, end and sign of each."""

    def __init__(self) -> None:
        self.count = 0
        self._slots, self._until, self._signs = (np.empty(16, np.int64) for _ in range(3))

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return self._slots.nbytes + self._until.nbytes + self._signs.nbytes

    def add(self, slots: Vector, until: Vector, signs: Vector) -> None:
        """Note tuples; one that goes before its time cancels its own end."""
        ends = until < FOREVER
        if not ends.all():
            slots, until, signs = slots[ends], until[ends], signs[ends]
        n = self.count + len(slots)
        if n > len(self._slots):
            size = max(n, 3 * len(self._slots) // 2)
            self._slots = grown(self._slots, self.count, size)
            self._until = grown(self._until, self.count, size)
            self._signs = grown(self._signs, self.count, size)
        inside = slice(self.count, n)
        self._slots[inside], self._until[inside], self._signs[inside] = slots, until, signs
        self.count = n

    def take_ended(self, now_us: int) -> tuple[Vector, Vector]:
        """Take out what is over; return slots and what to add to their counts."""
        slots, signs, self.count = take_ended(self._slots, self._until, self._signs, self.count, now_us)
        return slots, -signs

    def renumber(self, numbers: Vector) -> None:
        """Follow the slots to their new numbers."""
        renumber(self._slots, self.count, numbers)

    def mark(self, used: Mask) -> None:
        """Mark the slots in use."""
        mark_slots(self._slots, self.count, used)


class CountValues:
    """A difference of sets or bags, or, with nothing on the right, what makes a set of a bag.

    State: the values that are on either side with their counts, and when tuples end.
    """

    def __init__(self, width: int, kind: int = SET, by_tuple: bool = False) -> None:
        self.width = width
        self.kind = kind
        self.by_tuple = by_tuple
        self.now_us = NEVER
        self.tested = 0
        """Values that were looked up."""
        self.flips = 0
        """How often a value came into the answer or left it."""
        self._count = 0
        self._tidy_at = 1024
        self._table = np.full((64, 1), -1, np.int32)
        self._rows = np.empty((32, width), np.int64)
        self._hashes = np.empty(32, np.int64)
        self._counts = np.zeros((32, 3), np.int64)
        self._marks = np.zeros(32, np.int64)
        self._sides = (Entries(), Entries())

    @property
    def tuples(self) -> int:
        """Return how many values and ends are held."""
        return self._count + sum(e.count for e in self._sides)

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        own = (self._table, self._rows, self._hashes, self._counts, self._marks)
        return sum(a.nbytes for a in own) + sum(e.nbytes for e in self._sides)

    def delta(self, now_us: int, left: Tuples, right: Tuples | None = None) -> Tuples:
        """Return the values that come into the answer and leave it."""
        events = []
        if now_us > self.now_us:
            self.now_us = now_us
            # Left ends first: what has ended does not come back because the right one ends, too.
            events += [(side, *self._sides[side].take_ended(now_us)) for side in (0, 1)]
        for side, tuples in ((0, left), (1, right)):
            if tuples is None or not len(tuples):
                continue
            assert tuples.signs is not None, "counts are kept up to date by deltas"
            live = tuples.until >= now_us
            tuples = tuples if live.all() else tuples.where(live)
            assert tuples.signs is not None, "as above"
            slots = self._find(tuples)
            self._sides[side].add(slots, tuples.until, tuples.signs)
            events.append((side, slots, tuples.signs))
        self.tested += sum(len(e[1]) for e in events)
        out = self._each(events) if self.by_tuple else self._at_once(events)
        self._tidy()
        return out

    def _at_once(self, events: list[tuple[int, Vector, Vector]]) -> Tuples:
        touched = np.empty(sum(len(slots) for _, slots, _ in events), np.int64)
        n = 0
        for side, slots, signs in events:
            n = add_counts(self._counts, slots, signs, side, touched, self._marks, n)
        slots, changes, flips = settle(self._counts, touched[:n], self._marks, self.kind)
        self.flips += flips
        return self._given(slots, changes)

    def _each(self, events: list[tuple[int, Vector, Vector]]) -> Tuples:
        out = [nothing(self.width, True)]
        for side, slots, signs in events:
            changed, changes, flips = settle_each(self._counts, slots, signs, side, self.kind)
            self.flips += flips
            out.append(self._given(changed, changes))
        return together(out)

    def complete(self, now_us: int, left: Tuples, right: Tuples | None = None) -> Tuples:
        """Return the values in the answer, a bag's as often as they are."""
        other = np.empty((0, self.width), np.int64) if right is None else right.rows
        self.tested += len(left) + len(other)
        kept = compare_sides(left.rows, other, self.kind)
        rows = left.rows.take(np.flatnonzero(kept), axis=0)
        return Tuples(rows, np.full(len(rows), FOREVER, np.int64))

    def _given(self, slots: Vector, changes: Vector) -> Tuples:
        rows, signs = repeat_rows(self._rows, slots, changes)
        return Tuples(rows, np.full(len(rows), FOREVER, np.int64), signs)

    def _find(self, tuples: Tuples) -> Vector:
        need = self._count + len(tuples)
        if need > len(self._rows):
            size = max(need, 3 * len(self._rows) // 2)
            self._rows = grown(self._rows, self._count, size)
            self._hashes = grown(self._hashes, self._count, size)
            counts, marks = np.zeros((size, 3), np.int64), np.zeros(size, np.int64)
            counts[: self._count] = self._counts[: self._count]
            self._counts, self._marks = counts, marks
        if 2 * need > len(self._table):
            self._table = np.full((1 << (2 * need).bit_length(), 1), -1, np.int32)
            place_slots(self._table, self._hashes, self._count)
        slots, self._count = find_slots(self._table, self._rows, self._hashes, self._count, tuples.rows)
        return slots

    def _tidy(self) -> None:
        """Forget values that are on neither side, when they are many."""
        if self._count < self._tidy_at:
            return
        used, numbers = np.zeros(self._count, np.bool_), np.empty(self._count, np.int64)
        for side in self._sides:
            side.mark(used)
        n = int(keep_used(self._rows, self._hashes, self._counts, used, numbers))
        self._tidy_at = 3 * n // 2 + 1024
        for side in self._sides:
            side.renumber(numbers)
        self._count = n
        self._table = np.full((max(64, 1 << (4 * n).bit_length()), 1), -1, np.int32)
        place_slots(self._table, self._hashes, n)


__all__ = ["BAG", "SET", "CountValues", "Entries"]
