"""The loop: micro-batches of event time from readers through a runtime to a sink, with a report."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from midstream.change.repository import Repository, check_change, check_control, united
from midstream.change.request import ABORT, ChangeRequest, ControlRequest
from midstream.local.arrivals import StreamReader
from midstream.local.hop_adapt import Adaptation
from midstream.local.hop_plans import NOT_CHANGED, Adviser, migrated, migrated_live
from midstream.local.hopping import HopRuntime
from midstream.local.report import BatchReport, Report
from midstream.local.sinks import FileSink, Sink, TableSink
from midstream.local.sources import RecordedStream, StreamRows
from midstream.local.versions import Request, VersionedRuntime
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import MidstreamError, PlanError
from midstream.model.time import FOREVER, NEVER
from midstream.operators.build import check_framework
from midstream.plan.plan import Plan
from midstream.plan.query import DELTA

AnyPlan = Plan
MOST_BUCKETS = 4096
Progress = Callable[[int], None]
"""Told after each micro-batch how many rows have been taken in."""


def output_schema(plan: AnyPlan, *later: Plan) -> pa.Schema:
    """Return the columns of a query's output file; with later versions, those of all of them."""
    if plan.query.hop_us is not None:
        names = ("_time", "_version", "_hop", *(("_sign",) if plan.query.emit == DELTA else ()))
        return pa.schema([*plan.query.schema, *(pa.field(name, pa.int64()) for name in names)])
    plans = (plan, *later)
    signed = any(p.query.signed for p in plans)
    added = ("_time", "_version", "_sign") if signed else ("_time", "_version")
    columns = united([p.query.schema for p in plans])
    return pa.schema([*columns, *(pa.field(name, pa.int64()) for name in added)])


@dataclass(frozen=True)
class Loop:
    """A plan, the recorded streams it reads and how wide its micro-batches are."""

    plan: AnyPlan
    streams: Sequence[RecordedStream]
    batch_us: int
    buckets: int
    schedule: Sequence[Request] = ()
    """What is to happen, in order of event time."""
    framework: str = "tree"
    routing: str = "selectivity"
    versions: Sequence[Plan] = ()
    """The plans of the changes in the schedule, in the same order."""
    adaptation: Adaptation | None = None
    """What a hopping query may adapt by itself."""

    def __post_init__(self) -> None:
        if self.plan.query.hop_us is None:
            check_framework(self.plan, self.framework)
        elif self.framework != "tree":
            raise PlanError(f"a hopping query runs as a tree, not as {self.framework}")
        if self.batch_us <= 0:
            raise MidstreamError(f"batch must be longer than nothing, not {self.batch_us} microseconds")
        if type(self.buckets) is not int or not 1 <= self.buckets <= MOST_BUCKETS:
            raise MidstreamError(f"buckets must be a whole number from 1 to {MOST_BUCKETS}, not {self.buckets}")

    def run(
        self,
        sink: Sink,
        progress: Progress | None = None,
        on_late: Callable[[str, StreamRows], None] | None = None,
    ) -> Report:
        """Run until every stream has ended. The sink is written to, not committed."""
        running = self.start(sink, on_late)
        while running.step():
            if progress is not None:
                progress(running.report.rows_in)
        return running.finish()

    def repository(self) -> Repository:
        """Return all versions of the query, checked."""
        assert self.plan.query.hop_us is None, "hopping queries have one version"
        repository = Repository(self.plan)
        changes = [r for r in self.schedule if isinstance(r, ChangeRequest)]
        for plan, request in zip(self.versions, changes, strict=True):
            repository.add(plan, request)
        return repository

    def start(self, sink: Sink, on_late: Callable[[str, StreamRows], None] | None = None) -> "RunningLoop":
        """Get ready to run, one micro-batch at a time."""
        return RunningLoop(self, sink, on_late)

    def readers(self, on_late: Callable[[str, StreamRows], None] | None) -> dict[str, StreamReader]:
        """Return a reader for each stream the query uses, in any of its versions, in declaration order."""
        readers = {}
        for stream in self.streams:
            name = stream.schema.name
            used = columns_used(name, (self.plan, *self.versions))
            if used is None:
                continue
            # Late rows are kept whole, so that they can be looked at or replayed.
            whole = on_late is not None
            names = stream.schema.columns.names
            columns = [c for c in names if c in used or (whole and stream.schema.type_of(c) is not None)]
            readers[name] = StreamReader(stream, columns, _for(name, on_late))
        return readers


