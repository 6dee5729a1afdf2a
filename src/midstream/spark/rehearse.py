"""Rehearse on Spark: recorded streams staged as one file per stream and micro-batch, run through the real pipeline.

recorded streams ──▶ event-time order, late rows set aside ──▶ staged blobs ──▶ Structured Streaming ──▶ sink
"""

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from midstream.change.control import GRACEFUL
from midstream.change.record import unreached
from midstream.change.request import DELAYED_DRAIN, ChangeRequest
from midstream.engine.watch import OutputWatch
from midstream.local.arrivals import StreamReader
from midstream.local.loop import Loop
from midstream.local.report import BatchReport, Report
from midstream.local.sinks import Sink
from midstream.local.sources import StreamRows
from midstream.migrate.record import NOT_REACHED, QUEUED
from midstream.migrate.request import MigrationRequest
from midstream.model.time import FOREVER
from midstream.spark.blobs import OFFSET, TIME, from_blob, to_blob
from midstream.spark.bucket import EVENT, RESULT, BucketSpec
from midstream.spark.control import ELEMENT, ControlLog
from midstream.spark.events import event_of, total
from midstream.spark.graph import labels_of, output_lines
from midstream.spark.hop_bucket import HopBucketSpec
from midstream.spark.hop_meeting import HopMeeting
from midstream.spark.hop_planner import HopPlanner, scheduled
from midstream.spark.mapped import forget_query
from midstream.spark.meeting import Meeting
from midstream.spark.records import Records
from midstream.spark.settings import shared_memory, with_settings

STAGED = "high long, blob binary"


