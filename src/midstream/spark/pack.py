"""Pack: the rows of one stream's partition become one Arrow blob per version, alias and bucket, and a tick for each.

Arrow batches of a partition ──▶ time, offset, used columns ──▶ bucket of each row ──▶ blobs, ticks
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from midstream.engine.rows.routing import buckets_of
from midstream.engine.rows.rows import OFFSET, TIME, Rows, one_array
from midstream.model.time import NEVER
from midstream.model.types import storage_type
from midstream.plan.plan import Plan
from midstream.spark.blobs import from_blob, to_blob

PACKED = "bucket int, kind int, version int, alias int, part int, high long, blob binary"
"""The columns between pack and processor. ROWS: rows of an alias of a version, from partition `part`. TICK: `part` is
the stream's position, `high` its largest time, `blob` what else is known of time. UNTIMED: `high` rows had no time."""
PACKED_ARROW = pa.schema(
    [(n, pa.int32()) for n in ("bucket", "kind", "version", "alias", "part")]
    + [("high", pa.int64()), ("blob", pa.binary())]
)
ROWS, TICK, CONTROL, UNTIMED = 0, 1, 2, 3
"""Kinds of packed lines."""
PART_SHIFT = 28
"""In a live query an offset is the partition's number and the place in it: 2^28 rows per partition and batch."""
Line = tuple[int, int, int, int, int, int, bytes | None]


@dataclass(frozen=True)
class Packer:
    """Packs the rows of one stream. `labels[b]` is what bucket b is called, `recorded` says that rows come as blobs."""

    versions: Callable[[], Sequence[tuple[int, Plan]]]
    """Returns the versions whose rows are wanted, with their numbers."""
    stream: str
    position: int
    time: str
    """The column that has the event time."""
    labels: tuple[int, ...]
    recorded: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack one partition."""
        held = list(batches)
        table = pa.Table.from_batches(held) if held else None
        lines = self.lines(table, TaskContext.get().partitionId())
        yield pa.RecordBatch.from_arrays(
            [pa.array(values, t) for values, t in zip(zip(*lines, strict=True), PACKED_ARROW.types, strict=True)],
            schema=PACKED_ARROW,
        )

    def lines(self, table: pa.Table | None, part: int) -> list[Line]:
        """Return the packed lines of a partition's rows."""
        lines: list[Line] = []
        high, said = NEVER, None
        if table is not None and table.num_rows:
            rows = self._recorded(table) if self.recorded else self._live(table, part)
            high = int((table.column("high").to_numpy() if self.recorded else rows.times).max(initial=NEVER))
            said = self._said(table, rows)
            for number, plan in self.versions() if len(rows) else ():
                for rank, source in enumerate(plan.query.sources):
                    if source.stream.name == self.stream:
                        lines += self._blobs(number, rank, plan, source.alias, part, rows)
            untimed = 0 if self.recorded else table.num_rows - len(rows)
            if untimed:
                lines.append((self.labels[0], UNTIMED, 0, 0, self.position, untimed, None))
        return lines + [(label, TICK, 0, 0, self.position, high, said) for label in self.labels]

    def _said(self, table: pa.Table, rows: Rows) -> bytes:
        """Return what else is known of time: the least of these rows, and in a recorded run where time has come to."""
        said: dict[str, Any] = {"low": int(rows.times.min()) if len(rows) else None}
        if self.recorded:
            said |= {
                "clock_us": int(table.column("clock").to_numpy().max()),
                "last": any(table.column("last").to_pylist()),
            }
        return json.dumps(said).encode()

    def _live(self, table: pa.Table, part: int) -> Rows:
        """Take rows as Spark gives them; rows without a time cannot be placed and only count as late."""
        time = table.column(self.time)
        if time.null_count:
            table = table.filter(time.is_valid())
            time = table.column(self.time)
        if pa.types.is_timestamp(time.type):
            time = time.cast(pa.timestamp("us", time.type.tz), safe=False)
        times = np.array(time.cast(pa.int64()).to_numpy(), np.int64)
        offsets = np.arange(len(times), dtype=np.int64) + (part << PART_SHIFT)
        columns = {}
        for name in table.column_names:
            wanted = storage_type(table.schema.field(name).type)
            if wanted is not None:
                columns[name] = one_array(table.column(name).cast(wanted))
        return Rows(times, offsets, columns)

    def _recorded(self, table: pa.Table) -> Rows:
        rows = pa.concat_tables([from_blob(blob.as_py()) for blob in table.column("blob")]).combine_chunks()
        columns = {name: one_array(rows.column(name)) for name in rows.column_names if name not in (TIME, OFFSET)}
        return Rows(np.array(rows.column(TIME), np.int64), np.array(rows.column(OFFSET), np.int64), columns)

    def _blobs(self, version: int, rank: int, plan: Plan, alias: str, part: int, rows: Rows) -> list[Line]:
        used = Rows(rows.times, rows.offsets, {name: rows.columns[name] for name in plan.query.columns_of(alias)})
        if len(self.labels) == 1 or plan.partitioning.one_bucket:
            return [(self.labels[0], ROWS, version, rank, part, 0, to_blob(used.to_table()))]
        places = buckets_of(plan.partitioning, alias, len(self.labels), rows.offsets, rows.columns)
        if places is None:
            blob = to_blob(used.to_table())
            return [(label, ROWS, version, rank, part, 0, blob) for label in self.labels]
        lines: list[Line] = []
        for bucket, label in enumerate(self.labels):
            mine = used.where(places == bucket)
            if len(mine):
                lines.append((label, ROWS, version, rank, part, 0, to_blob(mine.to_table())))
        return lines
