"""Rehearse on Spark: recorded streams staged as one file per stream and micro-batch, run through the real pipeline.

recorded streams ──▶ event-time order, late rows set aside ──▶ staged blobs ──▶ Structured Streaming ──▶ sink
"""

import contextlib
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from midstream.change.request import GRACEFUL, ChangeRequest
from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.control.controls import ELEMENT, MAIL, MET
from midstream.engine.control.versions import KnownVersions
from midstream.engine.host import buckets_for
from midstream.engine.planning.advisers import Advisers
from midstream.engine.planning.planner import Planner
from midstream.engine.planning.plans import migrated
from midstream.engine.results.merger import ResultMerger
from midstream.engine.results.output import BucketOutput
from midstream.engine.results.records import Records
from midstream.engine.results.reports import total
from midstream.engine.results.sites import SitesAccount
from midstream.engine.rows.rows import OFFSET, TIME, Rows
from midstream.engine.run.contract import Framework, RunSpec
from midstream.engine.run.family import family_of, run_of
from midstream.live.blobs import to_blob
from midstream.live.control_log import ControlLog
from midstream.live.lines import of_lines
from midstream.live.mailbox import Mailbox, MailWriter
from midstream.live.shared_memory import forget_query, hold_query
from midstream.local.arrivals import StreamReader
from midstream.local.disk import on_this_machine
from midstream.local.explain_sites import explain_sites
from midstream.local.loop import Loop
from midstream.local.report import Report, change_records
from midstream.local.sinks import Sink
from midstream.local.width import describe
from midstream.migrate.record import NOT_REACHED, QUEUED
from midstream.migrate.request import MigrationRequest
from midstream.model.time import FOREVER, NEVER
from midstream.spark.graph import Input, labels_of, output_lines
from midstream.spark.settings import with_settings

STAGED = "high long, clock long, last boolean, blob binary"
"""The columns of a staged file: up to where all rows have come, how far time itself has, whether it is the end."""


@dataclass(frozen=True)
class StagedBatch:
    """One staged micro-batch: where it ends, and how many rows it has."""

    end_us: int
    rows: int


