"""Replay: run a scenario over recorded streams and write what came out and what happened."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pyarrow as pa

from midstream.change.repository import check_change, check_control
from midstream.change.request import ChangeRequest
from midstream.engine.planning.optimizing import optimizing_of
from midstream.engine.planning.plans import plan_hopping
from midstream.engine.results.schema import output_schema
from midstream.engine.run.family import family_of
from midstream.lang.sql import parse_query
from midstream.local.aggregates import load_aggregates
from midstream.local.late import LateFile
from midstream.local.load import Load, plan_load
from midstream.local.loop import Loop, OnLate, Progress
from midstream.local.report import Report
from midstream.local.scenario import JOINS, Scenario
from midstream.local.sinks import FileSink, PendingFile, Sink, TableSink
from midstream.local.sites import place_plan
from midstream.local.sites_run import run_over_sites
from midstream.local.sources import RecordedStream, open_recorded
from midstream.local.statistics import gather
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import MidstreamError, PlanError, SinkError
from midstream.operators.build import SITES, check_framework
from midstream.optimize.order_joins import can_choose, order_joins
from midstream.plan.aggregates import UserAggregate
from midstream.plan.capabilities import refuse
from midstream.plan.nodes import MethodChoice
from midstream.plan.plan import Plan, ordered_plan
from midstream.plan.query import CLOSE, HOP, ROW, Query, When
from midstream.plan.tree import parse_tree


def make_plan(
    query: Query, order: str | None = None, join: str = "auto", streams: Sequence[RecordedStream] = ()
) -> Plan:
    """Plan a query as asked, or the cheapest way by the first rows of recorded streams.

    `order` is a join order; of a hopping query its shape, modes and working.
    """
    if join not in JOINS:
        raise PlanError(f"join is '{join}'; it can be {', '.join(JOINS)}")
    if not isinstance(order, str | None):
        raise PlanError(f"a plan is text such as '((a b) c)', not {type(order).__name__}")
    return _PLANNED[query.when](query, order, cast(MethodChoice, join), streams)


def _plan_sliding(query: Query, order: str | None, join: MethodChoice, streams: Sequence[RecordedStream]) -> Plan:
    if order is not None:
        return ordered_plan(query, parse_tree(order, query.aliases), join)
    statistics = gather(query, streams) if can_choose(query) else None
    return ordered_plan(query, order_joins(query, statistics, join), join)


def _plan_hopping(query: Query, order: str | None, join: MethodChoice, streams: Sequence[RecordedStream]) -> Plan:
    if join != "auto":
        raise refuse("join method of hops", method=join)
    return plan_hopping(query, order, gather(query, streams))


_PLANNED: dict[When, Callable[[Query, str | None, MethodChoice, Sequence[RecordedStream]], Plan]] = {
    ROW: _plan_sliding,
    CLOSE: _plan_sliding,
    HOP: _plan_hopping,
}


@dataclass(frozen=True)
class Rehearsal:
    """A scenario with its streams opened and its query planned: everything that can be wrong has been checked."""

    scenario: Scenario
    streams: tuple[RecordedStream, ...]
    plan: Plan
    versions: tuple[Plan, ...] = ()
    """The plans of the changes in the schedule, in the same order."""
    aggregates: Mapping[str, UserAggregate] = field(default_factory=dict)
    load: Load | None = None
    """What gives when the query is behind."""

    @property
    def rows(self) -> int:
        """Return how many rows the query will read."""
        used = {s.stream.name for plan in (self.plan, *self.versions) for s in plan.query.sources}
        return sum(s.rows for s in self.streams if s.schema.name in used)


def prepare(scenario: Scenario) -> Rehearsal:
    """Open the streams of a scenario and plan its query."""
    streams = tuple(open_recorded(s.name, s.path, s.time, s.timing) for s in scenario.streams)
    catalog = [s.schema for s in streams]
    aggregates = load_aggregates(scenario.aggregates)
    plan = make_plan(parse_query(scenario.sql, catalog, aggregates), scenario.plan, scenario.join, streams)
    _check_run(plan, scenario)
    versions: list[Plan] = []
    running = plan
    for request in scenario.schedule:
        try:
            if isinstance(request, MigrationRequest):
                running = family_of(running).migrated(running, request)
            elif isinstance(request, ChangeRequest):
                asked = parse_query(request.sql, catalog, aggregates)
                after = make_plan(asked, request.plan, request.join, streams)
                check_framework(after, scenario.framework)
                check_change(running, after, request)
                versions.append(after)
                running = after
                output_schema(plan, *versions)
            else:
                check_control(request, [running])
        except MidstreamError as error:
            raise PlanError(f"scenario {scenario.path}: [[at]] number {request.identity}: {error}") from error
    load = _planned_load(scenario, plan, lambda sql: make_plan(parse_query(sql, catalog, aggregates), streams=streams))
    return Rehearsal(scenario, streams, plan, tuple(versions), aggregates, load)


def _planned_load(scenario: Scenario, plan: Plan, planned: Callable[[str], Plan]) -> Load | None:
    """Plan what gives when the query is behind, or refuse it."""
    if scenario.load is None:
        return None
    try:
        if scenario.runtime != "local" or scenario.framework == SITES:
            raise MidstreamError('[load] is for runtime = "local" and one place: a live query has a lag of its own')
        return plan_load(scenario.load, scenario.sql, plan, planned, scenario.versions)
    except MidstreamError as error:
        raise PlanError(f"scenario {scenario.path}: {error}") from error


def _check_run(plan: Plan, scenario: Scenario) -> None:
    """Refuse what [run] asks of a query that it cannot do."""
    try:
        optimizing_of(scenario.optimize, scenario.adapt, plan)
    except MidstreamError as error:
        raise PlanError(f"scenario {scenario.path}: [run] adapt: {error}") from error
    check_framework(plan, scenario.framework)
    if scenario.framework == SITES:
        try:
            scenario.sites.of(plan.query)
        except MidstreamError as error:
            raise PlanError(f"scenario {scenario.path}: {error}") from error


Host = Callable[[Loop, Sink, Progress | None, OnLate | None], Report]
"""Runs a loop to its end; results go to the sink, which is not committed."""


def in_process(loop: Loop, sink: Sink, progress: Progress | None, on_late: OnLate | None) -> Report:
    """Run a loop in this process; one over sites with a simulated network between them."""
    if loop.framework == SITES:
        return run_over_sites(loop, sink, progress, on_late)
    return loop.run(sink, progress, on_late)


def replay(
    rehearsal: Rehearsal,
    out: Path | None = None,
    report: Path | None = None,
    late: Path | None = None,
    progress: Progress | None = None,
    host: Host = in_process,
) -> tuple[Report, pa.Table | None]:
    """Run a scenario; write output, report and late rows together at the end, or nothing at all.

    `host` runs the loop. Return the report, and the output itself when no file was asked for.
    """
    scenario, plan = rehearsal.scenario, rehearsal.plan
    late = late or scenario.late
    check_places([p for p in (out, report, late) if p is not None], rehearsal)
    files: list[PendingFile | LateFile | FileSink] = []
    try:
        schema = output_schema(plan, *rehearsal.versions)
        sink: FileSink | TableSink = FileSink(out, schema) if out is not None else TableSink(schema)
        if isinstance(sink, FileSink):
            files.append(sink)
        late_file = LateFile(late) if late is not None else None
        if late_file is not None:
            files.append(late_file)
        report_file = PendingFile(report) if report is not None else None
        if report_file is not None:
            files.append(report_file)
        sites = None
        if scenario.framework == SITES:
            plan, sites = place_plan(plan, scenario.sites)
        optimizing, adaptation = optimizing_of(scenario.optimize, scenario.adapt, plan)
        loop = Loop(
            plan, rehearsal.streams, scenario.batch_us, scenario.buckets, scenario.schedule, scenario.framework,
            scenario.routing, rehearsal.versions, adaptation, optimizing, sites=sites, load=rehearsal.load,
        )  # fmt: skip
        on_late = late_file.add if late_file is not None else None
        summary = host(loop, sink, progress, on_late)
        # Everything is whole on disk before the first file appears under its name.
        if isinstance(sink, FileSink):
            sink.close()
        if late_file is not None:
            late_file.close()
        if report_file is not None:
            report_file.close(summary.to_json())
        for file in files:
            file.commit()
    except BaseException:
        for file in files:
            file.abort()
        raise
    return summary, sink.table() if isinstance(sink, TableSink) else None


def check_places(places: list[Path], rehearsal: Rehearsal) -> None:
    """Refuse to write one file twice or over an input."""
    taken = {s.path.resolve(): f"stream '{s.name}'" for s in rehearsal.scenario.streams}
    taken[rehearsal.scenario.path.resolve()] = "the scenario"
    if rehearsal.scenario.query_file is not None:
        taken[rehearsal.scenario.query_file.resolve()] = "the query"
    taken |= {file.resolve(): "the query of a change" for file in rehearsal.scenario.change_files}
    taken |= {a.file.resolve(): f"the aggregate '{a.name}'" for a in rehearsal.scenario.aggregates}
    for place in places:
        other = taken.get(place.resolve())
        if other is not None:
            raise SinkError(f"cannot write {place}: it is also {other}")
        taken[place.resolve()] = "another output"
