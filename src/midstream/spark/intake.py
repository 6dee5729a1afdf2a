"""Intake: the rows of a query in one bucket, from their arrival until they may be forgotten.

packed rows ──▶ late? ──▶ wait ──▶ released in order ──▶ operators
                                        └──▶ durable window rows, as long as a window needs them
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.local.loop import AnyPlan
from midstream.model.time import FOREVER, NEVER
from midstream.operators.expression.codes import partition_codes
from midstream.plan.window import RangeWindow, RowsWindow
from midstream.spark.blobs import OFFSET, Rows, from_blob, in_order
from midstream.spark.durable import DurableBucket

RANK_SHIFT = 1000
"""Rows of version n are packed under their alias's rank and n - 1 times this."""
VERSION_SHIFT = 40
"""A live offset is (batch, partition, place): later batches come after earlier ones."""


@dataclass
class Packed:
    """What one micro-batch brings to one bucket."""

    rows: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)
    """Per alias: (partition, blob)."""
    high: dict[int, int] = field(default_factory=dict)
    """Per stream position: largest time in this batch."""
    controls: list[dict[str, Any]] = field(default_factory=list)
    untimed: int = 0
    """Rows without a time."""
    low: dict[int, int] = field(default_factory=dict)
    """Per stream position: least time in this batch, of a hopping query."""


