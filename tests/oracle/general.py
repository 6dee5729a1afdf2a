"""General migrations: scripts over queries that are black boxes, cut and changed as those of the campaign are.

seed ──▶ a join, windows over it, windows over those, or a hopping query ──▶ migrations, most of them general, changes
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.test_hop_recovery import draw_asked

from midstream.local.loop import output_schema
from midstream.local.replay import in_process
from midstream.local.report import Report
from midstream.local.sinks import TableSink
from midstream.migrate.request import (
    GENERAL,
    GENERAL_HYBRID,
    GENERAL_MOVING_STATE,
    GENERAL_PARALLEL_TRACK,
    MigrationRequest,
)
from midstream.model.errors import PlanError
from midstream.plan.plan import Plan
from midstream.plan.window import RangeWindow
from oracle.campaign import Asked, Script, draw_version, expected_rows, rows_of
from oracle.change_run import Change
from oracle.changes import METHODS, Aggregates, Condition, Filter, Join, Query, RowsSlide
from oracle.generate import draw_tree
from oracle.hop_changes import HopQuery
from oracle.hop_generate import MOST_ROWS, _weight
from oracle.hop_queries import INT, REAL, Derived, HopCase, Item, Output, Select
from oracle.migrations import STRATEGIES, draw_options
from oracle.test_changes import STREAMS, draw_wide_join
from oracle.test_hop_changes import Case, draw_hopping, draw_streams
from oracle.test_windows_over_joins import OverJoin, draw_window

ABLE = [*GENERAL]
DIFFERENCES = ("EXCEPT", "EXCEPT", "EXCEPT ALL")


def over_streams(query: Query, names: dict[str, str]) -> Query:
    """Return a query over streams of other names."""
    if isinstance(query, OverJoin):
        assert query.join is not None
        join = replace(query.join, sources=tuple(replace(s, stream=names[s.stream]) for s in query.join.sources))
        return replace(query, below=join, join=join)  # type: ignore[arg-type]
    if isinstance(query, Join):
        return replace(query, sources=tuple(replace(s, stream=names[s.stream]) for s in query.sources))
    assert isinstance(query, Aggregates)
    assert not isinstance(query.below, str)
    return replace(query, below=over_streams(query.below, names))  # type: ignore[arg-type]


def draw_over_join(rnd: random.Random, join: Join, tick: int) -> Aggregates:
    """Draw aggregates over a window of a join, or over a window of such aggregates."""
    columns = tuple(f"{s.alias}.{c}" for s in join.sources for c in "kv")
    join = replace(join, outputs=tuple((c, c) for c in columns))
    group_by = rnd.choice([None, "a.k", "b.k"])
    first = ("a", "", group_by) if group_by else ("a", "COUNT", "*")
    outputs = (first, ("b", *rnd.choice([("SUM", "b.v"), ("MAX", "a.v"), ("COUNT", "*")])))
    where = (Condition(rnd.choice(columns), "<", 6),) if rnd.random() < 0.4 else ()
    query = OverJoin(join, draw_window(rnd, tick), outputs, where, group_by, join)  # type: ignore[arg-type]
    if rnd.random() < 0.6:
        return query
    count = rnd.randint(1, 4)
    above = RowsSlide(count, rnd.randint(1, count)) if rnd.random() < 0.5 else draw_window_above(rnd, tick)
    return Aggregates(query, above, (("a", "SUM", "b"), ("b", "COUNT", "*")))


def draw_window_above(rnd: random.Random, tick: int) -> Any:
    while True:
        window = draw_window(rnd, tick)
        if getattr(window, "partition_by", None) is None and "a.v" not in str(window) and "a.k" not in str(window):
            return window


def draw_general_query(rnd: random.Random, draw: Any, tick: int) -> Query:
    kind = rnd.random()
    if kind < 0.3:
        return draw_hopping(draw)
    join = draw_wide_join(rnd, tick)
    query: Query = join if kind < 0.5 else draw_over_join(rnd, join, tick)
    return over_streams(query, dict(zip(STREAMS, draw.names, strict=False)))


def draw_general_migration(rnd: random.Random, query: Query, plan: Plan, at: int) -> Asked | None:
    """Draw a migration that suits a query."""
    strategy = rnd.choice(ABLE) if rnd.random() < 0.8 else rnd.choice(STRATEGIES)
    options: dict[str, object] = {"rows": rnd.choice([1, 3, 10, 1000])} if strategy == GENERAL_HYBRID else {}
    if isinstance(query, HopQuery):
        return at, draw_asked(rnd, query.hop_us), strategy if strategy in ABLE else None, options
    if len(plan.query.sources) < 2 or isinstance(query, Filter):
        return None
    if strategy not in ABLE:
        options = draw_options(rnd, strategy)
        if strategy == "parallel-track":
            options["output"] = "merged"
    tree = draw_tree(rnd, list(plan.query.aliases))
    try:
        MigrationRequest.of(tree, strategy, options, at_us=at).checked(plan)
    except PlanError:
        return None
    return at, tree, strategy, options


def draw_own_hopping(draw: Any) -> HopQuery:
    """Draw a median or an aggregate of the user by key, of a join or of a difference, hop by hop."""
    rnd = draw.rnd
    while True:
        items: list[Item]
        on: list[tuple[str, ...]]
        if rnd.random() < 0.6:
            difference = replace(draw.set_operation((INT, INT), rnd.choice([0, 1])), op=rnd.choice(DIFFERENCES))
            items, on = [Derived(difference, draw.draw_alias("d_", []))], [()]
        else:
            items, on = draw.items(1, 2, 0, [])
        key, value = draw.column(items, INT), draw.column(items, INT)
        function, kind = rnd.choice([("MEDIAN", REAL), ("SPREAD", INT)])
        outputs = (Output(key, INT, "a"), Output(f"{function}({value})", kind, "b"))
        body = Select(outputs, tuple(items), tuple(on), draw.conditions(items, 0.3), keys=(key,))
        hop, emit = rnd.choice([1, 2, 3, draw.hop]) * draw.tick, rnd.choice(["complete", "delta"])
        case = HopCase("", draw.streams, body, hop, emit, 1, 1)
        if _weight(case, body)[1] <= MOST_ROWS / 4 and len(case.hops) <= 120:
            return HopQuery(body, hop, emit)


def draw_own_query(rnd: random.Random, draw: Any, tick: int) -> Query:
    """Draw a query with a median or an aggregate of the user: hopping, over a join, or over windows over one."""
    if rnd.random() < 0.4:
        return draw_own_hopping(draw)
    names = dict(zip(STREAMS, draw.names, strict=False))
    while True:
        query = over_streams(draw_over_join(rnd, draw_wide_join(rnd, tick), tick), names)
        assert isinstance(query, Aggregates)
        below = query if isinstance(query, OverJoin) else query.below
        first, _ = below.outputs  # type: ignore[union-attr]
        own = (rnd.choice(["MEDIAN", "SPREAD"]), rnd.choice(["a.v", "b.v", "b.k"]))
        mine = replace(below, outputs=(first, ("b", *own)))  # type: ignore[type-var]
        if below is query:
            return mine  # type: ignore[return-value]
        above = rnd.choice(["SUM", "MEDIAN", "SPREAD"]) if own[0] == "SPREAD" else "MEDIAN"
        return replace(query, below=mine, outputs=(("a", above, "b"), ("b", "COUNT", "*")))  # type: ignore[arg-type]


def draw_own_script(rnd: random.Random) -> Script:
    """Draw a script in which a query with a user's code is replaced, and nothing else happens."""
    return draw_general_script(rnd, draw_own_query, most_changes=0)


