"""Arrivals: recorded rows put in event-time order, those that are late or too far ahead set aside.

    chunks ──▶ too far ahead? late? set aside ──▶ pending, by (time, offset) ──▶ released once nothing earlier can come

A row is late when its time is more than the allowed lateness below the largest time seen in its stream before it. That
depends on the stream alone, so it is the same at any batch width. Where streams may be silent, a row is also late when
the run has gone on without its stream (`Silence`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa

from midstream.engine.rows.rows import Rows, Vector, in_order
from midstream.local.ahead import AheadFilter
from midstream.local.silence import Silence
from midstream.local.sources import RecordedStream
from midstream.model.time import FOREVER, NEVER

NONE = np.empty(0, np.int64)
CAME = "\0came"
"""A column of rows that a silence has yet to judge: the largest time of their stream when they came."""


class StreamReader:
    """Reads one stream in event-time order.

    Invariant: `pending` is sorted by (time, offset) and holds every row read that was neither released nor set aside.
    """

    def __init__(
        self,
        stream: RecordedStream,
        columns: Sequence[str],
        on_set_aside: Callable[[Rows], None] | None = None,
        silence: Silence | None = None,
        others: Sequence[RecordedStream] = (),
    ) -> None:
        self.timing = stream.timing
        self.late, self.ahead = 0, 0
        """Rows that were too late, and rows that were too far ahead."""
        self.ended = False
        """All rows have been read."""
        self._on_set_aside = on_set_aside
        self._chunks = stream.chunks(columns)
        self._largest = NEVER
        self._pending = stream.empty(columns)
        self._ahead = _ahead_filter(stream, others)
        self._silence = silence
        self._records: list[Vector] = []
        self._gone_on = NONE, NONE
        """Largest times of the stream, and up to where the run had gone on after each."""
        if silence is not None:
            self._pending = _with_came(self._pending, NONE)

    def next_time(self) -> int:
        """Return a time no row still to be released is below; FOREVER when there is none."""
        while not len(self._pending) and not self.ended:
            self.read_on()
        earliest = int(self._pending.times[0]) if len(self._pending) else FOREVER
        return earliest if self.ended else min(earliest, self.frontier)

    @property
    def frontier(self) -> int:
        """Return the time below which every further row would be late."""
        return max(NEVER, self._largest - self.timing.lateness_us)

    def time_of(self, count: int) -> int:
        """Return the time of the last of so many rows that are released next, or FOREVER when there are fewer."""
        while not self.ended and not self._knows(count):
            self.read_on()
        return int(self._pending.times[count - 1]) if len(self._pending) >= count else FOREVER

    def _knows(self, count: int) -> bool:
        """Tell whether no row can still come before the last of so many that are released next."""
        return len(self._pending) >= count and int(self._pending.times[count - 1]) < self.frontier

    def last_time(self) -> int:
        """Return the time of the last row that is known, or NEVER."""
        return int(self._pending.times[-1]) if len(self._pending) else NEVER

    def until(self, end_us: int) -> Rows:
        """Release the rows with a time below `end_us`."""
        while not self.ended and self.frontier < end_us:
            self.read_on()
        pending = self._pending
        count = int(np.searchsorted(pending.times, end_us))
        self._pending = pending.between(count, len(pending))
        released = pending.between(0, count)
        return released if self._silence is None else self._judged(released, self._silence)

    def read_on(self) -> None:
        """Read a chunk."""
        chunk = next(self._chunks, None)
        self.ended = chunk is None
        if self._ahead is not None:
            chunk, far = self._ahead.take(chunk)
            if far is not None:
                self.ahead += self._set_aside(far)
        if chunk is not None and len(chunk):
            self._take(chunk)

    def _take(self, chunk: Rows) -> None:
        """Set late rows aside, and hold the others."""
        before = self._largest
        largest = np.maximum.accumulate(np.maximum(chunk.times, before))
        self._largest = int(largest[-1])
        if self._silence is not None:
            self._records.append(largest[largest > np.concatenate([[before], largest[:-1]])])
            chunk = _with_came(chunk, largest)
        # Times near the ends of int64 must not wrap around.
        late = (chunk.times < largest) & (largest - chunk.times > self.timing.lateness_us)
        if late.any():
            self.late += self._set_aside(chunk.where(late))
            chunk = chunk.where(~late)
        self._pending = in_order([self._pending, chunk])

    def _judged(self, rows: Rows, silence: Silence) -> Rows:
        """Return the rows that the run has not gone on without; the others are late."""
        if not len(rows):
            return _without_came(rows)
        came = rows.columns[CAME].to_numpy()
        silence.come_to(int(came.max()))
        times, gone_on = self._gone_on
        late = rows.times < gone_on[np.searchsorted(times, came)]
        # Rows that are released later came at or after these.
        earliest = int(self._pending.times[0]) if len(self._pending) else FOREVER
        over = max(0, min(int(np.searchsorted(times, earliest)), len(times) - 1))
        self._gone_on = times[over:], gone_on[over:]
        if late.any():
            self.late += self._set_aside(rows.where(late))
            rows = rows.where(~late)
        return _without_came(rows)

    def _set_aside(self, rows: Rows) -> int:
        """Hand rows on that do not take part; return how many they are."""
        if self._on_set_aside is not None:
            self._on_set_aside(_without_came(rows))
        return len(rows)

    @property
    def reached_us(self) -> int:
        """Return up to where the stream has been read: its largest time so far; FOREVER when that is all of it."""
        return FOREVER if self.ended else self._largest

    def take_records(self, upto_us: int) -> Vector:
        """Return the times up to one that were the largest of the stream when they came, and forget them."""
        records = np.concatenate(self._records) if self._records else NONE
        count = int(np.searchsorted(records, upto_us, side="right"))
        self._records = [records[count:]] if count < len(records) else []
        return records[:count]

    def go_on(self, records: Vector, gone_on_us: Vector) -> None:
        """Take notice of where the run had gone on to after each of these times had come."""
        times, gone_on = self._gone_on
        self._gone_on = np.concatenate([times, records]), np.concatenate([gone_on, gone_on_us])


def read_together(
    streams: Sequence[RecordedStream],
    columns: Mapping[str, Sequence[str]],
    on_set_aside: Callable[[str], Callable[[Rows], None] | None],
    declared: Sequence[RecordedStream],
) -> dict[str, StreamReader]:
    """Return a reader for each stream by name, with the given columns; `declared` are all streams there are."""
    silence = Silence() if any(s.timing.idle_us is not None for s in streams) else None
    readers = {}
    for stream in streams:
        name = stream.schema.name
        others = [other for other in declared if other is not stream]
        readers[name] = StreamReader(stream, columns[name], on_set_aside(name), silence, others)
    if silence is not None:
        silence.join(list(readers.values()))
    return readers


def skip(readers: Collection[StreamReader], end_us: int) -> None:
    """Pass over the rows with a time below `end_us`, without holding all of them."""
    while behind := [reader for reader in readers if not reader.ended and reader.frontier < end_us]:
        slowest = min(behind, key=lambda reader: reader.frontier)
        for reader in readers:
            reader.until(slowest.frontier)
        slowest.read_on()
    for reader in readers:
        reader.until(end_us)


def _ahead_filter(stream: RecordedStream, others: Sequence[RecordedStream] = ()) -> AheadFilter | None:
    """Return what sets rows of a stream aside that are too far ahead, if they can be."""
    ahead_us = stream.timing.ahead_us
    return None if ahead_us is None else AheadFilter(ahead_us, lambda us: any(_end_us(s) >= us for s in others))


def _end_us(stream: RecordedStream) -> int:
    """Return the largest time of a stream that counts without the others."""
    largest, judged = NEVER, _ahead_filter(stream)
    for chunk in (*stream.chunks(()), None):
        rows = chunk if judged is None else judged.take(chunk)[0]
        if rows is not None and len(rows):
            largest = max(largest, int(rows.times.max()))
    return largest


def _with_came(rows: Rows, came: Vector) -> Rows:
    return Rows(rows.times, rows.offsets, {**rows.columns, CAME: pa.array(came)})


def _without_came(rows: Rows) -> Rows:
    if CAME not in rows.columns:
        return rows
    return Rows(rows.times, rows.offsets, {name: column for name, column in rows.columns.items() if name != CAME})
