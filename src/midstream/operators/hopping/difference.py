"""Difference and distinct: how often a value is given follows from how often it comes on either side.

    deltas:    counts per value, brought up to date by what comes, goes, and ends; the change of the answer leaves
    complete:  the left values are counted anew, the right ones among them taken off; nothing is held

Tuples come in pieces, as a join finds them; of a piece only values and ends are held. What is given does not end with
time: it is taken back when it is no longer in the answer, and may come again when a right tuple ends.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

import numpy as np

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.values import (
    BAG,
    SET,
    add_counts,
    add_known,
    extend_ends,
    keep_lines,
    mark_counted,
    repeat_rows,
    settle,
    settle_each,
    take_extended,
)
from midstream.operators.hopping.bag import NEVER
from midstream.operators.hopping.ends import Ends, in_lots
from midstream.operators.hopping.tuples import FOREVER, Tuples, nothing, together, valid
from midstream.operators.source.tape import grown, grown_with_zeros
from midstream.operators.source.value_table import ValueTable

MOST_TUPLES = 1 << 18
"""Tuples that are given in one piece."""


class CountValues:
    """A difference of sets or bags, or, with nothing on the right, what makes a set of a bag.

    State: the values that are on either side with their counts, and when tuples end. Of a side of a set whose tuples
    are never taken back (`lasting`) only the last end of each value counts.
    """

    gathers = True

    def __init__(
        self, width: int, kind: int = SET, by_tuple: bool = False, lasting: tuple[bool, bool] = (False, False)
    ) -> None:
        self.width = width
        self.kind = kind
        self.by_tuple = by_tuple
        self.now_us = NEVER
        self.tested = 0
        """Values that were looked up."""
        self.flips = 0
        """How often a value came into the answer or left it."""
        self._lasting = lasting if kind == SET else (False, False)
        self._values = ValueTable(width)
        self._counts = np.zeros((32, 3), np.int64)
        self._marks = np.zeros(32, np.bool_)
        self._latest = np.full((32, 3 if any(self._lasting) else 0), NEVER, np.int64)
        """The last end of each value on either side, where it is lasting, and a mark of those that have a new one."""
        self._sides = (Ends(), Ends())

    @property
    def tuples(self) -> int:
        """Return how many values and ends are held."""
        return len(self._values) + sum(e.tuples for e in self._sides)

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        own = (self._values, self._counts, self._marks, self._latest, *self._sides)
        return sum(held.nbytes for held in own)

    def delta(self, now_us: int, *sides: Iterable[Tuples]) -> Tuples:
        """Return the values that come into the answer and leave it."""
        return together([nothing(self.width, True), *self._changes(now_us, sides)])

    def complete(self, now_us: int, left: Iterable[Tuples], right: Iterable[Tuples] = ()) -> Tuples:
        """Return the values in the answer, a bag's as often as they are."""
        return together([nothing(self.width, False), *self._counted(left, right)])

    def in_pieces(self, now_us: int, *sides: Iterator[Tuples]) -> Iterator[Tuples]:
        """Yield what `delta` or `complete` returns: of a bag many tuples may be of few values."""
        firsts = [list(islice(side, 1)) for side in sides]
        given = [chain(first, side) for first, side in zip(firsts, sides, strict=True)]
        if any(piece.signs is None for first in firsts for piece in first):
            return self._counted(*given)
        return self._changes(now_us, given)

    def _changes(self, now_us: int, sides: Sequence[Iterable[Tuples]]) -> Iterator[Tuples]:
        ended = []
        if now_us > self.now_us:
            self.now_us = now_us
            for side, ends in enumerate(self._sides):
                slots, signs, _ = ends.take(now_us)
                self.tested += len(slots)
                ended.append((side, slots, -signs))
        if self.by_tuple:
            # Left ends first: what has ended does not come back because the right one ends, too. Entries of a side may
            # cancel each other, so that they count together.
            for each in ended:
                yield from self._settle([self._count(*each)])
            for event in self._events(now_us, sides):
                yield from self._each(*event)
        else:
            touched = [self._count(*each) for each in ended]
            touched += [self._count(*event) for event in self._events(now_us, sides)]
            yield from self._settle(touched)
        self._tidy()

    def _events(self, now_us: int, sides: Iterable[Iterable[Tuples]]) -> Iterator[tuple[int, Vector, Vector]]:
        """Yield side, values and signs of what comes and goes, piece by piece; note when it ends."""
        for side, pieces in enumerate(sides):
            extended = [np.empty(0, np.int64)]
            for piece in pieces:
                tuples = valid(piece, now_us)
                if not len(tuples):
                    continue
                assert tuples.signs is not None, "counts are kept up to date by deltas"
                self.tested += len(tuples)
                slots = self._find(tuples)
                if self._lasting[side]:
                    slots = extend_ends(self._latest, side, slots, tuples.until)
                    extended.append(slots)
                    yield side, slots, np.ones_like(slots)
                else:
                    self._sides[side].add(*in_lots(slots, tuples.until, tuples.signs))
                    self._sides[side].fold()
                    yield side, slots, tuples.signs
            slots = np.concatenate(extended)
            if len(slots):
                until = take_extended(self._latest, side, slots)
                self._sides[side].add(slots, Tuples(np.empty((len(slots), 0), np.int64), until, np.ones_like(slots)))

    def _count(self, side: int, slots: Vector, signs: Vector) -> Vector:
        """Count values in and out of a side; return those that were not touched before."""
        touched = np.empty(len(slots), np.int64)
        n = add_counts(self._counts, slots, signs, side, touched, self._marks, 0)
        return touched[:n].copy()

    def _settle(self, touched: list[Vector]) -> Iterator[Tuples]:
        """Yield how the answer has changed for the values that were touched."""
        chosen = np.concatenate([np.empty(0, np.int64), *touched])
        slots, changes, flips = settle(self._counts, chosen, self._marks, self.kind)
        self.flips += flips
        return self._given(slots, changes)

    def _each(self, side: int, slots: Vector, signs: Vector) -> Iterator[Tuples]:
        """Count values one by one; yield every change of the answer."""
        changed, changes, flips = settle_each(self._counts, slots, signs, side, self.kind)
        self.flips += flips
        return self._given(changed, changes)

    def _counted(self, left: Iterable[Tuples], right: Iterable[Tuples] = ()) -> Iterator[Tuples]:
        """Yield the values in the answer."""
        values: ValueTable | None = None
        counts = np.zeros(0, np.int64)
        for piece in left:
            self.tested += len(piece)
            if values is None:
                values = ValueTable(self.width, max(len(piece), 32))
            slots = values.find(piece.rows)
            if len(values) > len(counts):
                counts = grown_with_zeros(counts, len(counts), max(len(values), 3 * len(counts) // 2))
            add_known(counts, slots, 1)
        for piece in right:
            self.tested += len(piece)
            if values is not None and len(piece):
                slots = values.known(piece.rows)
                if self.kind == BAG:
                    add_known(counts, slots, -1)
                else:
                    counts[slots[slots >= 0]] = 0
        if values is None:
            return
        counts = counts[: len(values)]
        given = np.flatnonzero(counts > 0)
        times = counts.take(given) if self.kind == BAG else np.ones_like(given)
        for piece in _repeated(values.rows, given, times):
            yield Tuples(piece.rows, piece.until)

    def given(self) -> Matrix:
        """Return the values in the answer, each once."""
        return self._values.rows.take(np.flatnonzero(self._counts[: len(self._values), 2] > 0), axis=0)

    def recode(self, columns: Sequence[Callable[[Vector], Vector]]) -> None:
        """Put other codes in the place of those held, column by column."""
        self._values.recode(columns)

    def _given(self, slots: Vector, changes: Vector) -> Iterator[Tuples]:
        return _repeated(self._values.rows, slots, changes)

    def _find(self, tuples: Tuples) -> Vector:
        slots = self._values.find(tuples.rows)
        count, size = len(self._marks), len(self._values)
        if size > count:
            size = max(size, 3 * count // 2)
            self._counts = grown_with_zeros(self._counts, count, size)
            self._marks = grown_with_zeros(self._marks, count, size)
            self._latest = grown(self._latest, count, size)
            self._latest[count:] = NEVER
        return slots

    def _tidy(self) -> None:
        """Forget values that are on neither side, when they are many."""
        if len(self._values) >= self._values.tidy_at:
            self.tidy()

    def tidy(self) -> None:
        """Forget values that are on neither side."""
        count = len(self._values)
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
        keep_lines(self._latest, kept)
        self._latest[len(kept) : count] = NEVER


def _repeated(rows: Matrix, slots: Vector, times: Vector) -> Iterator[Tuples]:
    """Yield the rows of slots as often as the size of a number says, with the sign of it, in pieces."""
    sizes = np.abs(times)
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    if 0 < total <= MOST_TUPLES:
        out, signs = repeat_rows(rows, slots, times)
        yield Tuples(out, np.full(total, FOREVER, np.int64), signs)
        return
    for start in range(0, total, MOST_TUPLES):
        stop = min(start + MOST_TUPLES, total)
        chosen = slice(np.searchsorted(ends, start, "right"), np.searchsorted(ends, stop) + 1)
        last = ends[chosen]
        inside = np.minimum(last, stop) - np.maximum(last - sizes[chosen], start)
        out, signs = repeat_rows(rows, slots[chosen], inside * np.sign(times[chosen]))
        yield Tuples(out, np.full(len(out), FOREVER, np.int64), signs)