def rehearse(
    spark: SparkSession,
    loop: Loop,
    readers: dict[str, StreamReader],
    sink: Sink,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Run recorded streams through Spark; results reach the sink in the same order as in process."""
    started = time.perf_counter()
    plan = loop.plan
    # Where a drain is over is known to one bucket alone; a version that starts there must know it at once.
    delayed = any(isinstance(r, ChangeRequest) and r.method == DELAYED_DRAIN for r in loop.schedule)
    one = delayed or all(p.partitioning.one_bucket for p in (plan, *loop.versions))
    buckets = 1 if one else loop.buckets
    folder = Path(tempfile.mkdtemp(prefix="midstream-replay-"))
    shared = shared_memory() / f"replay-{uuid.uuid4().hex}"
    report = Report(runtime="spark", buckets=buckets, partitioning=str(plan.partitioning))
    try:
        ends, last_us = stage(folder, readers, loop.batch_us)
        kind = _HopRehearsal if plan.query.hop_us is not None else _VersionRehearsal
        if ends:
            kind(spark, loop, folder, shared, ends, sink, report, progress, last_us).run(buckets)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        forget_query(shared)
    report.late_by_stream = {name: reader.late for name, reader in readers.items()}
    report.late = sum(report.late_by_stream.values())
    report.wall_s = time.perf_counter() - started
    return report


def stage(
    folder: Path, readers: dict[str, StreamReader], batch_us: int
) -> tuple[list[tuple[int, int]], dict[str, int]]:
    """Write one file per stream and micro-batch; return the end and rows of each, and the last time of each stream."""
    last_us: dict[str, int] = {}
    ends: list[tuple[int, int]] = []
    for name in readers:
        (folder / "in" / _safe_name(readers, name)).mkdir(parents=True)
    while (earliest := min(r.next_time() for r in readers.values())) < FOREVER:
        end = (earliest // batch_us + 1) * batch_us
        rows = {name: reader.until(end) for name, reader in readers.items()}
        if any(len(r.times) for r in rows.values()):
            for name, mine in rows.items():
                if len(mine.times):
                    last_us[name] = int(mine.times[-1])
                _stage_file(folder / "in" / _safe_name(readers, name), len(ends), end, mine)
            ends.append((end, sum(len(r.times) for r in rows.values())))
    return ends, last_us


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
        last_us: dict[str, int],
    ) -> None:
        self.spark, self.loop, self.folder, self.shared = spark, loop, folder, shared
        self.records = Records([r for r in loop.schedule if isinstance(r, MigrationRequest)], str(loop.plan))
        self.watch = OutputWatch()
        self.ends, self.sink, self.report, self.progress = ends, sink, report, progress
        self.last_us = last_us
        self.log: ControlLog | None = None
        """Where to send what several buckets decide together: it comes back as control rows."""

    def run(self, buckets: int) -> None:
        """Run all micro-batches."""
        loop = self.loop
        used = {s.stream.name: s for plan in (loop.plan, *loop.versions) for s in plan.query.sources}
        names = [s.schema.name for s in loop.streams if s.schema.name in used]
        staged = sorted((self.folder / "in").iterdir(), key=lambda p: int(p.name.removeprefix("stream")))
        positions = {name: used[name].position for name in names}
        labels = labels_of(self.spark, buckets)
        last_us = {positions[name]: last for name, last in self.last_us.items()}
        spec = self._open(labels, dict.fromkeys(positions.values(), 0), last_us)
        with with_settings(self.spark, buckets, rehearsal=True):
            frames = {
                name: self.spark.readStream.schema(STAGED).option("maxFilesPerTrigger", 1).parquet(str(path))
                for name, path in zip(names, staged, strict=True)
            }
            schemas = {name: used[name].stream for name in names}
            # A run over what is there reads no control rows that come later.
            now = self.log is None
            controls = None if self.log is None else self.spark.readStream.text(str(self.log.folder))
            lines = output_lines(loop.plan, frames, spec, labels, controls, schemas, positions)
            writer = lines.writeStream.foreachBatch(self._on_batch)
            writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
            query = (writer.trigger(availableNow=True) if now else writer).start()
        while not now and query.isActive and len(self.report.batches) < len(self.ends):
            query.awaitTermination(0.1)
        if not now and query.isActive:
            query.stop()
        query.awaitTermination()
        self._end()

    def _open(
        self, labels: tuple[int, ...], lateness_us: dict[int, int], last_us: dict[int, int]
    ) -> BucketSpec | HopBucketSpec:
        """Begin a run over some buckets; return what they share."""
        raise NotImplementedError

    def _leaving(self, number: int, tables: list[pa.Table], events: list[dict[str, Any]]) -> Iterable[pa.RecordBatch]:
        """Return what leaves in a micro-batch, in order."""
        raise NotImplementedError

    def _end(self) -> None:
        """Complete the report."""
        self.report.migrations = self.records.told()

    def _on_batch(self, lines: DataFrame, number: int) -> None:
        if number >= len(self.ends):
            return
        started = time.perf_counter()
        rows = lines.collect()
        events = [event_of(bytes(r.blob)) for r in rows if r.kind == EVENT]
        tables = [from_blob(bytes(r.blob)) for r in rows if r.kind == RESULT]
        self.watch.begin(self.ends[number][0])
        rows_out = 0
        for batch in self._leaving(number, tables, events):
            rows_out += batch.num_rows
            self.sink.write(batch)
        told = total(events)
        batch_report = BatchReport(
            end=self.ends[number][0],
            rows_in=self.ends[number][1],
            rows_out=rows_out,
            predicate_evaluations=told.predicate_evaluations,
            state_tuples=told.state_tuples,
            state_bytes=told.state_bytes,
            wall_ms=(time.perf_counter() - started) * 1000,
            plan=told.plan,
            phase=told.phase,
            output_delay_us=self.watch.delay_us,
            hops=told.hops,
            flips=told.flips,
        )
        self.records.see(told.migrations)
        self.report.batches.append(batch_report)
        self.report.rows_in += batch_report.rows_in
        self.report.rows_out += batch_report.rows_out
        if self.progress is not None:
            self.progress(self.report.rows_in)


class _VersionRehearsal(_Rehearsal):
    """A run of a query that may change on its way."""

    def _open(
        self, labels: tuple[int, ...], lateness_us: dict[int, int], last_us: dict[int, int]
    ) -> BucketSpec | HopBucketSpec:
        loop, plan = self.loop, self.loop.plan
        assert plan.query.hop_us is None, "a query with versions"
        self.changes = [r for r in loop.schedule if isinstance(r, ChangeRequest)]
        """Changes whose position has not been reached."""
        self.begun = 0
        self.meeting = Meeting(labels)
        if len(labels) > 1 and any(r.method in GRACEFUL for r in self.changes):
            self.log = ControlLog(self.folder / "control")
        return BucketSpec(
            plan, lateness_us, str(self.shared), ordered=True, recorded=True, first_label=labels[0],
            framework=loop.framework, routing=loop.routing, schedule=tuple(loop.schedule), batches=len(self.ends),
            versions=tuple(loop.versions), labels=labels, last_us=last_us,
        )  # fmt: skip

    def _leaving(self, number: int, tables: list[pa.Table], events: list[dict[str, Any]]) -> Iterable[pa.RecordBatch]:
        begun = sum("change" in item for item in events[0]["begun"])
        self.changes = self.changes[begun:]
        self.begun += begun
        for table in tables:
            self.watch.see_left(table)
        leaving = self.meeting.on_batch(tables, events, everything=number + 1 == len(self.ends))
        for element in self.meeting.decided() if self.log is not None else ():
            assert self.log is not None
            self.log.send(ELEMENT, kind=element.kind, version=element.version, at_us=element.at_us)
        return leaving

    def _end(self) -> None:
        super()._end()
        self.meeting.control.finish()
        changes = [*self.meeting.control.records(), *unreached(self.changes, self.begun + 2)]
        self.report.changes = [record.to_dict() for record in changes]


class _HopRehearsal(_Rehearsal):
    """A run of a hopping query. One that adapts is sent its plans, those of its schedule included, as it goes."""

    planner: HopPlanner | None = None

    def _open(
        self, labels: tuple[int, ...], lateness_us: dict[int, int], last_us: dict[int, int]
    ) -> BucketSpec | HopBucketSpec:
        plan = self.loop.plan
        assert plan.query.hop_us is not None, "a hopping query"
        self.meeting = HopMeeting(plan, labels)
        self.schedule = [r for r in self.loop.schedule if isinstance(r, MigrationRequest)]
        """Migrations that no bucket knows of."""
        if self.loop.adaptation is not None:
            self.log = ControlLog(self.folder / "control")
            self.planner = HopPlanner(plan, self.log, self.loop.adaptation)
            self._send_before(self.ends[0][0])
        if self.planner is None:  # nobody looks
            schedule = scheduled(plan, self.schedule)
            return HopBucketSpec(plan, lateness_us, str(self.shared), True, labels, schedule, last_us, FOREVER)
        shared, looks = str(self.shared), self.planner.looks
        return HopBucketSpec(plan, lateness_us, shared, True, labels, (), last_us, looks)

    def _leaving(self, number: int, tables: list[pa.Table], events: list[dict[str, Any]]) -> Iterable[pa.RecordBatch]:
        answers = self.meeting.on_batch(tables, events)
        if self.planner is not None and number + 1 < len(self.ends):
            self.planner.on_batch(events)
            self._send_before(self.ends[number + 1][0])
        return (answer.rows for answer in answers)

    def _send_before(self, end_us: int) -> None:
        """Plan the migrations that are due before the end of the next micro-batch, from what is known by now."""
        assert self.planner is not None, "plans are sent"
        while self.schedule and (self.schedule[0].at_us or 0) < end_us:
            self.records.see([self.planner.ask(self.schedule.pop(0)).to_dict()])

    def _end(self) -> None:
        super()._end()
        for record in self.report.migrations:
            if record["state"] in (QUEUED, NOT_REACHED) and self.report.batches:
                record["state"], record["from_plan"] = NOT_REACHED, self.report.batches[-1].plan