class Intake:
    """The rows of one version of a query in one bucket, for the length of one micro-batch."""

    def __init__(
        self, plan: AnyPlan, durable: DurableBucket, lateness_us: dict[int, int], recorded: bool, version: int = 1
    ) -> None:
        self.sources = plan.query.sources
        self.names = [plan.query.columns_of(s.alias) for s in self.sources]
        self.durable = durable
        self.arrived: dict[int, Rows] = {}
        """Rows of each alias that wait, in order."""
        self.late: dict[int, Rows] = {}
        self._released: dict[int, list[Rows]] = {}
        self._lateness_us = lateness_us
        self._recorded = recorded
        self._version = version

    def take_in(self, packed: Packed, start_us: int | None = None) -> None:
        """Take in the rows that may still be in order, beside those that waited; set aside those that are late.

        A row is late when a batch before this one has shown a time further ahead than the allowed lateness.
        """
        head = self.durable.head
        shift = 0 if self._recorded else (head.version % (1 << 22)) << VERSION_SHIFT
        for rank, source in enumerate(self.sources):
            waiting = self.durable.pending_rows(rank)
            mine = packed.rows.get(rank + (self._version - 1) * RANK_SHIFT, [])
            fresh = [_rows(blob, shift) for _, blob in sorted(mine, key=lambda p: p[0])]
            if fresh:
                rows = Rows(pa.concat_tables([f.table for f in fresh]))
                if start_us is not None:
                    rows = rows.where(rows.times >= start_us)
                tardy = rows.times < self.late_before_us(source.position)
                if tardy.any():
                    self.late[rank] = rows.where(tardy)
                    rows = rows.where(~tardy)
                waiting = [*waiting, rows]
            if waiting:
                self.arrived[rank] = in_order(waiting)
        for position, high in packed.high.items():
            if high != NEVER:
                head.high[position] = max(high, head.high.get(position, high))

    def late_before_us(self, position: int) -> int:
        """Return the time below which rows of a stream are late, by what earlier batches have shown."""
        head = self.durable.head
        high = head.high.get(position)
        bound = -FOREVER if high is None else high - self._lateness_us[position]
        return max(bound, head.released_us)

    def start_at(self, start_us: int) -> None:
        """Forget the rows that wait and are from before a time."""
        for rank, rows in self.arrived.items():
            cut = int(np.searchsorted(rows.times, start_us))
            self.arrived[rank] = Rows(rows.table.slice(cut))

    def go_on_from(self, before: "Intake") -> None:
        """Take over the rows that wait, and the late ones."""
        self.arrived, self.late = before.arrived, before.late

    def safe_us(self, drain: bool) -> int:
        """Return the time below which no row that is not late can still come; when all is drained, behind all rows."""
        head = self.durable.head
        if drain and head.high:
            return max(head.high.values()) + 1
        positions = {s.position for s in self.sources}
        if any(p not in head.high for p in positions):
            return head.released_us
        safe = min(head.high[p] - self._lateness_us[p] for p in positions)
        return max(safe, head.released_us)

    def release(self, upto_us: int) -> dict[int, Rows]:
        """Let the rows below a time go; return them by alias."""
        released = {}
        for rank, rows in self.arrived.items():
            cut = int(np.searchsorted(rows.times, upto_us))
            if cut:
                released[rank] = Rows(rows.table.slice(0, cut))
                self._released.setdefault(rank, []).append(released[rank])
                self.arrived[rank] = Rows(rows.table.slice(cut))
        head = self.durable.head
        head.released_us = max(head.released_us, upto_us)
        return released

    def instants(self, upto_us: int) -> list[int]:
        """Return the times of the rows that wait below a time, each once."""
        times = [rows.times[: np.searchsorted(rows.times, upto_us)] for rows in self.arrived.values()]
        return [int(t) for t in np.unique(np.concatenate(times))] if times else []

    def keep(self) -> None:
        """Keep the rows that wait, and those that were released."""
        for rank in range(len(self.sources)):
            if rank in self.arrived:
                self.durable.wait(rank, self.arrived[rank])
            if rank in self._released:
                self.durable.add(rank, in_order(self._released[rank]))

    def let_go(self, now_us: int | None, before_us: int = FOREVER) -> None:
        """Drop durable rows that no window has from a time on; None: no row has been seen.

        From windows of rows others are pushed out by rows before `before_us`.
        """
        for rank, source in enumerate(self.sources):
            window = source.window
            if window is None:
                self.durable.drop(rank, FOREVER, None)
            elif isinstance(window, RangeWindow):
                self.durable.drop(rank, None if now_us is None else now_us - window.width_us, None)
            elif not window.partition_by:
                self.durable.drop(rank, None, window.count, before_us)
            else:
                self._shrink_partitions(rank, window, before_us)

    def _shrink_partitions(self, rank: int, window: RowsWindow, before_us: int) -> None:
        """Rewrite the rows of a partitioned window once most of them have been pushed out."""
        chunks = self.durable.head.chunks.get(rank, [])
        if len(chunks) < 2 or sum(c.rows for c in chunks[1:]) < chunks[0].rows + 4096:
            return
        rows = in_order(self.durable.window_rows(rank))
        columns = rows.alias_rows(self.names[rank]).columns
        codes = partition_codes([columns[c.name] for c in window.partition_by])
        _, partition = np.unique(codes, axis=0, return_inverse=True)
        later = rows.times >= before_us
        # Rows that do not push others out come last: counted from the end of the others, they are all inside.
        counts = np.bincount(partition[~later], minlength=int(partition.max(initial=0)) + 1)
        order = np.argsort(partition, kind="stable")
        sizes = np.bincount(partition)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        self.durable.replace(rank, rows.where(counts[partition] - place <= window.count))

    def numbered(self, rank: int, rows: Rows | None) -> Rows:
        """Return rows of an alias, or an empty table of its columns."""
        if rows is not None:
            return rows
        columns = {n: pa.array([], self.sources[rank].stream.type_of(n)) for n in self.names[rank]}
        return Rows.of(np.empty(0, np.int64), np.empty(0, np.int64), columns)

    def counted(self, rank: int) -> bool:
        """Tell whether an alias is the first of its stream: each row of a stream counts once."""
        source = self.sources[rank]
        return source is next(s for s in self.sources if s.stream.name == source.stream.name)

    def named(self, rank: int, rows: Rows) -> pa.Table:
        """Return late rows with their stream's name and their own column names."""
        names = ["_time", "_offset", *self.names[rank]]
        return rows.table.rename_columns(names).append_column(
            "_stream", pa.repeat(self.sources[rank].stream.name, len(rows))
        )


def _rows(blob: bytes, shift: int) -> Rows:
    table = from_blob(blob)
    if shift:
        place = table.column_names.index(OFFSET)
        table = table.set_column(place, OFFSET, pa.array(table.column(OFFSET).to_numpy() + shift))
    return Rows(table)
