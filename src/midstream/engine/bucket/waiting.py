"""Waiting rows: the rows of one alias that wait for their time, in memory and in chunks of the store.

    taken in ──▶ in memory ──▶ released in order
                  │      ▲
    end of batch  ▼      │ when time comes to their first row
             chunks of the store

A bucket that is put together anew for each micro-batch reads a chunk only when it releases a row of it: rows may wait
for hours, and reading them each time would take longer and longer.
"""

from collections.abc import Sequence

import numpy as np

from midstream.engine.bucket.chunks import WaitingChunk
from midstream.engine.bucket.durable import DurableRows
from midstream.engine.rows.rows import Rows, in_arrival_order, in_order
from midstream.model.time import FOREVER


class WaitingRows:
    """The rows of one alias that wait.

    Invariant: those in memory are in order of (time, offset); all rows of a chunk that has not been read wait.
    """

    def __init__(self, alias: int, names: Sequence[str], durable: DurableRows | None) -> None:
        self._alias = alias
        self._names = names
        self._durable = durable
        self._rows: Rows | None = None
        self._unread: list[WaitingChunk] = []
        self._fresh: list[Rows] = []
        """Rows that no chunk has."""
        self._anew = False
        """The chunks have other rows than those that wait."""
        self._lost = durable is not None
        """What is in memory has to be found again in the chunks."""

    def __len__(self) -> int:
        """Return how many rows wait."""
        self._find()
        return sum(chunk.rows for chunk in self._unread) + (0 if self._rows is None else len(self._rows))

    @property
    def first_us(self) -> int | None:
        """Return the time of the first row."""
        self._find()
        found = [chunk.first_us for chunk in self._unread]
        if self._rows is not None and len(self._rows):
            found.append(int(self._rows.times[0]))
        return min(found, default=None)

    def add(self, rows: Rows) -> None:
        """Let further rows wait."""
        self._find()
        self._rows = in_order([self._rows, rows]) if self._rows is not None and len(self._rows) else rows
        if self._durable is not None:
            self._fresh.append(rows)

    def whole(self) -> Rows | None:
        """Return all rows; None: there are none."""
        self._find()
        self._read(FOREVER)
        return self._rows if self._rows is not None and len(self._rows) else None

    def replace(self, rows: Rows | None) -> None:
        """Let these rows wait, and no others."""
        self._rows, self._unread, self._lost, self._anew = rows, [], False, True

    def start_at(self, start_us: int) -> None:
        """Forget the rows from before a time."""
        first_us = self.first_us
        if first_us is not None and first_us < start_us:
            rows = self.whole()
            self.replace(None if rows is None else rows.since(start_us))

    def release(self, upto_us: int) -> Rows | None:
        """Release the rows below a time; None: there are none."""
        self._find()
        self._read(upto_us)
        rows = self._rows
        cut = 0 if rows is None else int(np.searchsorted(rows.times, upto_us))
        if rows is None or not cut:
            return None
        self._rows = rows.between(cut, len(rows))
        return rows.between(0, cut)

    def keep(self, released_us: int) -> None:
        """Let the store have what it lacks, at the end of a micro-batch; rows before a time have been released."""
        durable = self._durable
        if durable is None:
            return
        if self._anew:
            durable.wait_anew(self._alias, self.whole())
        else:
            durable.wait(self._alias, in_order(self._fresh).since(released_us) if self._fresh else None)
            # Where one that has not been read was put together with others, some of its rows are in memory.
            known = {chunk.number for chunk in durable.waiting_chunks(self._alias)}
            self._lost = any(chunk.number not in known for chunk in self._unread)
        self._fresh, self._anew = [], False

    def _find(self) -> None:
        """Find out which rows the store has."""
        durable = self._durable
        if not self._lost or durable is None:
            return
        self._lost, self._rows = False, None
        self._unread = durable.waiting_chunks(self._alias)
        self._read(durable.released_us)
        if any(chunk.latest_us == FOREVER for chunk in durable.waiting_chunks(self._alias)):
            self._anew = True  # as an older release wrote them

    def _read(self, upto_us: int) -> None:
        """Read the chunks that have rows below a time."""
        chunks = [chunk for chunk in self._unread if chunk.first_us < upto_us]
        if not chunks or self._durable is None:
            return
        self._unread = [chunk for chunk in self._unread if chunk.first_us >= upto_us]
        parts = [self._durable.waiting_rows(self._alias, chunk, self._names) for chunk in chunks]
        rows = in_arrival_order([*parts, *([] if self._rows is None else [self._rows])])
        self._rows = rows.take(np.lexsort((rows.offsets, rows.times)))