def rehearse(
    spark: SparkSession,
    loop: Loop,
    readers: dict[str, StreamReader],
    sink: Sink,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Run recorded streams through Spark; results reach the sink in the same order as in process."""
    started = time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix="midstream-replay-"))
    shared = f"replay-{uuid.uuid4().hex}"
    with contextlib.suppress(OSError):
        hold_query(shared)
    buckets = buckets_for(loop.plans, loop.schedule, loop.buckets)
    report = Report(runtime="spark", buckets=buckets, partitioning=str(loop.plan.partitioning))
    try:
        report.batch = describe(loop.batch_us)
        hearing = _hearing(loop) if buckets > 1 else 0
        batches = stage(folder, readers, loop, hearing)
        if batches:
            rehearsal = Rehearsal(loop, labels_of(spark, buckets), batches, hearing, sink, report, progress)
            _run(spark, rehearsal, folder, shared)
            rehearsal.finish()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        forget_query(shared)
    report.set_aside(readers)
    report.end(started)
    return report


def _hearing(loop: Loop) -> int:
    """Return how many micro-batches without rows there are at the end.

    Where a change waits for a first result, of whatever bucket, buckets learn in the next micro-batch that it has come,
    and meet before another change takes effect.
    """
    asked = [r for r in loop.schedule if not isinstance(r, MigrationRequest)]
    graceful = any(isinstance(r, ChangeRequest) and r.method in GRACEFUL for r in asked)
    return len(asked) + 1 if graceful else 0


def stage(folder: Path, readers: dict[str, StreamReader], loop: Loop, hearing: int = 0) -> list[StagedBatch]:
    """Write one file per stream and micro-batch, and so many without rows; return the micro-batches with rows."""
    batches: list[StagedBatch] = []
    clock_us = NEVER
    for place in range(len(readers)):
        (folder / "in" / f"stream{place}").mkdir(parents=True)
    earliest = min(r.next_time() for r in readers.values())
    while earliest < FOREVER:
        end = loop.batch_end(earliest, readers, loop.plans)
        rows = {name: reader.until(end) for name, reader in readers.items()}
        earliest = min(r.next_time() for r in readers.values())
        if any(len(r) for r in rows.values()):
            clock_us = max([clock_us, *(int(r.times[-1]) for r in rows.values() if len(r))])
            last = earliest == FOREVER and not hearing
            for place, mine in enumerate(rows.values()):
                _stage_file(folder / "in" / f"stream{place}", len(batches), end, clock_us, last, mine)
            batches.append(StagedBatch(end, sum(len(r) for r in rows.values())))
    for further in range(hearing if batches else 0):
        for place, reader in enumerate(readers.values()):
            number, last = len(batches) + further, further + 1 == hearing
            _stage_file(folder / "in" / f"stream{place}", number, batches[-1].end_us, clock_us, last, reader.until(end))
    return batches


def _stage_file(folder: Path, number: int, end: int, clock_us: int, last: bool, rows: Rows) -> None:
    table = pa.table({TIME: rows.times, OFFSET: rows.offsets})
    for name, column in rows.columns.items():
        table = table.append_column(name, column)
    file = folder / f"{number:08d}.parquet"
    staged = {
        "high": pa.array([end], pa.int64()), "clock": pa.array([clock_us], pa.int64()), "last": pa.array([last]),
        "blob": pa.array([to_blob(table)], pa.binary()),
    }  # fmt: skip
    pq.write_table(pa.table(staged), file, compression="none")
    os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))  # Spark takes files in order of their age


class Rehearsal:
    """The driver of one run over staged micro-batches: merges what buckets emit, and writes the report."""

    def __init__(
        self,
        loop: Loop,
        labels: tuple[int, ...],
        batches: Sequence[StagedBatch],
        hearing: int,
        sink: Sink,
        report: Report,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.loop, self.labels, self.batches, self.sink, self.report = loop, labels, batches, sink, report
        self.total = len(batches) + hearing
        """How many micro-batches there are, those without rows at the end included."""
        self.seen = 0
        self.versions = KnownVersions(loop.plans)
        self.merger = ResultMerger(labels, self.versions.plan_of)
        self.records = Records([r for r in loop.schedule if isinstance(r, MigrationRequest)], str(loop.plan))
        self.log: ControlLog | None = None
        """Where to send what several buckets decide together: it comes back as control rows."""
        self._progress = progress
        self.sites = SitesAccount()
        self.mail: MailWriter | None = None
        """Where messages of buckets to each other go, if they send any."""
        self._planner: Planner | None = None
        self._advisers: Advisers | None = None
        """Who looks for better orders of joins, and what was decided."""
        self._to_plan: list[MigrationRequest] = []
        """Migrations that are planned here, and sent, when their time comes."""

    @property
    def sends_control(self) -> bool:
        """Return whether control rows come back to the buckets while it runs."""
        return self.loop.optimizing.looks or self._adapts or self.total > len(self.batches) or self.sends_mail

    @property
    def _adapts(self) -> bool:
        """Return whether plans of migrations are made here, and sent."""
        return self.loop.adaptation is not None and family_of(self.loop.plan).chosen_by_cost

    @property
    def sends_mail(self) -> bool:
        """Return whether buckets send messages to each other."""
        return run_of(self.loop.plan, self._framework).sends_mail

    @cached_property
    def _framework(self) -> Framework:
        loop = self.loop
        streams = None if loop.sites is None else explain_sites(loop.plan, loop.sites, loop.streams).streams
        return Framework(loop.framework, loop.routing, loop.sites, streams)

    def spec(self) -> BucketSpec:
        """Return what all buckets share."""
        loop = self.loop
        adaptation, adapts = loop.adaptation, self._adapts
        schedule = [r for r in loop.schedule if not adapts or not isinstance(r, MigrationRequest)]
        looks = FOREVER if adaptation is None else adaptation.every
        planner = None if adapts else migrated
        run = RunSpec(True, self._framework, looks, planner, loop.optimizing.looks)
        return BucketSpec(self.versions.plan_of, {}, True, self.labels, run, tuple(schedule), audit=True)

    def begin(self, log: ControlLog | None) -> None:
        """Know where control rows go."""
        self.log = log
        if log is not None and self.sends_mail:
            self.mail = MailWriter(Mailbox(log.folder.with_name("mail")))
        if log is not None and self.loop.optimizing.looks:
            self._advisers = Advisers(self.loop.optimizing, log, self.versions.plan_of)
        if log is not None and self._adapts:
            decisions = None if self._advisers is None else self._advisers.decisions
            self._planner = Planner(self.loop.plan, log, self.loop.adaptation, 1, self.loop.mode, decisions)
            self._to_plan = [r for r in self.loop.schedule if isinstance(r, MigrationRequest)]
            self._send_before(self.batches[0].end_us)

    def on_batch(self, outputs: list[BucketOutput], number: int, started: float) -> None:
        """Take what buckets emit in a micro-batch."""
        if number >= self.total:
            return
        report, merger = self.report, self.merger
        departures = merger.on_batch(outputs, everything=number + 1 == self.total)
        for departure in departures:
            self.sink.write(departure.rows)
        self._send(number, [output.report for output in outputs])
        self._post(number, outputs)
        summary = total([output.report for output in outputs])
        self.records.see(summary.migrations)
        self.records.watch(summary.migrations, [item for output in outputs for item in output.leaving])
        if summary.sites:
            self.sites.see(summary.sites)
        rows_out = sum(d.rows.num_rows for d in departures)
        wall_s = time.perf_counter() - started
        if number < len(self.batches):
            batch = self.batches[number]
            report.add(batch.end_us, batch.rows, rows_out, summary, merger.delay_us, wall_s)
        report.rows_out += rows_out
        self.seen = number + 1
        if self._progress is not None:
            self._progress(report.rows_in)

    def _send(self, number: int, reports: list[dict[str, Any]]) -> None:
        """Send what buckets have caused together, and plans."""
        decided = self.merger.decided()
        if self.log is None:
            return
        for element in decided:
            self.log.send(ELEMENT, **element)
        for report in reports[:1]:
            if report["meets_for"] is not None:
                self.log.send(MET, of=report["meets_for"])
        if self._advisers is not None and number + 1 < len(self.batches):
            self._advisers.on_batch(reports, self.merger.control.phase == "steady")
        if self._planner is not None and number + 1 < len(self.batches):
            self._planner.on_batch(reports)
            self._send_before(self.batches[number + 1].end_us)

    def _post(self, number: int, outputs: list[BucketOutput]) -> None:
        """Let the next micro-batch read what buckets have sent; let one come where no rows are left."""
        if self.mail is None or self.log is None:
            return
        mail = [message for output in outputs for message in output.mail]
        self.mail.write(number, mail)
        if mail and number + 1 == self.total:
            self.total += 1
            self.log.send(MAIL, identity=f"{number:08d}-mail")

    def _send_before(self, end_us: int) -> None:
        """Plan the migrations that are due before the end of the next micro-batch, from what is known by now."""
        while self._to_plan and (self._to_plan[0].at_us or 0) < end_us:
            assert self._planner is not None, "plans are sent"
            self.records.see([self._planner.ask(self._to_plan.pop(0)).to_dict()])

    def finish(self) -> None:
        """Complete the report."""
        report, control = self.report, self.merger.control
        control.finish()
        report.changes = change_records(control, self.loop.schedule)
        for record in self.records.all():
            if record["state"] in (QUEUED, NOT_REACHED) and report.batches:
                record["state"], record["from_plan"] = NOT_REACHED, report.batches[-1].plan
        report.migrations = self.records.all()
        if self._advisers is not None:
            self._advisers.decisions.end()
            report.decisions = self._advisers.decisions.to_plain()
        report.sites = self.sites.to_dict() if self.sites.latest else None


def _run(spark: SparkSession, rehearsal: Rehearsal, folder: Path, shared: str) -> None:
    """Run all staged micro-batches through Spark."""
    loop = rehearsal.loop
    used = {s.stream.name: s for plan in loop.plans for s in plan.query.sources}
    names = [s.schema.name for s in loop.streams if s.schema.name in used]
    log = ControlLog(folder / "control") if rehearsal.sends_control else None
    if log is not None:
        log.make()
    rehearsal.begin(log)

    def on_batch(lines: DataFrame, number: int) -> None:
        started = time.perf_counter()
        rehearsal.on_batch(of_lines(lines.select("bucket", "kind", "blob").collect()), number, started)

    with with_settings(spark, len(rehearsal.labels), rehearsal=True):
        inputs = []
        for k, name in enumerate(names):
            reader = spark.readStream.schema(STAGED).option("maxFilesPerTrigger", 1)
            staged = reader.parquet(on_this_machine(folder / "in" / f"stream{k}"))
            inputs.append(Input(used[name].stream, used[name].position, staged))
        controls = None if log is None else spark.readStream.text(on_this_machine(log.folder))
        mail = None if rehearsal.mail is None else rehearsal.mail.box
        lines = output_lines(rehearsal.versions.wanted, inputs, rehearsal.spec(), shared, controls, mail)
        writer = lines.writeStream.foreachBatch(on_batch)
        writer = writer.option("checkpointLocation", on_this_machine(folder / "checkpoint"))
        # A run over what is there reads no control rows that come later.
        query = (writer.trigger(availableNow=True) if log is None else writer).start()
    while log is not None and query.isActive and rehearsal.seen < rehearsal.total:
        query.awaitTermination(0.1)
    if log is not None and query.isActive:
        query.stop()
    query.awaitTermination()
