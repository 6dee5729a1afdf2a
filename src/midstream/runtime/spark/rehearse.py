"""Rehearse on Spark: recorded streams staged as one file per stream and micro-batch, run through the real pipeline.

recorded streams ──▶ event-time order, late rows set aside ──▶ staged blobs ──▶ Structured Streaming ──▶ sink
"""

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from midstream.runtime.arrivals import FOREVER, StreamReader
from midstream.runtime.loop import Loop, versioned
from midstream.runtime.report import BatchReport, Report
from midstream.runtime.sinks import Sink
from midstream.runtime.sources import StreamRows
from midstream.runtime.spark.blobs import OFFSET, TIME, to_blob
from midstream.runtime.spark.bucket import EVENT, RESULT, BucketSpec
from midstream.runtime.spark.events import event_of, total
from midstream.runtime.spark.graph import labels_of, output_lines, unpack
from midstream.runtime.spark.mapped import forget_query
from midstream.runtime.spark.records import Records
from midstream.runtime.spark.settings import shared_memory, with_settings
from midstream.runtime.watch import OutputWatch

STAGED = "high long, blob binary"


def rehearse(
    spark: SparkSession,
    loop: Loop,
    readers: dict[str, StreamReader],
    sink: Sink,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Run recorded streams through Spark; results reach the sink in max order, as in process."""
    started = time.perf_counter()
    plan = loop.plan
    buckets = 1 if plan.partitioning.one_bucket else loop.buckets
    folder = Path(tempfile.mkdtemp(prefix="midstream-replay-"))
    shared = shared_memory() / f"replay-{uuid.uuid4().hex}"
    report = Report(runtime="spark", buckets=buckets, partitioning=str(plan.partitioning))
    try:
        ends = stage(folder, readers, loop.batch_us)
        if ends:
            _Rehearsal(spark, loop, folder, shared, ends, sink, report, progress).run(buckets)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        forget_query(shared)
    report.late_by_stream = {name: reader.late for name, reader in readers.items()}
    report.late = sum(report.late_by_stream.values())
    report.wall_s = time.perf_counter() - started
    return report


def stage(folder: Path, readers: dict[str, StreamReader], batch_us: int) -> list[tuple[int, int]]:
    """Write one file per stream and micro-batch; return the end of each micro-batch and its number of rows."""
    ends: list[tuple[int, int]] = []
    for name in readers:
        (folder / "in" / _safe_name(readers, name)).mkdir(parents=True)
    while (earliest := min(r.next_time() for r in readers.values())) < FOREVER:
        end = (earliest // batch_us + 1) * batch_us
        rows = {name: reader.until(end) for name, reader in readers.items()}
        if any(len(r.times) for r in rows.values()):
            for name, mine in rows.items():
                _stage_file(folder / "in" / _safe_name(readers, name), len(ends), end, mine)
            ends.append((end, sum(len(r.times) for r in rows.values())))
    return ends


def _safe_name(readers: dict[str, StreamReader], name: str) -> str:
    return f"stream{list(readers).index(name)}"


def _stage_file(folder: Path, number: int, end: int, rows: StreamRows) -> None:
    columns = {TIME: np.asarray(rows.times), OFFSET: np.asarray(rows.offsets)}
    table = pa.table(columns)
    for name in rows.rows.column_names:
        table = table.append_column(name, rows.rows.column(name))
    file = folder / f"{number:08d}.parquet"
    staged = {"high": pa.array([end], pa.int64()), "blob": pa.array([to_blob(table)], pa.binary())}
    pq.write_table(pa.table(staged), file, compression="none")
    os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))  # Spark takes files in order of their age


class _Rehearsal:
    """One run over staged files."""

    def __init__(
        self,
        spark: SparkSession,
        loop: Loop,
        folder: Path,
        shared: Path,
        ends: list[tuple[int, int]],
        sink: Sink,
        report: Report,
        progress: Callable[[int], None] | None,
    ) -> None:
        self.spark, self.loop, self.plan, self.folder, self.shared = spark, loop, loop.plan, folder, shared
        self.records = Records(loop.schedule, str(loop.plan))
        self.watch = OutputWatch()
        self.ends, self.sink, self.report, self.progress = ends, sink, report, progress

    def run(self, buckets: int) -> None:
        """Run all micro-batches."""
        names = list(dict.fromkeys(s.stream.name for s in self.plan.query.sources))
        staged = sorted((self.folder / "in").iterdir(), key=lambda p: int(p.name.removeprefix("stream")))
        lateness = {s.position: 0 for s in self.plan.query.sources}
        labels = labels_of(self.spark, buckets)
        loop = self.loop
        spec = BucketSpec(
            self.plan, lateness, str(self.shared), ordered=True, recorded=True, first_label=labels[0],
            framework=loop.framework, routing=loop.routing, schedule=tuple(loop.schedule), batches=len(self.ends),
        )  # fmt: skip
        with with_settings(self.spark, buckets):
            frames = {
                name: self.spark.readStream.schema(STAGED).option("maxFilesPerTrigger", 1).parquet(str(path))
                for name, path in zip(self._staged_names(names), staged, strict=True)
            }
            lines = output_lines(self.plan, frames, spec, labels, None)
            query = (
                lines.writeStream.foreachBatch(self._on_batch)
                .option("checkpointLocation", str(self.folder / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
        query.awaitTermination()
        self.report.migrations = self.records.told()

    def _staged_names(self, names: list[str]) -> list[str]:
        """Return the streams in the order they were staged: declaration order."""
        return sorted(names, key=lambda n: next(s.position for s in self.plan.query.sources if s.stream.name == n))

    def _on_batch(self, lines: DataFrame, number: int) -> None:
        started = time.perf_counter()
        rows = lines.collect()
        found = unpack([bytes(r.blob) for r in rows if r.kind == RESULT], pa.schema([]))
        if found.num_rows:
            keys = [n for n in found.column_names if n.startswith("_order")]
            ordered = found.sort_by([(k, "ascending") for k in keys])
            self.watch.begin(self.ends[number][0])
            self.watch.see_left(ordered)
            plain = ordered.drop_columns(keys).combine_chunks()
            for batch in plain.to_batches():
                self.sink.write(versioned(batch, 1))
        told = total([event_of(bytes(r.blob)) for r in rows if r.kind == EVENT])
        batch_report = BatchReport(
            end=self.ends[number][0],
            rows_in=self.ends[number][1],
            rows_out=told.rows_out,
            predicate_evaluations=told.predicate_evaluations,
            state_tuples=told.state_tuples,
            state_bytes=told.state_bytes,
            wall_ms=(time.perf_counter() - started) * 1000,
            plan=told.plan,
            phase=told.phase,
            output_delay_us=self.watch.delay_us,
        )
        self.records.see(told.migrations)
        self.report.batches.append(batch_report)
        self.report.rows_in += batch_report.rows_in
        self.report.rows_out += batch_report.rows_out
        if self.progress is not None:
            self.progress(self.report.rows_in)
