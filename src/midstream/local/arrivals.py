"""Arrivals: recorded rows put in event-time order, late ones set aside.

    chunks ──▶ late? set aside ──▶ pending, sorted by (time, offset) ──▶ released once nothing earlier can come

A row is late when its time is more than the allowed lateness below the largest time seen in its stream before it. That
depends on the stream alone, so it is the same at any batch width.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.local.sources import RecordedStream, StreamRows
from midstream.model.time import FOREVER, NEVER


class StreamReader:
    """Reads one stream in event-time order.

    Invariant: `pending` is sorted by (time, offset) and holds every row read that was neither released nor late.
    """

    def __init__(
        self, stream: RecordedStream, columns: Sequence[str], on_late: Callable[[StreamRows], None] | None = None
    ) -> None:
        self.late = 0
        self._on_late = on_late
        self._lateness_us = stream.lateness_us
        self._chunks = stream.chunks(columns)
        self._largest = NEVER
        self._ended = False
        self._times: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._offsets: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._rows = stream.empty(columns)

    def next_time(self) -> int:
        """Return a time no row still to be released is below; FOREVER when there is none."""
        while not len(self._times) and not self._ended:
            self._pull()
        earliest = int(self._times[0]) if len(self._times) else FOREVER
        return earliest if self._ended else min(earliest, self._frontier)

    @property
    def _frontier(self) -> int:
        """Return the time below which every further row would be late."""
        return max(NEVER, self._largest - self._lateness_us)

    def until(self, end_us: int) -> StreamRows:
        """Release the rows with a time below `end_us`."""
        while not self._ended and self._frontier < end_us:
            self._pull()
        count = int(np.searchsorted(self._times, end_us))
        out = StreamRows(self._times[:count], self._offsets[:count], self._rows.slice(0, count))
        self._times, self._offsets = self._times[count:], self._offsets[count:]
        self._rows = self._rows.slice(count)
        return out

    def skip(self, end_us: int) -> None:
        """Pass over the rows with a time below `end_us`, without holding all of them."""
        self.until(min(end_us, self._frontier))
        while not self._ended and self._frontier < end_us:
            self._pull()
            self.until(min(end_us, self._frontier))
        self.until(end_us)

    def _pull(self) -> None:
        chunk = next(self._chunks, None)
        if chunk is None:
            self._ended = True
            return
        if not len(chunk.times):
            return
        largest = np.maximum.accumulate(np.maximum(chunk.times, self._largest))
        self._largest = int(largest[-1])
        # Times near the ends of int64 must not wrap around.
        late = (chunk.times < largest) & (largest - chunk.times > self._lateness_us)
        if late.any():
            chunk = self._set_aside(chunk, late)
        self._add(chunk)

    def _set_aside(self, chunk: StreamRows, late: npt.NDArray[np.bool_]) -> StreamRows:
        self.late += int(np.count_nonzero(late))
        if self._on_late is not None:
            self._on_late(StreamRows(chunk.times[late], chunk.offsets[late], _filter(chunk.rows, late)))
        kept = ~late
        return StreamRows(chunk.times[kept], chunk.offsets[kept], _filter(chunk.rows, kept))

    def _add(self, chunk: StreamRows) -> None:
        times = np.concatenate([self._times, chunk.times])
        offsets = np.concatenate([self._offsets, chunk.offsets])
        rows = pa.concat_tables([self._rows, chunk.rows]) if len(self._times) else chunk.rows
        if (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            times, offsets = times[order], offsets[order]
            rows = rows.combine_chunks().take(pa.array(order)) if rows.num_columns else rows
        self._times, self._offsets, self._rows = times, offsets, rows


def _filter(rows: pa.Table, mask: npt.NDArray[np.bool_]) -> pa.Table:
    return rows.filter(pa.array(mask)) if rows.num_columns else rows
