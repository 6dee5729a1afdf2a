"""Windows at a hop: the rows of a stream that are inside, whole or as what came and went.

`[RANGE w]`: a row says itself until when it is inside. `[ROWS n]`, of the stream or of each key: rows go when others
come, so they are taken back.

State: the rows that were inside at the last hop, and those that have come since and can be inside at the next one.
"""

from collections.abc import Callable, Sequence

import numpy as np

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.values import number_rows
from midstream.operators.hopping.tuples import FOREVER, Chosen, Tuples, in_one_piece
from midstream.operators.source.tape import Tape, grown_with_zeros
from midstream.operators.source.value_table import ValueTable

CodesOf = Callable[[int, Chosen], Vector]
"""Returns the codes of a column, by its place, of chosen rows."""
ALL = slice(None)
SLACK = 1024
"""Rows that others have pushed out since the last hop and that may be held, beside as many as are inside."""
ROOM = 2.0
"""Rows that there is room for, per row held: between two hops many come."""


class HopWindow:
    """The rows of one stream that are in its window, in the order they came."""

    def __init__(self, width: int, range_us: int | None, rows: int | None = None, keys: int = 0) -> None:
        """Rows have `width` columns that are given, and after them `keys` that a window of rows is counted by."""
        self.width = width
        self._range_us = range_us
        self._rows_held = rows
        self._keys = keys
        self._groups = ValueTable(keys)
        self._seen = np.zeros(16, np.int64)
        """How many rows each key has had."""
        self._rows = Tape(np.int64, width + keys, ROOM)
        self._until = Tape(np.int64, None, ROOM)
        """The time of each row, plus the range if there is one: until when it is inside."""
        self._offsets = Tape(np.int64, None, ROOM)
        self._tapes = [self._rows, self._until, self._offsets]
        if rows is not None:
            self._numbers = Tape(np.int64, 2, ROOM)
            """The key of each row, and which of the key's rows it is."""
            self._tapes.append(self._numbers)
        self._given = 0
        """How many of the rows held were given in a delta."""
        self._tidy_at = SLACK
        """How many rows that were not given may be held before those that were pushed out are dropped."""
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
        return self._until.view() - (self._range_us or 0), self._offsets.view()

    def add(self, times: Vector, offsets: Vector, codes_of: CodesOf, next_us: int) -> int:
        """Take in rows in order of time, but those that cannot be inside at the next hop, nor at a later one.

        Return the time of the first one that was taken in, FOREVER for none.
        """
        self.came += len(times)
        if self._range_us is not None:
            chosen: Chosen = slice(int(np.searchsorted(times, next_us - self._range_us)), len(times))
        else:
            keys = np.empty((len(times), self._keys), np.int64)
            for k in range(self._keys):
                keys[:, k] = codes_of(self.width + k, ALL)
            numbers = self._number(keys)
            chosen = in_one_piece(np.flatnonzero(self._inside(numbers)))
            self._numbers.append(numbers[chosen])
        times = times[chosen]
        rows = self._rows.extend(len(times))
        for k in range(self.width + self._keys if len(times) else 0):
            rows[:, k] = codes_of(k, chosen)
        np.add(times, self._range_us or 0, out=self._until.extend(len(times)))
        self._offsets.append(offsets[chosen])
        if self._range_us is None:
            self._tidy()
        return int(times[0]) if len(times) else FOREVER

    def _number(self, keys: Matrix) -> Matrix:
        """Return the key of each row that comes, and which of the key's rows it is."""
        slots = self._groups.find(keys)
        if len(self._groups) > len(self._seen):
            count = len(self._seen)
            self._seen = grown_with_zeros(self._seen, count, max(len(self._groups), 2 * count))
        return np.column_stack([slots, number_rows(slots, self._seen)])

    def _tidy(self) -> None:
        """Drop rows that were pushed out before they were given, when they are many: others are to be taken back."""
        if len(self._rows) - self._given <= self._tidy_at:
            return
        inside = self._inside(self._numbers.view())
        inside[: self._given] = True
        self._keep(inside)
        self._tidy_at = 2 * (len(self._rows) - self._given) + SLACK

    def recode(self, columns: Sequence[Callable[[Vector], Vector]]) -> None:
        """Put other codes in the place of those held, column by column."""
        held = self.held()
        for k, new in enumerate(columns):
            held[:, k] = new(np.ascontiguousarray(held[:, k]))
        self._groups.recode(columns[self.width :])

    def delta(self, now_us: int) -> Tuples:
        """Return what has come, and what must go before its time, for the window at a time; each once.

        It may be a view of what is held, valid until more rows are added.
        """
        rows, until, given = self.held()[:, : self.width], self._until.view(), self._given
        self._given = len(rows)
        if self._range_us is not None:
            first = given + int(np.searchsorted(until[given:], now_us))
            return Tuples(np.ascontiguousarray(rows[first:]), until[first:], np.ones(len(rows) - first, np.int64))
        inside = self._inside(self._numbers.view())
        came, went = rows[given:][inside[given:]], rows[:given][~inside[:given]]
        self._keep(inside)
        signs = np.concatenate([np.ones(len(came), np.int64), np.full(len(went), -1, np.int64)])
        return Tuples(np.concatenate([came, went]), np.full(len(signs), FOREVER, np.int64), signs)

    def complete(self, now_us: int) -> Tuples:
        """Return the rows in the window at a time, the next hop."""
        self.close(now_us)
        return self.at_last_hop()

    def close(self, hop_us: int) -> None:
        """Hold the rows that are inside at a hop, all of them given."""
        if self._range_us is None:
            self._keep(self._inside(self._numbers.view()))
        else:
            ended = int(np.searchsorted(self._until.view(), hop_us))
            for tape in self._tapes:
                tape.drop_front(ended)
        self._given, self._tidy_at = len(self._rows), SLACK

    def at_last_hop(self) -> Tuples:
        """Return the rows that were inside at the last hop, if none has been given since."""
        rows = np.ascontiguousarray(self.held()[: self._given, : self.width])
        if self._range_us is None:
            return Tuples(rows, np.full(len(rows), FOREVER, np.int64))
        return Tuples(rows, self._until.view()[: self._given])

    def _inside(self, numbers: Matrix) -> Mask:
        """Tell which rows have not been pushed out, by their keys and numbers."""
        assert self._rows_held is not None, "a window of rows"
        inside: Mask = numbers[:, 1] >= self._seen[numbers[:, 0]] - self._rows_held
        return inside

    def _keep(self, inside: Mask) -> None:
        """Hold only the chosen ones of the rows held."""
        if inside.all():
            return
        self._given = int(inside[: self._given].sum())
        for tape in self._tapes:
            tape.keep(inside)
