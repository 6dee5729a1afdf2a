"""Scripts: drawn runs of every kind of query, cut into micro-batches and buckets, with what happens to them meanwhile.

    kind, seed ──▶ rows, query, plan, batches, buckets, migrations or changes ──▶ a loop for either host
                                                                            └───▶ what must come out

One place for both hosts: `script.run(in_process)` and `script.run(on_spark)` run the same loop, and `script.check`
compares its output with recomputing from scratch.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from engine.test_hop_recovery import draw_asked, plan_of, rows_of, streams_of
from engine.test_hop_recovery import draw_requests as draw_hop_requests

import midstream as ms
from midstream.change.request import ChangeRequest
from midstream.lang.sql import parse_query
from midstream.local.loop import Loop, output_schema
from midstream.local.replay import Host, make_plan
from midstream.local.report import Report
from midstream.local.sinks import TableSink
from midstream.local.sources import recorded_table
from oracle import (
    campaign,
    changes,
    general,
    generate,
    hop_generate,
    hop_recompute,
    migrations,
    optimized,
    recompute,
    test_changes,
)
from oracle.change_run import Oracle
from oracle.differences import draw_difference, recompute_changes
from oracle.differences import rows_of as changes_of
from oracle.hop_queries import Row, times_of
from oracle.silent import draw_silent

JOIN, SILENT, MIGRATIONS, DIFFERENCE, HOPS, GENERAL = "join", "silent", "migrations", "difference", "hops", "general"
OWN, OPTIMIZED = "own code", "optimized"
KINDS = (JOIN, SILENT, MIGRATIONS, DIFFERENCE, HOPS, GENERAL, OWN, OPTIMIZED, *changes.METHODS)
"""What is drawn; the name of a method stands for a change by it."""
Check = Callable[[pa.Table, Report], None]
MOST_HOP_BATCHES = 3
MOST_GENERAL_BATCHES = 8


@dataclass(frozen=True)
class Script:
    """A drawn run, and how to tell whether its output is right."""

    loop: Loop
    check: Check
    told: str

    def run(self, host: Host) -> tuple[pa.Table, Report]:
        """Run it; return the output and the report."""
        sink = TableSink(output_schema(self.loop.plan, *self.loop.versions))
        report = host(self.loop, sink, None, None)
        return sink.table(), report


def draw_script(kind: str, seed: int) -> Script:
    """Draw a script of a kind."""
    draws = {
        JOIN: _join,
        SILENT: _silent,
        MIGRATIONS: _migrations,
        DIFFERENCE: _difference,
        HOPS: _hops,
        GENERAL: _general,
        OWN: _own,
        OPTIMIZED: _optimized,
    }
    return draws[kind](seed) if kind in draws else _change(seed, kind)


def _planned(case: "generate.Case") -> "ms.app.engine.PlannedQuery":
    engine = ms.Engine()
    for name, table in case.streams.items():
        engine.stream(name, table, time="ts")
    return engine.query(case.sql, plan=case.tree, join=case.join)


def _join(seed: int) -> Script:
    rnd = random.Random(9000 + seed)
    while True:
        case = generate.draw_case(rnd)
        expected = recompute.recompute(case)
        if 0 < expected.num_rows <= 3000:
            break
    planned, told = _planned(case), f"{case.sql} | {case.tree}"

    def check(got: pa.Table, report: Report) -> None:
        schema = got.schema.remove(got.schema.get_field_index("_version"))
        assert recompute.plain(got, schema) == recompute.plain(expected, schema), told
        assert report.rows_out == expected.num_rows

    batch_us, buckets = rnd.choice([3_000_000, 8_000_000]), rnd.choice([1, 2, 3])
    return Script(Loop(planned.plan, planned.streams, batch_us, buckets), check, told)


def _silent(seed: int) -> Script:
    rnd = random.Random(9_900_000 + seed)
    while True:
        silent = draw_silent(rnd)
        expected = recompute.recompute(silent.case)
        if expected.num_rows <= 3000:
            break
    streams, case = silent.streams, silent.case
    recorded = [recorded_table(name, table, "ts", silent.timings[name]) for name, table in streams.items()]
    plan = make_plan(parse_query(case.sql, [s.schema for s in recorded]), case.tree, case.join, recorded)
    told = f"{case.sql} | {case.tree} | {silent.timings}"

    def check(got: pa.Table, report: Report) -> None:
        schema = got.schema.remove(got.schema.get_field_index("_version"))
        assert recompute.plain(got, schema) == recompute.plain(expected, schema), told
        found = silent.set_aside
        assert report.late_by_stream == {name: len(found[name].late) for name in silent.read}, told
        assert report.ahead_by_stream == {name: len(found[name].ahead) for name in silent.read}, told

    batch_us, buckets = rnd.choice([300_000, 3_000_000, 8_000_000]), rnd.choice([1, 2, 3])
    return Script(Loop(plan, tuple(recorded), batch_us, buckets), check, told)


def _migrations(seed: int) -> Script:
    rnd = random.Random(80_000 + seed)
    while True:
        case = migrations.with_times(migrations.draw_dense_case(rnd) if seed % 3 else generate.draw_case(rnd))
        expected = recompute.recompute(case)
        requests = migrations.draw_requests(rnd, case, migrations.plan_of(case), migrations.STRATEGIES)
        if 0 < expected.num_rows <= 5000 and requests and len(case.sources) > 1:
            break
    planned = _planned(case)
    batch_us, buckets = rnd.choice([3_000_000, 8_000_000]), rnd.choice([1, 2, 3])
    framework = rnd.choice(["tree", "tree", "tree", "stairs", "cacq"])
    told = f"{case.sql} | {case.tree} {case.join} | {requests} | {batch_us} {buckets} {framework}"

    def check(got: pa.Table, report: Report) -> None:
        migrations.check_output(case, got.drop_columns(["_version"]), expected, requests, told)
        assert len(report.migrations) == len(requests)

    return Script(Loop(planned.plan, planned.streams, batch_us, buckets, requests, framework), check, told)


def _optimized(seed: int) -> Script:
    rnd = random.Random(44_500_000 + seed)
    while True:
        case, loop = optimized.draw_optimized(rnd)
        expected = recompute.recompute(case)
        if 0 < expected.num_rows <= 5000:
            break
    told = f"{case.sql} | {case.tree} {case.join} | {loop.schedule} | {loop.batch_us} {loop.buckets} {loop.framework}"

    def check(got: pa.Table, report: Report) -> None:
        migrations.check_output(case, got.drop_columns(["_version"]), expected, [], told)
        assert all(d["state"] != "refused" for d in report.decisions), told

    return Script(loop, check, told)


def _difference(seed: int) -> Script:
    rnd = random.Random(60_000 + seed)
    case = draw_difference(rnd)
    while not case.requests or len(case.sides) < 3 or len(expected := recompute_changes(case)) < 20:
        case = draw_difference(rnd)
    engine = ms.Engine()
    for name, table in case.streams.items():
        engine.stream(name, table, time="ts")
    planned = engine.query(case.sql, plan=case.tree)

    def check(got: pa.Table, report: Report) -> None:
        assert changes_of(got) == expected, str(case)
        assert report.rows_out == len(expected)
        assert len(report.migrations) == len(case.requests)

    batch_us = rnd.choice([1_000_000, 5_000_000])
    return Script(Loop(planned.plan, planned.streams, batch_us, 2, case.requests), check, str(case))


def _hops(seed: int) -> Script:
    rnd = random.Random(50_000 + seed)
    kinds = hop_generate.KINDS
    case = replace(hop_generate.draw_case(rnd, kinds[seed % len(kinds)]), buckets=rnd.choice([1, 2, 2, 3]))
    times = [t for name in {n for n, _ in case.windows} for t in times_of(case.streams[name])] or [0]
    batch_us = (max(times) - min(times)) // rnd.randint(1, MOST_HOP_BATCHES - 1) + 1
    plan = plan_of(case.sql, case.streams, draw_asked(rnd, case.hop_us))
    requests = draw_hop_requests(rnd, case) if seed % 2 else []
    told = f"{plan} | {requests}{case}"

    def check(got: pa.Table, report: Report) -> None:
        assert got.schema == output_schema(plan)
        assert report.rows_out == got.num_rows
        if requests:  # another hop may have been asked for; both hosts must then agree
            return
        found: dict[int, Counter[Row]] = {}
        at = len(case.names)
        for row in rows_of(got):
            found.setdefault(row[at + 2], Counter())[(*row[:at], *row[at + 3 :])] += 1
        assert found == {hop: rows for hop, rows in hop_recompute.recompute(case) if rows}, told

    return Script(Loop(plan, streams_of(case.streams), batch_us, case.buckets, requests), check, told)


def _general(seed: int) -> Script:
    return _replaced(random.Random(74_000_000 + seed), general.draw_general_script)


def _own(seed: int) -> Script:
    return _replaced(random.Random(76_000_000 + seed), general.draw_own_script)


def _replaced(rnd: random.Random, draw: Callable[[random.Random], campaign.Script]) -> Script:
    """Draw a script in which black boxes are replaced."""
    while True:
        drawn = draw(rnd)
        times = {r.time // drawn.case.batch_us for rows in drawn.case.rows.values() for r in rows}
        if general.defined(drawn) and len(times) <= MOST_GENERAL_BATCHES:
            break
    expected = general.unmigrated(drawn)

    def check(got: pa.Table, report: Report) -> None:
        assert campaign.rows_of([got]) == expected, str(drawn)
        assert len(report.migrations) >= len(drawn.migrations)

    return Script(drawn.loop(), check, str(drawn))


def _change(seed: int, method: str) -> Script:
    rnd = random.Random(900_000 + seed * 10 + changes.METHODS.index(method))
    case = test_changes.draw_case(rnd, method)
    while not 2 <= len({r.time // case.batch_us for rows in case.rows.values() for r in rows}) <= 8:
        case = test_changes.draw_case(rnd, method)
    streams = []
    for name, rows in case.rows.items():
        columns = {c: pa.array([r.values[c] for r in rows], pa.int64()) for c in ("k", "v")}
        table = pa.table({"ts": pa.array([r.time for r in rows], pa.int64()), **columns})
        streams.append(recorded_table(name, table, "ts"))
    catalog = [s.schema for s in streams]
    first, *later = (
        make_plan(parse_query(query.sql, catalog), None, "auto", tuple(streams))
        for query in (case.first, *(c.query for c in case.changes))
    )
    schedule = []
    for change in case.changes:
        name, _, order = change.method.partition("/")
        options = {"method": name, "audit": True, **({"order": order} if order else {})}
        asked = ChangeRequest.of(change.query.sql, options, at_us=change.position, identity=str(len(schedule) + 1))
        schedule.append(asked)
    oracle = Oracle(case.rows, case.first, case.changes)
    given = oracle.given_out()

    def check(got: pa.Table, report: Report) -> None:
        assert [tuple(row.values()) for row in got.to_pylist()] == [g.row for g in given], str(case)
        test_changes.check_records(oracle, given, report, str(case))

    loop = Loop(first, tuple(streams), case.batch_us, case.buckets, schedule, versions=tuple(later))
    return Script(loop, check, str(case))
