"""Pack: the rows of one stream's partition become one Arrow blob per version, alias and bucket, and a tick for each.

Arrow batches of a partition ──▶ time, offset, used columns ──▶ bucket of each row ──▶ blobs, ticks
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.control.controls import control_row
from midstream.engine.rows.packed import Packed, Span
from midstream.engine.rows.routing import buckets_of
from midstream.engine.rows.rows import OFFSET, TIME, Rows, Vector, one_array
from midstream.live.blobs import from_blob, to_blob
from midstream.model.names import is_name
from midstream.model.time import LONGEST_US, NEVER
from midstream.model.types import storage_type
from midstream.plan.plan import Plan

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
MOST_SPANS = 64
"""Spans of times that are listed: rows after them are too far ahead of anything."""
LEGIBLE = 120
"""Bytes of a stray control row that are shown."""
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
    spanned: bool = False
    """Ticks say where the times lie, because rows of some stream may be too far ahead."""
    ahead_us: int | None = None
    """How far ahead a row may be."""

    def lines(self, table: pa.Table | None, part: int) -> list[Line]:
        """Return the packed lines of a partition's rows."""
        lines: list[Line] = []
        high, said = NEVER, None
        if table is not None and table.num_rows:
            versions = self.versions()
            rows = self._recorded(table) if self.recorded else self._live(table, part)
            high = int((table.column("high").to_numpy() if self.recorded else rows.times).max(initial=NEVER))
            said = self._said(table, rows, [number for number, _ in versions])
            for number, plan in versions if len(rows) else ():
                for rank, source in enumerate(plan.query.sources):
                    if source.stream.name == self.stream:
                        lines += self._blobs(number, rank, plan, source.alias, part, rows)
            untimed = 0 if self.recorded else table.num_rows - len(rows)
            if untimed:
                lines.append((self.labels[0], UNTIMED, 0, 0, self.position, untimed, None))
        return lines + [(label, TICK, 0, 0, self.position, high, said) for label in self.labels]

    def _said(self, table: pa.Table, rows: Rows, versions: list[int]) -> bytes:
        """Return what else is known: the least time, for which versions, in a recorded run where time has come to."""
        said: dict[str, Any] = {"low": int(rows.times.min()) if len(rows) else None, "versions": versions}
        if self.spanned and len(rows):
            said["spans"] = spans_of(rows.times, self.ahead_us)
        if self.recorded:
            said |= {
                "clock_us": int(table.column("clock").to_numpy().max()),
                "last": any(table.column("last").to_pylist()),
            }
        return json.dumps(said).encode()

    def _live(self, table: pa.Table, part: int) -> Rows:
        """Take rows as Spark gives them; rows without a time, or with one that nothing can be added to, only count."""
        time = table.column(self.time)
        if time.null_count:
            table = table.filter(time.is_valid())
            time = table.column(self.time)
        if pa.types.is_timestamp(time.type):
            time = time.cast(pa.timestamp("us", time.type.tz), safe=False)
        times = np.array(time.cast(pa.int64()).to_numpy(), np.int64)
        placed = (times > -LONGEST_US) & (times < LONGEST_US)
        if not placed.all():
            table, times = table.filter(pa.array(placed)), times[placed]
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
        places = buckets_of(plan.partitioning, alias, len(self.labels), used.times, used.columns)
        if places is None:
            blob = to_blob(used.to_table())
            return [(label, ROWS, version, rank, part, 0, blob) for label in self.labels]
        lines: list[Line] = []
        for bucket, label in enumerate(self.labels):
            mine = used.where(places == bucket)
            if len(mine):
                lines.append((label, ROWS, version, rank, part, 0, to_blob(mine.to_table())))
        return lines


def packed_batch(lines: Sequence[Line]) -> pa.RecordBatch:
    """Return packed lines as a batch."""
    columns = zip(*lines, strict=True) if lines else [()] * len(PACKED_ARROW)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, PACKED_ARROW.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=PACKED_ARROW)


def spans_of(times: Vector, ahead_us: int | None) -> list[Span]:
    """Return where times lie: spans without a gap that is longer than rows may be ahead, no more than so many.

    >>> spans_of(np.array([7, 3, 5, 90, 4, 99]), 10)
    [Span(low=3, high=7, rows=4), Span(low=90, high=99, rows=2)]
    """
    ordered = np.sort(times)
    gaps = np.flatnonzero(np.diff(ordered) > ahead_us) if ahead_us is not None else np.empty(0, np.int64)
    starts, ends = [0, *(gaps + 1).tolist()], [*gaps.tolist(), len(ordered) - 1]
    lines = list(zip(starts, ends, strict=True))[:MOST_SPANS]
    return [Span(int(ordered[a]), int(ordered[b]), b - a + 1) for a, b in lines]


def unpack(lines: Iterable[Any], spec: BucketSpec, batch: int | None = None) -> Packed:
    """Return what the packed lines of a micro-batch bring to a bucket; `batch` is its number, where it is known."""
    packed = Packed(batch=batch)
    for row in lines:
        if row.kind == TICK:
            _see_tick(packed, row)
        elif row.kind == UNTIMED:
            packed.untimed += row.high
        elif row.kind == CONTROL:
            _see_control(packed, bytes(row.blob))
        elif row.kind == ROWS:
            query = spec.plan_of(row.version).query
            names = query.columns_of(query.sources[row.alias].alias)
            mine = Rows.of_table(from_blob(bytes(row.blob)), names)
            packed.rows.setdefault((row.version, row.alias), []).append((row.part, mine))
    packed.controls.sort(key=lambda c: c["id"])
    return packed


def _see_tick(packed: Packed, row: Any) -> None:
    packed.high[row.part] = max(row.high, packed.high.get(row.part, row.high))
    said = json.loads(bytes(row.blob)) if row.blob is not None else {}
    if said.get("low") is not None:
        packed.low[row.part] = min(said["low"], packed.low.get(row.part, said["low"]))
    if "spans" in said:
        packed.spans.setdefault(row.part, []).extend(Span(*span) for span in said["spans"])
    if said.get("clock_us") is not None:
        packed.clock_us = max(said["clock_us"], packed.clock_us or said["clock_us"])
    packed.last |= said.get("last", False)
    if "versions" in said:
        mine = set(said["versions"])
        packed.versions = mine if packed.versions is None else packed.versions & mine


def _see_control(packed: Packed, text: bytes) -> None:
    """Take a control row; what is none is named and left out."""
    row = control_row(text)
    if row is not None and is_name(row["id"]):
        packed.controls.append(row)
    elif text.strip():
        packed.strays.append(text[:LEGIBLE].decode("utf-8", "replace"))