def draw_general_script(rnd: random.Random, draw_query: Any = draw_general_query, most_changes: int = 2) -> Script:
    """Draw a script; few are to say next to nothing."""
    while True:
        script = _draw(rnd, draw_query, most_changes)
        if script.migrations and 10 <= len(script.oracle().given_out()) <= 1500:
            return script


def _draw(rnd: random.Random, draw_query: Any, most_changes: int) -> Script:
    draw, rows = draw_streams(rnd, rnd.choice([24, 40]), least=3)
    while min(len(rows[name]) for name in draw.names[:3]) < 6:
        draw, rows = draw_streams(rnd, rnd.choice([24, 40]), least=3)
    times = sorted(r.time for held in rows.values() for r in held)
    span = times[-1] - times[0] + 1
    tick = max(1, span // len(rows[draw.names[0]])) * rnd.choice([1, 2, 3])
    first = draw_query(rnd, draw, tick)
    at = rnd.choice(times[len(times) // 8 : len(times) * 2 // 3])
    changes: list[Change] = []
    for _ in range(rnd.choice([0, 0, 0, 0, 1, 1, 2][: 4 if not most_changes else None])):
        again = [first, *(c.query for c in changes)]
        query = draw_version(rnd, draw, tick) if rnd.random() < 0.5 else rnd.choice(again)
        changes.append(Change(at, query, rnd.choice(METHODS)))
        at += rnd.choice([0, 1, tick, 3 * tick, rnd.randint(0, 12) * tick])
    begin = changes[0].position if changes else rnd.choice(times)
    near = [begin + rnd.randint(-8, 12) * tick for _ in range(6)] + [rnd.choice(times) for _ in range(8)]
    batch_us = rnd.choice([10**12, span + 1, span // 2, span // 7, draw.hop * draw.tick, span // 25])
    case = Case(rows, first, tuple(changes), max(batch_us, span // 40, 1), rnd.choice([1, 1, 2, 3]))
    script = Script(case)
    plans, migrations = script.plans(), []
    for at in sorted(rnd.choice(near) for _ in range(rnd.choice([1, 1, 2, 3, 4]))):
        k = max(k for k in (0, *(k for k, c in enumerate(changes, 1) if c.position <= at)))
        found = draw_general_migration(rnd, script.queries[k], plans[k], at)
        migrations += [found] if found is not None else []
    return replace(script, migrations=tuple(migrations))


def run_local(script: Script) -> tuple[list[tuple[Any, ...]], Report]:
    """Run a script in process; return the rows in order, and the report."""
    loop = script.loop()
    sink = TableSink(output_schema(loop.plan, *loop.versions))
    report = in_process(loop, sink, None, None)
    return rows_of([sink.table()]), report


def unmigrated(script: Script) -> list[tuple[Any, ...]]:
    """Return what leaves when nothing is migrated, in order; it is what the oracle says.

    It does not say in which order results of one row come, and so not what a window of rows over them holds.
    """
    rows, _ = run_local(replace(script, migrations=()))
    if defined(script) and not any(isinstance(q, Aggregates) and not isinstance(q, OverJoin) for q in script.queries):
        expected = expected_rows(script.oracle())
        assert sorted(map(repr, rows)) == sorted(map(repr, expected)), f"without migrations{script}"
    return rows


def defined(script: Script) -> bool:
    """Tell whether the oracle has a say: it does not know how windows over joins are changed."""
    return not script.case.changes or not any(over_join(query) for query in script.queries)


def over_join(query: Query) -> bool:
    below = getattr(query, "below", None)
    return isinstance(query, OverJoin) or (below is not None and not isinstance(below, str) and over_join(below))


def check_records(script: Script, records: Sequence[dict[str, Any]], how: str) -> None:
    """Every migration says what became of it, and how many rows the new run has had is what lies between two times."""
    mine = [m for m in records if m["identity"].startswith("m")]
    assert len(mine) == len(script.migrations), f"{how}: {mine}{script}"
    for record in mine:
        if record["strategy"] not in GENERAL:
            continue
        told = f"{how}: {record}{script}"
        states = {"finished", "no-op", "superseded", "unfinished", "not reached"}
        assert record["state"] in states | ({"refused"} if script.case.changes else set()), told
        if record["state"] == "finished":
            check_counts(script, record, told)


def check_counts(script: Script, record: dict[str, Any], told: str) -> None:
    strategy = record["strategy"]
    position, ended = record["position_us"], record["ended_us"]
    assert ended >= position, told
    if strategy == GENERAL_MOVING_STATE:
        assert (record["rows_new"], ended) == (0, position), told
    if strategy == GENERAL_PARALLEL_TRACK:
        assert record["rows_old"] == 0, told
    query = script.case.first
    if script.case.changes or script.case.buckets > 1 or isinstance(query, HopQuery):
        return
    plan = script.plans()[0].query
    count = Counter(s.stream.name for s in plan.sources)
    new = sum(n for name, n in count.items() for r in script.case.rows[name] if position <= r.time < ended)
    assert record["rows_new"] == new, f"{new} rows came meanwhile; {told}"
    old = sum(n for name, n in count.items() for r in script.case.rows[name] if r.time < position)
    assert record["rows_old"] <= old, told
    widths = {s.alias: s.window.width_us for s in plan.sources if isinstance(s.window, RangeWindow)}
    if strategy == GENERAL_PARALLEL_TRACK or len(widths) < len(plan.sources) or plan.parts.stages:
        return
    times = {s.alias: [r.time for r in script.case.rows[s.stream.name]] for s in plan.sources}
    inside = sum(position - width <= time < position for alias, width in widths.items() for time in times[alias])
    assert record["rows_old"] == inside, f"{inside} old rows matter; {told}"