class RunningLoop:
    """A loop between two micro-batches."""

    def __init__(self, loop: Loop, sink: Sink, on_late: Callable[[str, StreamRows], None] | None) -> None:
        self._started = time.perf_counter()
        self._loop = loop
        self._sink = sink
        self._readers = loop.readers(on_late)
        self._columns = {name: columns_used(name, (loop.plan, *loop.versions)) or set() for name in self._readers}
        self._read_us = NEVER
        """Rows before this time have been taken in."""
        self.runtime = self._runtime()
        self.report = Report(buckets=self.runtime.buckets_used, partitioning=str(loop.plan.partitioning))
        self.finished = False

    def _runtime(self) -> VersionedRuntime | HopRuntime:
        loop = self._loop
        if loop.plan.query.hop_us is not None:
            asked = [r for r in loop.schedule if isinstance(r, MigrationRequest)]
            adviser = None if loop.adaptation is None else Adviser(loop.adaptation)
            return HopRuntime(loop.plan, migrated_live, loop.buckets, asked, adviser)
        return VersionedRuntime(loop.repository(), loop.buckets, loop.schedule, loop.framework, loop.routing)

    @property
    def versioned(self) -> VersionedRuntime:
        """Return the runtime of a query that can be changed, or refuse."""
        if isinstance(self.runtime, HopRuntime):
            raise PlanError(NOT_CHANGED)
        return self.runtime

    @property
    def next_us(self) -> int:
        """Return the time of the next row, or FOREVER."""
        return min(r.next_time() for r in self._readers.values())

    def step(self, before_us: int = FOREVER) -> bool:
        """Run the next micro-batch, no further than `before_us`; return whether there was one."""
        width = self._loop.batch_us
        while (earliest := self.next_us) < before_us:
            end = min((earliest // width + 1) * width, before_us)
            rows = {name: reader.until(end) for name, reader in self._readers.items()}
            self._read_us = end
            batch = self._batch(rows, end)
            if batch is not None:
                self._add(batch)
                return True
        if before_us < FOREVER:
            self._read_us = max(self._read_us, before_us)
        return False

    def migrate(self, request: MigrationRequest) -> None:
        """Migrate before the next row, or refuse to."""
        check_migration(self.runtime.plan, request)
        self._ask(request)

    def change(self, request: ChangeRequest, plan: Plan) -> None:
        """Change the query before the next row, or refuse to."""
        repository = self.versioned.repository
        running = self.runtime.version
        check_change(repository[running].plan, plan, request)
        self._cover(plan)
        if isinstance(self._sink, TableSink | FileSink):
            self._sink.widen(output_schema(*(v.plan for v in repository.versions), plan))
        repository.add(plan, request, running)
        self._ask(request)

    def control(self, request: ControlRequest) -> None:
        """Let a control element take effect before the next row, or refuse to."""
        runtime = self.versioned
        check_control(request, [runtime.repository[life.version].plan for life in runtime.control.alive])
        if request.element == ABORT:
            runtime.control.abortable()
        self._ask(request)

    def _ask(self, request: Request) -> None:
        # Where the run was advanced to; else before the next row, or at the end of the streams behind the last one.
        now_us = self.next_us if self.next_us != FOREVER else self._read_us
        if not isinstance(request, MigrationRequest) and self._read_us != NEVER:
            now_us = min(now_us, self._read_us)
        if isinstance(self.runtime, HopRuntime):
            assert isinstance(request, MigrationRequest), "hopping queries are migrated only"
            self.runtime.ask(request, now_us)
            return
        for rows in self.runtime.ask(request, now_us):
            self._sink.write(rows)
            self.report.rows_out += rows.num_rows

    def _cover(self, plan: Plan) -> None:
        """Read from here on what another version needs, too."""
        for stream in self._loop.streams:
            name = stream.schema.name
            used = columns_used(name, [plan])
            if used is None or (name in self._readers and used <= self._columns[name]):
                continue
            before = self._readers.get(name)
            self._columns[name] = used | self._columns.get(name, set())
            reader = StreamReader(stream, [c for c in stream.schema.columns.names if c in self._columns[name]])
            reader.until(self._read_us)
            reader.late = before.late if before is not None else 0
            self._readers[name] = reader

    def finish(self) -> Report:
        """End the run: give out what is held back, and complete the report."""
        report = self.report
        if not self.finished:
            self.finished = True
            for rows in self.runtime.finish():
                report.rows_out += rows.num_rows
                self._sink.write(rows)
            report.late_by_stream = {name: reader.late for name, reader in self._readers.items()}
            report.late = sum(report.late_by_stream.values())
            report.wall_s = time.perf_counter() - self._started
            report.migrations = [record.to_dict() for record in self.runtime.records()]
            report.changes = [record.to_dict() for record in self.runtime.changes()]
        return report

    def _add(self, batch: BatchReport) -> None:
        self.report.batches.append(batch)
        self.report.rows_in += batch.rows_in
        self.report.rows_out += batch.rows_out

    def _batch(self, rows: dict[str, StreamRows], end: int) -> BatchReport | None:
        runtime = self.runtime
        if not any(len(r.times) for r in rows.values()):
            return None
        before = runtime.streams()
        started = time.perf_counter()
        tested, hops, flips = runtime.predicate_evaluations, runtime.hops, runtime.flips
        runtime.batch_watch.begin(end)
        phase = runtime.phase
        rows_out = 0
        for out in runtime.on_rows(rows):
            rows_out += out.num_rows
            self._sink.write(out)
            phase = runtime.phase if phase == "steady" else phase
        runtime.work()
        read = before | runtime.streams()
        rows_in = sum(len(r.times) for name, r in rows.items() if name in read)
        size = runtime.size()
        return BatchReport(
            end=end,
            rows_in=rows_in,
            rows_out=rows_out,
            predicate_evaluations=runtime.predicate_evaluations - tested,
            state_tuples=size.tuples,
            state_bytes=size.nbytes,
            wall_ms=(time.perf_counter() - started) * 1000,
            plan=str(runtime.plan),
            phase=phase,
            output_delay_us=runtime.batch_watch.delay_us,
            hops=runtime.hops - hops,
            flips=runtime.flips - flips,
        )


def _for(name: str, on_late: Callable[[str, StreamRows], None] | None) -> Callable[[StreamRows], None] | None:
    return None if on_late is None else lambda rows: on_late(name, rows)


def check_migration(running: AnyPlan, request: MigrationRequest) -> None:
    """Refuse a migration that the running plan cannot make."""
    if running.query.hop_us is not None:
        migrated(running, request)
    else:
        request.checked(running)


def columns_used(stream: str, plans: Sequence[AnyPlan]) -> set[str] | None:
    """Return the columns of a stream that any of some plans reads; None when none of them reads the stream."""
    sources = [(p.query, s.alias) for p in plans for s in p.query.sources if s.stream.name == stream]
    return {c for query, alias in sources for c in query.columns_of(alias)} if sources else None
