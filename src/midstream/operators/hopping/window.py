"""Windows at a hop: the rows of a stream that are inside, whole or as what came and went. State: those rows.

`[RANGE w]`: a row says itself until when it is inside. `[ROWS n]`, of the stream or of each key: rows go when others
come, so they are taken back.
"""

from collections.abc import Callable, Sequence

import numpy as np

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.values import number_rows
from midstream.operators.hopping.tuples import FOREVER, Tuples
from midstream.operators.source.tape import Tape, grown
from midstream.operators.source.value_table import ValueTable

ROOM = 2.0
"""Rows that there is room for, per row held: between two hops many come."""


class HopWindow:
    """The rows of one stream that are in its window, in the order they came."""

    def __init__(self, width: int, range_us: int | None, rows: int | None = None, keys: int = 0) -> None:
        """Rows have `width` columns that are given, and after them `keys` that a window of rows is counted by."""
        self.width = width
        self._range_us = range_us
        self._rows_held = rows
        self._groups = ValueTable(keys)
        self._seen = np.zeros(16, np.int64)
        """How many rows each key has had."""
        self._rows = Tape(np.int64, width + keys, ROOM)
        self._until = Tape(np.int64, None, ROOM)
        self._times = Tape(np.int64, None, ROOM)
        self._offsets = Tape(np.int64, None, ROOM)
        self._tapes = [self._rows, self._until, self._times, self._offsets]
        if rows is not None:
            self._numbers = Tape(np.int64, 2, ROOM)
            """The key of each row, and which of the key's rows it is."""
            self._tapes.append(self._numbers)
        self._given = 0
        """How many of the rows held were given in a delta."""
        self.came = 0
        """Rows that have come so far."""

    @property
    def tuples(self) -> int:
        """Return how many rows are held."""
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return sum(tape.nbytes for tape in self._tapes)

    def held(self) -> Matrix:
        """Return the rows held."""
        return self._rows.view()

    def stamps(self) -> tuple[Vector, Vector]:
        """Return times and offsets of the rows held."""
        return self._times.view(), self._offsets.view()

    def add(self, rows: Matrix, times: Vector, offsets: Vector) -> None:
        """Take in rows in order of time."""
        self.came += len(rows)
        self._rows.append(rows)
        self._times.append(times)
        self._offsets.append(offsets)
        if self._range_us is not None:
            np.add(times, self._range_us, out=self._until.extend(len(rows)))
        else:
            self._until.extend(len(rows))[:] = FOREVER
            self._numbers.append(self._number(rows))

    def _number(self, rows: Matrix) -> Matrix:
        slots = self._groups.find(np.ascontiguousarray(rows[:, self.width :]))
        if len(self._groups) > len(self._seen):
            self._seen = grown(self._seen, len(self._seen), max(len(self._groups), 2 * len(self._seen)))
        return np.column_stack([slots, number_rows(slots, self._seen)])

    def recode(self, columns: Sequence[Callable[[Vector], Vector]]) -> None:
        """Put other codes in the place of those held, column by column."""
        held = self.held()
        for k, new in enumerate(columns):
            held[:, k] = new(np.ascontiguousarray(held[:, k]))
        self._groups.recode(columns[self.width :])

    def delta(self, now_us: int) -> Tuples:
        """Return what has come, and what must go before its time, for the window at a time; each once."""
        rows, until, given = self.held()[:, : self.width], self._until.view(), self._given
        self._given = len(rows)
        if self._range_us is not None:
            first = given + int(np.searchsorted(until[given:], now_us))
            return Tuples(rows[first:].copy(), until[first:].copy(), np.ones(len(rows) - first, np.int64))
        inside = self._inside()
        came, went = rows[given:][inside[given:]], rows[:given][~inside[:given]]
        self._keep(inside)
        signs = np.concatenate([np.ones(len(came), np.int64), np.full(len(went), -1, np.int64)])
        return Tuples(np.concatenate([came, went]), np.full(len(signs), FOREVER, np.int64), signs)

    def complete(self, now_us: int) -> Tuples:
        """Return the rows in the window at a time."""
        self.forget(now_us)
        self._given = len(self._rows)
        return Tuples(np.ascontiguousarray(self.held()[:, : self.width]), self._until.view())

    def forget(self, now_us: int) -> None:
        """Drop rows that are in no window from a time on; of those not given yet, too."""
        if self._range_us is None:
            self._keep(self._inside())
            return
        ended = int(np.searchsorted(self._until.view(), now_us))
        self._given = max(self._given - ended, 0)
        for tape in self._tapes:
            tape.drop_front(ended)

    def _inside(self) -> Mask:
        slots, numbers = self._numbers.view().T
        assert self._rows_held is not None, "a window of rows"
        inside: Mask = numbers >= self._seen[slots] - self._rows_held
        return inside

    def _keep(self, inside: Mask) -> None:
        """Hold only the chosen ones of the rows held."""
        if inside.all():
            return
        self._given = int(inside[: self._given].sum())
        for tape in self._tapes:
            tape.keep(inside)
