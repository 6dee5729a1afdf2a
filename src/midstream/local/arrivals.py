"""Arrivals: recorded rows put in event-time order, late ones set aside.

    chunks ──▶ late? set aside ──▶ pending, sorted by (time, offset) ──▶ released once nothing earlier can come

A row is late when its time is more than the allowed lateness below the largest time seen in its stream before it. That
depends on the stream alone, so it is the same at any batch width.
"""

from collections.abc import Callable, Sequence

import numpy as np

from midstream.engine.rows.rows import Rows, in_order
from midstream.local.sources import RecordedStream
from midstream.model.time import FOREVER, NEVER


class StreamReader:
    """Reads one stream in event-time order.

    Invariant: `pending` is sorted by (time, offset) and holds every row read that was neither released nor late.
    """

    def __init__(
        self, stream: RecordedStream, columns: Sequence[str], on_late: Callable[[Rows], None] | None = None
    ) -> None:
        self.late = 0
        self._on_late = on_late
        self._lateness_us = stream.lateness_us
        self._chunks = stream.chunks(columns)
        self._largest = NEVER
        self._ended = False
        self._pending = stream.empty(columns)

    def next_time(self) -> int:
        """Return a time no row still to be released is below; FOREVER when there is none."""
        while not len(self._pending) and not self._ended:
            self._pull()
        earliest = int(self._pending.times[0]) if len(self._pending) else FOREVER
        return earliest if self._ended else min(earliest, self._frontier)

    @property
    def _frontier(self) -> int:
        """Return the time below which every further row would be late."""
        return max(NEVER, self._largest - self._lateness_us)

    def time_of(self, count: int) -> int:
        """Return the time of the last of so many rows that are released next, or FOREVER when there are fewer."""
        while not self._ended and not self._knows(count):
            self._pull()
        return int(self._pending.times[count - 1]) if len(self._pending) >= count else FOREVER

    def _knows(self, count: int) -> bool:
        """Tell whether no row can still come before the last of so many that are released next."""
        return len(self._pending) >= count and int(self._pending.times[count - 1]) < self._frontier

    def last_time(self) -> int:
        """Return the time of the last row that is known, or NEVER."""
        return int(self._pending.times[-1]) if len(self._pending) else NEVER

    def until(self, end_us: int) -> Rows:
        """Release the rows with a time below `end_us`."""
        while not self._ended and self._frontier < end_us:
            self._pull()
        pending = self._pending
        count = int(np.searchsorted(pending.times, end_us))
        self._pending = pending.between(count, len(pending))
        return pending.between(0, count)

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
        if not len(chunk):
            return
        largest = np.maximum.accumulate(np.maximum(chunk.times, self._largest))
        self._largest = int(largest[-1])
        # Times near the ends of int64 must not wrap around.
        late = (chunk.times < largest) & (largest - chunk.times > self._lateness_us)
        if late.any():
            self.late += int(np.count_nonzero(late))
            if self._on_late is not None:
                self._on_late(chunk.where(late))
            chunk = chunk.where(~late)
        self._pending = in_order([self._pending, chunk])
