"""Difference and distinct: how often a value is given follows from how often it comes on either side.

    deltas:    counts per value, brought up to date by what comes, goes, and ends; the change of the answer leaves
    complete:  both sides are counted anew; nothing is held

What is given does not end with time: it is taken back when it is no longer in the answer, and may come again when a
right tuple ends.
"""

import numpy as np

from midstream.kernels.arrays import Vector
from midstream.kernels.values import (
    SET,
    add_counts,
    keep_left,
    keep_lines,
    mark_counted,
    repeat_rows,
    settle,
    settle_each,
)
from midstream.operators.hopping.bag import NEVER
from midstream.operators.hopping.ends import Ends
from midstream.operators.hopping.tuples import FOREVER, Tuples, nothing, together
from midstream.operators.source.tape import grown_with_zeros
from midstream.operators.source.value_table import ValueTable


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
        self._values = ValueTable(width)
        self._counts = np.zeros((32, 3), np.int64)
        self._marks = np.zeros(32, np.bool_)
        self._sides = (Ends(), Ends())

    @property
    def tuples(self) -> int:
        """Return how many values and ends are held."""
        return len(self._values) + sum(e.tuples for e in self._sides)

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return sum(held.nbytes for held in (self._values, self._counts, self._marks, *self._sides))

    def delta(self, now_us: int, left: Tuples, right: Tuples | None = None) -> Tuples:
        """Return the values that come into the answer and leave it."""
        ended, events = [], []
        if now_us > self.now_us:
            self.now_us = now_us
            for side, ends in enumerate(self._sides):
                slots, signs, _ = ends.take(now_us)
                ended.append((side, slots, -signs))
        for side, tuples in ((0, left), (1, right)):
            if tuples is None or not len(tuples):
                continue
            assert tuples.signs is not None, "counts are kept up to date by deltas"
            live = tuples.until >= now_us
            tuples = tuples if live.all() else tuples.where(live)
            assert tuples.signs is not None, "as above"
            slots = self._find(tuples)
            self._sides[side].add(slots, tuples)
            events.append((side, slots, tuples.signs))
        self.tested += sum(len(e[1]) for e in (*ended, *events))
        if self.by_tuple:
            # Left ends first: what has ended does not come back because the right one ends, too. Entries of a side may
            # cancel each other, so that they count together.
            out = together([*(self._at_once([e]) for e in ended), self._each(events)])
        else:
            out = self._at_once([*ended, *events])
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
        values = ValueTable(self.width, len(left) + len(other))
        theirs, mine = values.find(other), values.find(left.rows)
        kept = keep_left(mine, theirs, len(values), self.kind)
        rows = left.rows.take(np.flatnonzero(kept), axis=0)
        return Tuples(rows, np.full(len(rows), FOREVER, np.int64))

    def _given(self, slots: Vector, changes: Vector) -> Tuples:
        rows, signs = repeat_rows(self._values.rows, slots, changes)
        return Tuples(rows, np.full(len(rows), FOREVER, np.int64), signs)

    def _find(self, tuples: Tuples) -> Vector:
        slots = self._values.find(tuples.rows)
        count, size = len(self._marks), len(self._values)
        if size > count:
            size = max(size, 3 * count // 2)
            self._counts = grown_with_zeros(self._counts, count, size)
            self._marks = grown_with_zeros(self._marks, count, size)
        return slots

    def _tidy(self) -> None:
        """Forget values that are on neither side, when they are many."""
        count = len(self._values)
        if count < self._values.tidy_at:
            return
        used = np.zeros(count, np.bool_)
        mark_counted(self._counts, used)
        for side in self._sides:
            side.mark(used)
        kept = np.flatnonzero(used)
        numbers = self._values.keep(kept)
        for side in self._sides:
            side.renumber(numbers)
        keep_lines(self._counts, kept)
        self._counts[len(kept) : count] = 0
