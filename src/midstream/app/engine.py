"""The engine: declare streams, ask queries, run them.

engine = Engine()
engine.stream("orders", table, time="ts")
run = engine.query("SELECT ...").start()
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from midstream.app.adopted import AdoptedBuild, AdoptedQuery
from midstream.change.request import DRAIN, ChangeRequest, ControlRequest
from midstream.engine.planning.optimizing import Optimizing, optimizing_of
from midstream.engine.results.schema import output_schema
from midstream.engine.run.contract import Framework
from midstream.lang.builder import QueryBuilder
from midstream.lang.sql import parse_query
from midstream.live.kept import Retention
from midstream.live.reading import read as read
from midstream.live.settings import MOST_WAITING, LiveSettings, check_waiting
from midstream.local.aggregates import user_aggregate
from midstream.local.batch_folder import BatchFolder
from midstream.local.changes import ask_change
from midstream.local.explain import explain_migration, explain_plan
from midstream.local.files import check_apart, local_folder
from midstream.local.load import Load, plan_load
from midstream.local.loop import Loop, RunningLoop
from midstream.local.replay import make_plan
from midstream.local.report import Report
from midstream.local.resume import resume
from midstream.local.sinks import FileSink, FunctionSink, Sink, TableSink
from midstream.local.sites import SITES, DeclaredSites, place_plan
from midstream.local.sources import RecordedStream, check_not_read, open_recorded, recorded_table
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import MidstreamError, SinkError
from midstream.model.names import checked_name
from midstream.model.time import parse_duration, parse_instant
from midstream.model.timing import Timing
from midstream.plan.aggregates import UserAggregate, check_aggregate_name
from midstream.plan.plan import Plan
from midstream.spark.query import PlannedOnSpark, SparkStream, checked_session, spark_stream

if TYPE_CHECKING:
    from midstream.spark.run import SparkRun

Planner = Callable[["str | QueryBuilder", str | None, str], Plan]
"""Plans a query given as text or by the builder, with a join order and method."""


class Engine:
    """Declared streams, in declaration order, and the queries asked of them. `Engine()` runs in process,
    `Engine(spark)` on Spark.
    """

    def __init__(self, spark: Any = None) -> None:
        self._spark = checked_session(spark)
        self._streams: dict[str, RecordedStream] = {}
        self._frames: dict[str, SparkStream] = {}
        self._aggregates: dict[str, UserAggregate] = {}

    def stream(
        self,
        name: str,
        data: Any,
        time: str,
        lateness: str | int = 0,
        idle: str | int | None = None,
        ahead: str | int | None = None,
    ) -> "Engine":
        """Declare a stream: a file, a table or what hands out Arrow; on Spark a streaming DataFrame.

        Rows may be earlier than the largest time before them by the `lateness`. When the other streams have come
        further by more than `idle` since its last row, they wait for it no longer. A row that is later than what has
        been seen by more than `ahead`, and that others do not bear out, is set aside.
        """
        spans = {"idle_us": idle, "ahead_us": ahead}
        given = {key: parse_duration(span) for key, span in spans.items() if span is not None}
        timing = Timing(parse_duration(lateness), **given)
        if name in self._streams or name in self._frames:
            raise MidstreamError(f"stream '{name}' is declared twice")
        if self._spark is not None:
            self._frames[name] = spark_stream(name, data, time, timing)
            return self
        open_it = open_recorded if isinstance(data, str | Path) else recorded_table
        place = Path(data) if isinstance(data, str) else data
        self._streams[name] = open_it(name, place, time, timing)
        return self

    def query(
        self, query: "str | QueryBuilder", name: str = "query", plan: str | None = None, join: str = "auto"
    ) -> "PlannedQuery | SparkQuery":
        """Plan a query given as SQL text or by the builder; `plan` is a join order such as `((a b) c)`."""
        planned, name = self._plan(query, plan, join), checked_name("a query", name)
        if self._spark is not None:
            frames = tuple(self._frames.values())
            return SparkQuery(name, planned, frames, self._plan, self._aggregates, self._spark)
        return PlannedQuery(name, planned, tuple(self._streams.values()), self._plan, self._aggregates)

    def adopt(self, name: str, build: AdoptedBuild, builds: Sequence[AdoptedBuild] = ()) -> AdoptedQuery:
        """Take in a streaming program of your own: `build(spark, streams)` returns a streaming DataFrame.

        `streams` has the declared streams by name. `build` is a function or text `file.py:function`. A restart goes on
        with the versions that ran; those that are functions are found among `build` and `builds`, by name.
        """
        if self._spark is None:
            raise MidstreamError("engine.adopt runs programs of your own on Spark: make it with Engine(spark)")
        if not self._frames:
            raise MidstreamError("declare the streams first: engine.stream(name, frame, time=...)")
        return AdoptedQuery(name, build, tuple(builds), tuple(self._frames.values()), self._spark)

    def aggregate(
        self, name: str, function: Callable[[pa.Array], Any] | type[Any], returns: str | pa.DataType
    ) -> "Engine":
        """Declare an aggregate written in Python: called with the values of a window that are not null.

        Of a class with `process(rows)` an object is made for each group of values.
        """
        check_aggregate_name(name)
        if name.lower() in self._aggregates:
            raise MidstreamError(f"aggregate '{name}' is declared twice")
        self._aggregates[name.lower()] = user_aggregate(name, function, returns)
        return self

    def _plan(self, query: "str | QueryBuilder", plan: str | None, join: str) -> Plan:
        catalog = [s.schema for s in self._streams.values()] + [s.schema for s in self._frames.values()]
        if not isinstance(query, str | QueryBuilder):
            raise MidstreamError(f"a query is SQL text or a builder, not {type(query).__name__}")
        bound = (
            parse_query(query, catalog, self._aggregates)
            if isinstance(query, str)
            else query.bind(catalog, self._aggregates)
        )
        return make_plan(bound, plan, join, tuple(self._streams.values()))


class SparkQuery(PlannedOnSpark):
    """A query ready to run on Spark."""

    def explain(self) -> str:
        """Return the plan as people read it."""
        return explain_plan(self.plan)

    def start(
        self,
        sink: Any,
        checkpoint: str | Path,
        buckets: int | None = None,
        ordered: bool = False,
        trigger: dict[str, Any] | None = None,
        streams: Sequence[str] = (),
        adapt: str | None = None,
        waiting: int = MOST_WAITING,
        retention: Mapping[str, int] | None = None,
        sites: DeclaredSites | Mapping[str, str] | None = None,
        optimize: str | Optimizing | None = None,
        load: Mapping[str, Any] | None = None,
    ) -> "SparkRun":
        """Start the query, or go on where its checkpoint left off.

        `sink` is a folder for Parquet, a function of (DataFrame, batch number) or of (DataFrame, batch number, hop), or
        {"format": ..., options}. `buckets` is one per core unless given. `ordered` brings each micro-batch's results
        into max order. `trigger` is what Spark's `trigger` takes, such as {"processingTime": "1 second"} or
        {"availableNow": True}. `streams` names further streams to read, for later versions of the query. `adapt` says
        what a hopping query may adapt by itself: "modes", "hop=1s..10s", or both. With more rows than `waiting` that
        wait for other streams the query fails, and says for which. `retention` says how much is kept of late
        rows, events and control rows: `late_files`, `event_bytes`, `control_rows`. With `sites`, the site of each
        stream by its name, streams are joined where they arrive. `optimize` says whether better plans are looked for:
        with "auto" the query goes on with one that pays, with "advise" it only says so. `load` says what gives when it
        is behind: {"when_behind": "30 seconds", "window": "10 seconds"}; instead of `window` also `hop` or `query`.
        """
        from midstream.spark.run import SparkRun, cores_of  # PySpark is an extra

        trigger = {} if trigger is None else trigger
        if not isinstance(trigger, dict):
            raise MidstreamError(f"a trigger is what Spark's takes, such as {{'availableNow': True}}, not {trigger!r}")
        plan, framework = self.plan, Framework()
        if sites is not None:
            given = sites if isinstance(sites, DeclaredSites) else DeclaredSites(dict(sites))
            plan, declared = place_plan(plan, given)
            framework = Framework(SITES, sites=declared)
        count = buckets if buckets is not None else cores_of(self.spark)
        ends = bool(trigger.get("availableNow") or trigger.get("once"))
        settings = LiveSettings(
            local_folder(checkpoint, "the checkpoint"),
            count,
            ordered,
            streams,
            adapt,
            ends,
            check_waiting(waiting),
            Retention.of(retention),
            framework,
            optimize,
            load,
        )
        return SparkRun(replace(self, plan=plan), sink, settings, trigger)


@dataclass(frozen=True)
class PlannedQuery:
    """A query ready to run in process."""

    name: str
    plan: Plan
    streams: tuple[RecordedStream, ...]
    planner: Planner
    """Plans another query over the same streams."""
    aggregates: Mapping[str, UserAggregate]

    def explain(self) -> str:
        """Return the plan as people read it."""
        return explain_plan(self.plan, self.streams)

    def start(
        self,
        sink: "str | Path | Callable[[pa.RecordBatch], None] | None" = None,
        batch: str | int | None = None,
        buckets: int = 1,
        framework: str = "tree",
        paused: bool = False,
        adapt: str | None = None,
        checkpoint: str | Path | None = None,
        optimize: str | Optimizing | None = None,
        load: Mapping[str, Any] | None = None,
    ) -> "Run":
        """Run over the recorded streams to their end; results go to a file, a function, or memory (`run.table()`).

        `batch` is how wide micro-batches are in event time; without it they go by rows. Results do not depend on it.
        `adapt` says what a hopping query may adapt by itself: "modes", "plan", "hop=1s..10s", or several of them. With
        `paused` nothing runs yet: `run.advance(...)` goes on to an event time, `run.migrate(...)` changes the plan
        there, `run.finish()` goes on to the end.

        `optimize` says whether better plans are looked for: with "auto" the run goes on with one that pays, with
        "advise" it only says so. `run.decisions()` has what was decided.

        `load` says what gives when a machine of some `capacity` would be behind: {"when_behind": "30 seconds",
        "window": "10 seconds", "capacity": 1_000_000}; instead of `window` also `hop`, `query` or `version`.

        With a `checkpoint`, a folder, every micro-batch is kept there, and a run that was stopped or killed goes on
        after the last one, with the plan it had; `sink` is then a folder, with a Parquet file per micro-batch.
        """
        optimizing, adaptation = optimizing_of(optimize, adapt, self.plan)
        loop = Loop(
            self.plan, self.streams, None if batch is None else parse_duration(batch), buckets, framework=framework,
            adaptation=adaptation, optimizing=optimizing, aggregates=self.aggregates, load=self._load(load),
        )  # fmt: skip
        schema = output_schema(self.plan)
        if checkpoint is not None:
            if not isinstance(sink, str | Path):
                raise SinkError("a run with a checkpoint writes a file per micro-batch: give a folder as its sink")
            held = local_folder(checkpoint, "the checkpoint")
            folder = BatchFolder(check_apart(local_folder(sink, "the sink"), held), schema)
            kept = Run(self, resume(loop, held, folder), folder)
            return kept if paused or kept.ended else kept.finish()
        target: Sink
        if sink is None:
            target = TableSink(schema)
        elif isinstance(sink, str | Path):
            target = FileSink(check_not_read(local_folder(sink, "the sink"), self.streams), schema)
        elif callable(sink):
            target = FunctionSink(sink)
        else:
            raise SinkError(f"a sink is a file, a function or nothing, not {type(sink).__name__}")
        run = Run(self, loop.start(target), target)
        return run if paused else run.finish()

    def _load(self, asked: Mapping[str, Any] | None) -> Load | None:
        if asked is None:
            return None
        return plan_load(asked, self.plan.query.text, self.plan, lambda sql: self.planner(sql, None, "auto"))


class Run:
    """A run in process: where it stands, its results and what has happened."""

    def __init__(self, query: PlannedQuery, running: RunningLoop, sink: Sink) -> None:
        self.query = query
        self._running = running
        self._sink = sink
        self._failed = False
        self._stopped = False

    @property
    def ended(self) -> bool:
        """Return whether all rows have been taken in and everything has left."""
        return self._running.finished

    @property
    def report(self) -> Report:
        """Return the report of the run so far."""
        return self._running.report

    @property
    def plan(self) -> Plan:
        """Return the plan that runs, or is being migrated to."""
        return self._running.host.plan

    def advance(self, until: "int | str | dt.datetime") -> "Run":
        """Take in the rows before an event time."""
        self._check_open()
        until_us = parse_instant(until)
        return self._guarded(lambda: self._to(until_us))

    def finish(self) -> "Run":
        """Take in all rows that are left and end the run."""
        self._check_open()
        return self._guarded(self._end)

    def stop(self) -> "Run":
        """End a run with a checkpoint here; started again with it, the run goes on from here."""
        self._check_open()
        self._guarded(self._running.stop, refusable=True)
        self._stopped = True
        return self

    def _to(self, until_us: int) -> None:
        while self._running.step(until_us):
            pass

    def _end(self) -> None:
        while self._running.step():
            pass
        self._running.finish()
        self._sink.commit()
        self._running.release()

    def _guarded(self, work: Callable[[], None], refusable: bool = False) -> "Run":
        """Do something that fails the run if it fails; what may be refused leaves the run as it was then."""
        try:
            work()
        except BaseException as error:
            if not (refusable and isinstance(error, MidstreamError)):
                self._sink.abort()
                self._running.release()
                self._failed = True
            raise
        return self

    def _check_open(self) -> None:
        if self._failed:
            raise MidstreamError(f"the run of '{self.query.name}' has failed")
        if self._running.finished:
            raise MidstreamError(f"the run of '{self.query.name}' has ended")
        if self._stopped:
            raise MidstreamError(f"the run of '{self.query.name}' was stopped; start it again with its checkpoint")

    def migrate(self, plan: str, strategy: str | None = None, **options: Any) -> dict[str, Any]:
        """Go on with another plan of the same meaning from the next row on; return the record of the migration."""
        self._check_open()
        number = len(self._running.migrations()) + 1
        self._running.migrate(MigrationRequest.of(plan, strategy, options, identity=str(number)))
        return self.migrations()[-1]

    def register(self, query: "str | QueryBuilder", plan: str | None = None, join: str = "auto") -> int:
        """Plan and check a query to change to later, without changing; return its number."""
        self._check_open()
        request, made = ask_change(query, self.query.planner, {"plan": plan, "join": join})
        return self._running.register(request.sql, made)

    def registered(self) -> list[dict[str, Any]]:
        """Return the queries that can be changed to by number; 1 is the one the run was started with."""
        return [version.to_dict() for version in self._running.repository.all()]

    def remove(self, number: int) -> "Run":
        """Forget a registered query; what runs is not touched."""
        self._check_open()
        self._running.remove(number)
        return self

    def change(
        self, query: "str | QueryBuilder | int", method: str = DRAIN, order: str | None = None, **options: Any
    ) -> dict[str, Any]:
        """Go on with another query from the next row on; return the record of the change.

        The query is SQL text, a builder, or the number of a registered one. `method` is immediate, delayed-drain, drain
        (with `order`, "query" or "stream"), graceful-immediate or graceful-drain. A change of the output's columns
        needs `allow_schema_change=True`.
        """
        self._check_open()
        number = str(len(self._running.changes()) + 1)
        asked = {"method": method, "order": order, **options}
        if isinstance(query, int):
            known = self._running.repository[query]
            request, plan = ChangeRequest.of(known.sql, asked, identity=number), known.plan
        else:
            request, plan = ask_change(query, self.query.planner, asked, number)
        self._guarded(lambda: self._running.change(request, plan), refusable=True)
        return self.changes()[-1]

    def control(self, control: str) -> "Run":
        """Give the whole query a control element at the next row: fstart, istop, dstop; or abort the last change."""
        self._check_open()
        request = ControlRequest(control)
        return self._guarded(lambda: self._running.control(request), refusable=True)

    def changes(self) -> list[dict[str, Any]]:
        """Return what became of each change of the query."""
        return self._running.changes()

    def migrations(self) -> list[dict[str, Any]]:
        """Return what became of each migration."""
        return self._running.migrations()

    def events(self) -> list[dict[str, Any]]:
        """Return what has happened, in order of event time."""
        events = [{"event": "migration", **record} for record in self.migrations()]
        events += [{"event": "change", **record} for record in self.changes()]
        events.sort(key=lambda record: (record["position_us"] is None, record["position_us"]))
        ends = [{"event": "ended", "rows_in": self.report.rows_in, "rows_out": self.report.rows_out}]
        return [{"event": "started", "plan": str(self.query.plan)}, *events, *(ends if self.ended else [])]

    def decisions(self) -> list[dict[str, Any]]:
        """Return what was decided of plans: when, from which to which, why, what was expected and what was measured."""
        return self._running.advisers.decisions.to_plain()

    def table(self) -> pa.Table:
        """Return the results so far of a run without a sink."""
        if not isinstance(self._sink, TableSink):
            raise MidstreamError(f"the results of '{self.query.name}' went to its sink, not to memory")
        return self._sink.table()

    def explain(self, migrate: str | None = None) -> str:
        """Return the plan that runs as people read it; with `migrate` what going to that plan would find and cost."""
        known = self._running.host.statistics()
        if migrate is None:
            return explain_plan(self.plan, self.query.streams, known)
        return explain_migration(self.plan, MigrationRequest.of(migrate), self.query.streams, known)[0]

    def status(self) -> dict[str, Any]:
        """Return where the run stands, as plain values."""
        r = self.report
        return {
            "name": self.query.name,
            "state": "failed" if self._failed else "ended" if self.ended else "stopped" if self._stopped else "paused",
            "plan": str(self.plan),
            "version": self._running.host.merger.version,
            "phase": self._running.host.phase,
            "rows_in": r.rows_in,
            "rows_out": r.rows_out,
            "late": r.late,
            "ahead": r.ahead,
        }
