"""The loop: micro-batches of event time from readers through the engine to a sink, with a report."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from midstream.change.repository import Repository, check_change, check_control
from midstream.change.request import ABORT, ChangeRequest, ControlRequest
from midstream.engine.bucket.state import Due
from midstream.engine.bucket.store import Store
from midstream.engine.host import Left, QueryHost
from midstream.engine.planning.adapt import Adaptation
from midstream.engine.planning.advisers import Advisers
from midstream.engine.planning.optimizing import AUTO, Optimizing
from midstream.engine.planning.planner import Planner
from midstream.engine.results.schema import output_schema
from midstream.engine.rows.rows import Rows
from midstream.engine.run.contract import Framework
from midstream.engine.run.family import family_of
from midstream.local.arrivals import StreamReader, read_together, skip
from midstream.local.load import Load, LoadKeeper
from midstream.local.report import Report, change_records
from midstream.local.sinks import Sink
from midstream.local.sources import RecordedStream
from midstream.local.width import describe, end_by_rows
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import MidstreamError, PlanError
from midstream.model.time import FOREVER, NEVER
from midstream.operators.build import SITES, check_framework
from midstream.plan.aggregates import UserAggregate
from midstream.plan.plan import Plan
from midstream.sites.declaration import Declared

MOST_BUCKETS = 4096
Progress = Callable[[int], None]
"""Called after each micro-batch with the number of rows taken in so far."""
OnLate = Callable[[str, Rows], None]
"""Called with the name of a stream and rows of it that were set aside: late, or too far ahead."""


@dataclass(frozen=True)
class Loop:
    """A plan, the recorded streams it reads and how wide its micro-batches are."""

    plan: Plan
    streams: Sequence[RecordedStream]
    batch_us: int | None
    """How wide micro-batches are in event time; None: they go by rows."""
    buckets: int
    schedule: Sequence[Due] = ()
    """What is to happen, in order of event time."""
    framework: str = "tree"
    routing: str = "selectivity"
    versions: Sequence[Plan] = ()
    """The plans of the changes in the schedule, in the same order."""
    adaptation: Adaptation | None = None
    """What a hopping query may adapt by itself."""
    optimizing: Optimizing = field(default_factory=Optimizing)
    """Whether it looks for better plans by itself."""
    load: Load | None = None
    """What may give when the query is behind."""
    aggregates: Mapping[str, UserAggregate] = field(default_factory=dict)
    """Aggregates of the user that later versions may call."""
    sites: Declared | None = None
    """Of a join over sites: what is declared of them."""

    def __post_init__(self) -> None:
        check_framework(self.plan, self.framework)
        if self.framework == SITES and self.sites is None:
            raise MidstreamError(f'framework = "{SITES}" needs the sites at which streams arrive: write a scenario')
        if self.batch_us is not None and self.batch_us <= 0:
            raise MidstreamError(f"batch must be longer than nothing, not {self.batch_us} microseconds")
        check_buckets(self.buckets)

    @property
    def mode(self) -> str:
        """Return whether what may be adapted is: where nobody says, it is."""
        return self.optimizing.mode if self.optimizing.looks else AUTO

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Return the plans of all versions that are known beforehand."""
        return (self.plan, *self.versions)

    def batch_end(
        self, earliest_us: int, readers: Mapping[str, StreamReader], running: Iterable[Plan], look_us: int = FOREVER
    ) -> int:
        """Return the time before which the rows of the next micro-batch are; no row is before `earliest_us`.

        `look_us` is the event time between two looks at windows, which are made when a micro-batch ends.
        """
        if self.batch_us is not None:
            return (earliest_us // self.batch_us + 1) * self.batch_us
        queries = [plan.query for plan in running]
        return end_by_rows(earliest_us, list(readers.values()), queries, self.adaptation is not None, look_us)

    def run(self, sink: Sink, progress: Progress | None = None, on_late: OnLate | None = None) -> Report:
        """Run until every stream has ended. The sink is written to, not committed."""
        running = self.start(sink, on_late)
        while running.step():
            if progress is not None:
                progress(running.report.rows_in)
        return running.finish()

    def check_versions(self) -> None:
        """Refuse changes of the schedule that cannot be honoured."""
        changes = [r for r in self.schedule if isinstance(r, ChangeRequest)]
        for before, plan, request in zip(self.plans, self.versions, changes, strict=False):
            check_change(before, plan, request)

    def start(self, sink: Sink, on_late: OnLate | None = None) -> "RunningLoop":
        """Get ready to run, one micro-batch at a time."""
        return RunningLoop(self, sink, on_late)

    def readers(self, on_late: OnLate | None) -> dict[str, StreamReader]:
        """Return a reader for each stream the query uses, in any of its versions, in declaration order."""
        read, columns = list[RecordedStream](), dict[str, list[str]]()
        for stream in self.streams:
            name = stream.schema.name
            used = columns_used(name, self.plans)
            if used is None:
                continue
            # Rows that are set aside are kept whole, so that they can be looked at or replayed.
            whole = on_late is not None
            names = stream.schema.columns.names
            columns[name] = [c for c in names if c in used or (whole and stream.schema.type_of(c) is not None)]
            read.append(stream)
        return read_together(read, columns, lambda name: _for(name, on_late), self.streams)


class Keeper(Protocol):
    """Keeps a run, so that it can be resumed."""

    def stores(self, count: int) -> Sequence[Store]:
        """Return the stores of the buckets."""

    def begin(self, running: "RunningLoop") -> None:
        """Let a run be as it was kept, or keep that it begins."""

    def commit(self, running: "RunningLoop") -> None:
        """Keep what has been read and what has left since the last commit."""

    def moved(self, running: "RunningLoop") -> bool:
        """Return whether the run has gone further than its last commit."""

    def release(self) -> None:
        """Let another run go on from what was kept."""


class RunningLoop:
    """A loop between two micro-batches."""

    def __init__(self, loop: Loop, sink: Sink, on_late: OnLate | None, keeper: Keeper | None = None) -> None:
        self._started = time.perf_counter()
        self._loop = loop
        self._sink = sink
        self._keeper = keeper
        self._readers = loop.readers(on_late)
        self._columns = {name: columns_used(name, loop.plans) or set() for name in self._readers}
        loop.check_versions()
        framework = Framework(loop.framework, loop.routing, loop.sites)
        adaptation = loop.adaptation
        looks = FOREVER if adaptation is None else adaptation.every
        stores = None if keeper is None else keeper.stores(loop.buckets)
        optimizing = loop.optimizing
        self.host = QueryHost(loop.plans, loop.buckets, framework, loop.schedule, stores, looks, optimizing.looks)
        self.advisers = Advisers(optimizing, self.host.controls, self.host.plan_of)
        """Who looks for better orders of joins, and what was decided."""
        self.load = None if loop.load is None else LoadKeeper(loop.load)
        """How far a machine would be behind, and what gives then."""
        self.report = Report(buckets=len(self.host.labels), partitioning=str(loop.plan.partitioning))
        self.report.batch = describe(loop.batch_us)
        self.finished = False
        self.repository = Repository(loop.plan)
        """Queries that the run can change to by number."""
        self.uncounted: dict[str, int] = {}
        """Per stream: late rows that a reader which began anew has counted, and that do not count."""
        self.uncounted_ahead: dict[str, int] = {}
        """The same of rows too far ahead."""
        if keeper is not None:
            keeper.begin(self)
        self._planners: dict[int, Planner] = {}
        """Who adapts a version, of those that can be."""

    def resume(self) -> None:
        """Take up what runs from the stores, and read on from where the run stands."""
        self._started -= self.report.wall_s
        if self.finished:
            return
        self.host.resume()
        self._sink.widen(output_schema(*self.host.plans))
        for plan in self.host.plans[len(self._loop.versions) + 1 :]:
            self._cover(plan, counted=False)
        skip(self._readers.values(), self.host.read_us)
        for name, reader in self._readers.items():
            reader.late -= self.uncounted.get(name, 0)
            reader.ahead -= self.uncounted_ahead.get(name, 0)

    @property
    def wall_s(self) -> float:
        """Return how long the run has taken so far."""
        return self.report.wall_s if self.finished else time.perf_counter() - self._started

    def _commit(self) -> None:
        if self._keeper is not None:
            self._keeper.commit(self)

    def stop(self) -> None:
        """Keep where the run stands, so that it can be resumed."""
        if self._keeper is None:
            raise MidstreamError("a run without a checkpoint cannot be resumed; finish it, or start with a checkpoint")
        if not self.finished and self._keeper.moved(self):
            self._commit()
        self._keeper.release()

    def release(self) -> None:
        """Let another run go on from the checkpoint, if there is one."""
        if self._keeper is not None:
            self._keeper.release()

    @property
    def next_us(self) -> int:
        """Return the time of the next row, or FOREVER."""
        return min(r.next_time() for r in self._readers.values())

    def step(self, before_us: int = FOREVER) -> bool:
        """Run the next micro-batch, no further than `before_us`; return whether there was one."""
        while (earliest := self.next_us) < before_us:
            running = (self.host.plan, *self.host.plans)
            look_us = self.advisers.look_us(self.host.merger.version)
            end = min(self._loop.batch_end(earliest, self._readers, running, look_us), before_us)
            rows = {name: reader.until(end) for name, reader in self._readers.items()}
            if self._batch(rows, end):
                self._commit()
                return True
        if before_us < FOREVER:
            self.host.read_us = max(self.host.read_us, before_us)
            if self._keeper is not None and self._keeper.moved(self):
                self._commit()
        return False

    def migrate(self, request: MigrationRequest) -> None:
        """Migrate before the next row, or refuse to."""
        if not self.host.control.alive:
            raise PlanError("nothing runs that could be migrated")
        family_of(self.host.plan).migrated(self.host.plan, request)
        self._emit(self.host.migrate_now(request, request.identity, self._now_us(False)))
        self._commit()

    def change(self, request: ChangeRequest, plan: Plan) -> None:
        """Change the query before the next row, or refuse to."""
        host = self.host
        check_change(host.plan_of(host.merger.version), plan, request)
        self._cover(plan)
        self._sink.widen(output_schema(*host.plans, plan))
        at_us = self._now_us(True)
        host.change(request, plan, at_us)
        self._emit(host.advance(at_us))
        self._commit()

    def register(self, sql: str, plan: Plan) -> int:
        """Register a query to change to later; return its number."""
        number = self.repository.add(sql, plan).number
        self._commit()
        return number

    def remove(self, number: int) -> None:
        """Forget a registered query."""
        self.repository.remove(number)
        self._commit()

    def control(self, request: ControlRequest) -> None:
        """Let a control element take effect before the next row, or refuse to."""
        host = self.host
        check_control(request, [host.plan_of(life.version) for life in host.control.alive])
        if request.element == ABORT:
            host.control.abortable()
        at_us = self._now_us(True)
        host.give_control(request.control, at_us)
        self._emit(host.advance(at_us))
        self._commit()

    def _now_us(self, advanced: bool) -> int:
        """Return the position of what is asked for now: before the next row; after the last one at their end.

        `advanced`: where the run was advanced to, when that is earlier.
        """
        read_us = self.host.read_us
        now_us = self.next_us if self.next_us != FOREVER else read_us
        return min(now_us, read_us) if advanced and read_us != NEVER else now_us

    def _emit(self, left: Left) -> int:
        """Write what leaves; return how many rows that are."""
        count = 0
        for departure in left.departures:
            count += departure.rows.num_rows
            self._sink.write(departure.rows)
        self.report.rows_out += count
        return count

    def _cover(self, plan: Plan, counted: bool = True) -> None:
        """Read from here on what another version needs, too; not `counted`: what was late has been counted."""
        declared, anew = self._loop.streams, set[str]()
        for name in (stream.schema.name for stream in declared):
            used = columns_used(name, [plan])
            if used is not None and not (name in self._readers and used <= self._columns[name]):
                self._columns[name] = used | self._columns.get(name, set())
                anew.add(name)
        if anew and any(stream.timing.idle_us is not None for stream in declared):
            anew |= self._readers.keys()  # which rows are late depends on all streams that are read
        streams = [stream for stream in declared if stream.schema.name in anew]
        columns = {
            s.schema.name: [c for c in s.schema.columns.names if c in self._columns[s.schema.name]] for s in streams
        }
        readers = read_together(streams, columns, lambda name: None, declared)
        if counted:
            skip(readers.values(), self.host.read_us)
            for name, reader in readers.items():
                self._count_on(name, reader)
        self._readers |= readers

    def _count_on(self, name: str, reader: StreamReader) -> None:
        """Let a reader that began anew count on from where the one before it is."""
        before = self._readers.get(name)
        late, ahead = (0, 0) if before is None else (before.late, before.ahead)
        self.uncounted[name] = self.uncounted.get(name, 0) + reader.late - late
        self.uncounted_ahead[name] = self.uncounted_ahead.get(name, 0) + reader.ahead - ahead
        reader.late, reader.ahead = late, ahead

    def finish(self) -> Report:
        """End the run: emit what is held back, and complete the report."""
        report = self.report
        if not self.finished:
            self.finished = True
            self._emit(self.host.finish())
            report.set_aside(self._readers)
            report.end(self._started)
            self.host.not_reached()
            report.migrations = self.migrations()
            report.changes = self.changes()
            self.advisers.decisions.end()
            report.load = [] if self.load is None else self.load.events
            report.decisions = self.advisers.decisions.to_plain()
            self._commit()
        return report

    def migrations(self) -> list[dict[str, Any]]:
        """Return what became of each migration."""
        return self.host.records.all() if self.finished else self.host.current_records()

    def changes(self) -> list[dict[str, Any]]:
        """Return what became of each change."""
        return change_records(self.host.control, self._loop.schedule)

    def _batch(self, rows: dict[str, Rows], end: int) -> bool:
        """Run a micro-batch; return whether there were rows."""
        host = self.host
        if not any(len(r) for r in rows.values()):
            host.read_us = end
            return False
        started = time.perf_counter()
        before = host.streams()
        left = host.on_rows(rows, end)
        rows_out = self._emit(left)
        self._adapt(left.reports)
        self.advisers.on_batch(left.reports, host.control.phase == "steady", host.look)
        read = before | host.streams()
        rows_in = sum(len(r) for name, r in rows.items() if name in read)
        wall_s = time.perf_counter() - started
        self.report.add(end, rows_in, rows_out, left.summary, left.delay_us, wall_s)
        self._follow_load(rows, end)
        return True

    def _follow_load(self, rows: dict[str, Rows], end: int) -> None:
        """See how far behind a machine would be after the last micro-batch; change the query where that may give."""
        if self.load is None:
            return
        batch, first = self.report.batches[-1], min(int(r.times[0]) for r in rows.values() if len(r))
        news = self.load.on_batch(first, end, batch.predicate_evaluations, batch.rows_in, batch.rows_out)
        self.report.batches[-1] = replace(batch, lag_us=self.load.lag_us)
        if news is None:
            return
        decision = self.load.ask(news, end, self.host.merger.version, self.change)
        if decision is not None:
            self.advisers.decisions.add(decision)

    def _adapt(self, reports: Sequence[dict[str, Any]]) -> None:
        """Let the newest version go on with another plan, where that pays and is wanted."""
        number, adaptation = reports[0]["version"], self._loop.adaptation
        if adaptation is None or not number or not family_of(self.host.plan_of(number)).chosen_by_cost:
            return
        if number not in self._planners:
            first = self.host.plan_of(number)
            decisions, mode = self.advisers.decisions, self._loop.mode
            self._planners[number] = Planner(first, self.host.controls, adaptation, number, mode, decisions)
        self._planners[number].on_batch(reports, self.host.plan)


def _for(name: str, on_late: OnLate | None) -> Callable[[Rows], None] | None:
    return None if on_late is None else lambda rows: on_late(name, rows)


def check_buckets(count: int) -> int:
    """Return a number of buckets, if it is one."""
    if type(count) is not int or not 1 <= count <= MOST_BUCKETS:
        raise MidstreamError(f"buckets must be a whole number from 1 to {MOST_BUCKETS}, not {count!r}")
    return count


def columns_used(stream: str, plans: Sequence[Plan]) -> set[str] | None:
    """Return the columns of a stream that any of some plans reads; None when none of them reads the stream."""
    sources = [(p.query, s.alias) for p in plans for s in p.query.sources if s.stream.name == stream]
    return {c for query, alias in sources for c in query.columns_of(alias)} if sources else None
