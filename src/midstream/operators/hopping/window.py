"""Windows at a hop: the rows of a stream that are inside, whole or as what came and went. State: those rows.

`[RANGE w]`: a row says itself until when it is inside. `[ROWS n]`, of the stream or of each key: rows go when others
come, so they are taken back.
"""

from collections.abc import Callable, Sequence

import numpy as np

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.operators.hopping.bag import grown
from midstream.operators.hopping.group import GroupTable
from midstream.operators.hopping.tuples import FOREVER, Tuples


class HopWindow:
    """The rows of one stream that are in its window, in the order they came."""

    def __init__(self, width: int, range_us: int | None, rows: int | None = None, keys: int = 0) -> None:
        """Rows have `width` columns that are given, and after them `keys` that a window of rows is counted by."""
        self.width = width
        self._range_us = range_us
        self._rows_held = rows
        self._keys = keys
        self._groups = GroupTable(keys)
        self._seen = np.zeros(16, np.int64)
        """How many rows each key has had."""
        self._rows = np.empty((16, width + keys), np.int64)
        self._until = np.empty(16, np.int64)
        self._numbers = np.empty((16, 2), np.int64)
        """The key of each row, and which of the key's rows it is."""
        self._times = np.empty(16, np.int64)
        self._offsets = np.empty(16, np.int64)
        self._start = self._end = self._given = 0
        """Rows [start, end) are held; those before `given` were given in a delta."""
        self.came = 0
        """Rows that have come so far."""

    @property
    def tuples(self) -> int:
        """Return how many rows are held."""
        return self._end - self._start

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return self._rows.nbytes + self._until.nbytes + self._numbers.nbytes + 2 * self._times.nbytes

    def held(self) -> Matrix:
        """Return the rows held."""
        return self._rows[self._start : self._end]

    def stamps(self) -> tuple[Vector, Vector]:
        """Return times and offsets of the rows held."""
        return self._times[self._start : self._end], self._offsets[self._start : self._end]

    def add(self, rows: Matrix, times: Vector, offsets: Vector) -> None:
        """Take in rows in order of time."""
        n = len(rows)
        self.came += n
        if not n:
            return
        self._make_room(n)
        inside = slice(self._end, self._end + n)
        self._rows[inside] = rows
        self._times[inside], self._offsets[inside] = times, offsets
        if self._range_us is not None:
            self._until[inside] = times + self._range_us
        else:
            self._until[inside] = FOREVER
            self._numbers[inside] = self._number(rows)
        self._end += n

    def _number(self, rows: Matrix) -> Matrix:
        slots = self._groups.find(np.ascontiguousarray(rows[:, self.width :]))
        if len(self._groups) > len(self._seen):
            more = np.zeros(max(len(self._groups), 2 * len(self._seen)), np.int64)
            more[: len(self._seen)] = self._seen
            self._seen = more
        order = np.argsort(slots, kind="stable")
        ordered = slots[order]
        firsts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        ranks = np.arange(len(slots)) - np.repeat(firsts, np.diff(np.r_[firsts, len(slots)]))
        numbers = np.empty(len(slots), np.int64)
        numbers[order] = ranks + self._seen[ordered]
        np.add.at(self._seen, slots, 1)
        return np.column_stack([slots, numbers])

    def recode(self, columns: Sequence[Callable[[Vector], Vector]]) -> None:
        """Put other codes in the place of those held, column by column."""
        held = slice(self._start, self._end)
        for k, new in enumerate(columns):
            self._rows[held, k] = new(np.ascontiguousarray(self._rows[held, k]))
        self._groups.recode(columns[self.width :])

    def delta(self, now_us: int) -> Tuples:
        """Return what has come, and what must go before its time, for the window at a time; each once."""
        new = slice(self._given, self._end)
        if self._range_us is not None:
            rows, until = self._rows[new, : self.width], self._until[new]
            first = int(np.searchsorted(until, now_us))
            self._given = self._end
            return Tuples(np.ascontiguousarray(rows[first:]), until[first:], np.ones(len(until) - first, np.int64))
        held = slice(self._start, self._given)
        gone = ~self._inside(held)
        stays = self._inside(new)
        went, came = self._rows[held][gone], self._rows[new][stays]
        self._given = self._end
        self._drop(np.concatenate([~gone, stays]))
        rows = np.concatenate([came, went])[:, : self.width]
        signs = np.concatenate([np.ones(len(came), np.int64), np.full(len(went), -1, np.int64)])
        return Tuples(np.ascontiguousarray(rows), np.full(len(rows), FOREVER, np.int64), signs)

    def complete(self, now_us: int) -> Tuples:
        """Return the rows in the window at a time."""
        self.forget(now_us)
        self._given = self._end
        held = slice(self._start, self._end)
        if not self._keys:
            return Tuples(self._rows[held], self._until[held])
        return Tuples(np.ascontiguousarray(self._rows[held, : self.width]), self._until[held])

    def forget(self, now_us: int) -> None:
        """Drop rows that are in no window from a time on; of those not given yet, too."""
        if self._range_us is not None:
            ended = int(np.searchsorted(self._until[self._start : self._end], now_us))
            self._start += ended
            self._given = max(self._given, self._start)
            return
        self._drop(self._inside(slice(self._start, self._end)))

    def _inside(self, which: slice) -> Mask:
        slots, numbers = self._numbers[which, 0], self._numbers[which, 1]
        assert self._rows_held is not None, "a window of rows"
        return numbers >= self._seen[slots] - self._rows_held

    def _drop(self, kept: Mask) -> None:
        """Hold only the chosen ones of the rows held."""
        if kept.all():
            return
        places = self._start + np.flatnonzero(kept)
        given = int((places < self._given).sum())
        n = len(places)
        for held in (self._rows, self._until, self._numbers, self._times, self._offsets):
            held[:n] = held[places]
        self._start, self._given, self._end = 0, given, n

    def _make_room(self, more: int) -> None:
        if self._end + more <= len(self._until):
            return
        held = self._end - self._start
        size = max(len(self._until), 2 * (held + more))
        inside = slice(self._start, self._end)
        self._rows, self._until = grown(self._rows[inside], held, size), grown(self._until[inside], held, size)
        self._numbers = grown(self._numbers[inside], held, size)
        self._times, self._offsets = grown(self._times[inside], held, size), grown(self._offsets[inside], held, size)
        self._given -= self._start
        self._start, self._end = 0, held
