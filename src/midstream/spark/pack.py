"""Pack: the rows of one stream's partition become one Arrow blob per alias and bucket, and a tick for every bucket.

Arrow batches of a partition ──▶ time, offset, used columns ──▶ bucket of each row ──▶ blobs, ticks
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext

from midstream.engine.routing import buckets_of
from midstream.local.loop import AnyPlan
from midstream.model.time import NEVER
from midstream.model.types import storage_type
from midstream.plan.plan import Plan
from midstream.spark.blobs import OFFSET, TIME, Rows, from_blob, to_blob
from midstream.spark.intake import RANK_SHIFT
from midstream.spark.repository import packed_versions

PACKED = "bucket int, alias int, part int, high long, blob binary"
"""The columns between pack and processor. `alias` -1 is a tick: `part` is then the stream's position and `high` its
largest time; of a hopping query `blob` has its least time. `alias` -2 is a control row. `alias` -3 says that `high`
rows had no time."""
PACKED_ARROW = pa.schema(
    [("bucket", pa.int32()), ("alias", pa.int32()), ("part", pa.int32()), ("high", pa.int64()), ("blob", pa.binary())]
)
TICK, CONTROL, UNTIMED = -1, -2, -3

PART_SHIFT = 28
"""In a live query an offset is the partition's number and the place in it: 2^28 rows per partition and batch."""


@dataclass(frozen=True)
class Packer:
    """Packs the rows of one stream. `labels[b]` is what bucket b is called, `recorded` says that rows come as blobs."""

    plan: AnyPlan
    stream: str
    position: int
    time: str
    """The column that has the event time."""
    labels: tuple[int, ...]
    recorded: bool
    versions: tuple[Plan, ...] = ()
    """Later versions of the query, where they are known beforehand."""
    repository: str | None = None
    """The folder of later versions, where they are not."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack one partition."""
        part = TaskContext.get().partitionId()
        held = list(batches)
        table = pa.Table.from_batches(held) if held else None
        lines: list[tuple[int, int, int, int, bytes | None]] = []
        high, low = NEVER, None
        if table is not None and table.num_rows:
            times, offsets, columns = self._recorded(table) if self.recorded else self._live(table, part)
            ahead = table.column("high").to_numpy() if self.recorded else times
            high = int(ahead.max(initial=NEVER))
            if self.plan.query.hop_us is not None and len(times):
                low = int(times.min()).to_bytes(8, "little", signed=True)
            for number, plan in self._wanted():
                for rank, source in enumerate(plan.query.sources):
                    if source.stream.name == self.stream and len(times):
                        alias = rank + (number - 1) * RANK_SHIFT
                        lines += self._blobs(alias, plan, source.alias, part, times, offsets, columns)
            untimed = 0 if self.recorded else table.num_rows - len(times)
            if untimed:
                lines.append((self.labels[0], UNTIMED, self.position, untimed, None))
        lines += [(label, TICK, self.position, high, low) for label in self.labels]
        yield pa.RecordBatch.from_arrays(
            [pa.array(values, t) for values, t in zip(zip(*lines, strict=True), PACKED_ARROW.types, strict=True)],
            schema=PACKED_ARROW,
        )

    def _wanted(self) -> Sequence[tuple[int, AnyPlan]]:
        """Return the versions whose rows are packed."""
        if self.repository is not None and self.plan.query.hop_us is None:
            return packed_versions(Path(self.repository), self.plan)
        return list(enumerate((self.plan, *self.versions), 1))

    def _live(
        self, table: pa.Table, part: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], dict[str, pa.Array]]:
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
                columns[name] = table.column(name).cast(wanted).combine_chunks()
        return times, offsets, {n: _array(c) for n, c in columns.items()}

    def _recorded(self, table: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], dict[str, pa.Array]]:
        rows = pa.concat_tables([from_blob(blob.as_py()) for blob in table.column("blob")]).combine_chunks()
        columns = {name: _array(rows.column(name)) for name in rows.column_names if name not in (TIME, OFFSET)}
        return np.array(rows.column(TIME), np.int64), np.array(rows.column(OFFSET), np.int64), columns

    def _blobs(
        self,
        rank: int,
        plan: AnyPlan,
        alias: str,
        part: int,
        times: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        columns: dict[str, pa.Array],
    ) -> list[tuple[int, int, int, int, bytes | None]]:
        used = {name: columns[name] for name in plan.query.columns_of(alias)}
        rows = Rows.of(times, offsets, used)
        if len(self.labels) == 1 or plan.partitioning.one_bucket:
            return [(self.labels[0], rank, part, 0, to_blob(rows.table))]
        places = buckets_of(plan.partitioning, alias, len(self.labels), offsets, columns)
        if places is None:
            blob = to_blob(rows.table)
            return [(label, rank, part, 0, blob) for label in self.labels]
        lines: list[tuple[int, int, int, int, bytes | None]] = []
        for bucket, label in enumerate(self.labels):
            mine = rows.where(places == bucket)
            if len(mine):
                lines.append((label, rank, part, 0, to_blob(mine.table)))
        return lines


def _array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
