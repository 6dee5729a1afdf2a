"""Whatever query a run is changed to, when, how and how often: it emits what the definitions say, in order."""

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from midstream.app.replay import replay
from midstream.local.replay import prepare
from midstream.local.report import Report
from midstream.local.scenario import read_scenario
from oracle.change_counts import count, guaranteed
from oracle.change_run import Change, Given, Oracle
from oracle.changes import (
    METHODS,
    Aggregates,
    Condition,
    Filter,
    InstanceWindow,
    Join,
    PredicateSlide,
    Query,
    RangeSlide,
    Row,
    RowsSlide,
    Source,
    Value,
)
from seeds import few_quick, seeds

STREAMS = ["s", "r", "u"]
Rows = dict[str, list[Row]]
Migration = tuple[int, str, str]
"""Position, plan, strategy."""


@dataclass(frozen=True)
class Case:
    """Recorded streams, a query, what it is changed to and how the engine runs it."""

    rows: Rows
    first: Query
    changes: tuple[Change, ...]
    batch_us: int
    buckets: int

    def __str__(self) -> str:
        used = sorted(self.first.streams.union(*(c.query.streams for c in self.changes)), key=STREAMS.index)
        lines = [f"{name}: {[(r.time, *r.values.values()) for r in self.rows[name]]}" for name in used]
        lines.append(f"batch {self.batch_us} us, {self.buckets} buckets: {self.first.sql}")
        lines += [f"  at {c.position} {c.method}: {c.query.sql}" for c in self.changes]
        return "\n" + "\n".join(lines)


# The engine ----------------------------------------------------------------------------------------------------------


def run_engine(
    case: Case,
    folder: Path,
    controls: Sequence[tuple[str, int]] = (),
    runtime: str = "local",
    migrations: Sequence["Migration"] = (),
) -> tuple[list[tuple[Value, ...]], Report]:
    """Replay a case; return the output rows in order, and the report."""
    lines = [f"sql = {json.dumps(case.first.sql)}"]
    for name, rows in case.rows.items():
        columns = {c: pa.array([r.values[c] for r in rows], pa.int64()) for c in ("k", "v")}
        times = pa.array([r.time for r in rows], pa.int64())
        pq.write_table(pa.table({"ts": times, **columns}), folder / f"{name}.parquet")
        lines += [f"[streams.{name}]", f'path = "{name}.parquet"', 'time = "ts"']
    lines += ["[run]", f'batch = "{case.batch_us} microseconds"', f"buckets = {case.buckets}"]
    blocks: list[tuple[int, list[str]]] = []
    for change in case.changes:
        method, _, order = change.method.partition("/")
        asked = [f"change = {json.dumps(change.query.sql)}", f'method = "{method}"', "audit = true"]
        blocks.append((change.position, [*asked, *([f'order = "{order}"'] if order else [])]))
    blocks += [(at_us, [f'control = "{kind}"']) for kind, at_us in controls]
    blocks += [(at_us, [f'migrate = "{plan}"', f'strategy = "{strategy}"']) for at_us, plan, strategy in migrations]
    for at_us, block in sorted(blocks, key=lambda b: b[0]):
        lines += ["[[at]]", f"time = {at_us}", *block]
    scenario = folder / "scenario.toml"
    scenario.write_text("\n".join(lines) + "\n", encoding="utf-8")
    report, table = replay(prepare(replace(read_scenario(scenario), runtime=runtime)))
    assert table is not None
    return [tuple(row.values()) for row in table.to_pylist()], report


def check(
    case: Case,
    folder: Path,
    runtime: str = "local",
    controls: Sequence[tuple[str, int]] = (),
    migrations: Sequence["Migration"] = (),
) -> Report:
    """Compare the output of the engine with that of the oracle (rows, versions, order), and every count."""
    oracle = Oracle(case.rows, case.first, case.changes, controls)
    given = oracle.given_out()
    expected = [g.row for g in given]
    got, report = run_engine(case, folder, controls, runtime, migrations)
    where = (
        f"{case}\n  controls {list(controls)}, migrations {list(migrations)}" if controls or migrations else str(case)
    )
    if got != expected:
        pytest.fail(f"{difference(got, expected)}{where}")
    check_records(oracle, given, report, where)
    assert len(report.migrations) == len(migrations), where
    return report


def difference(got: Sequence[object], expected: Sequence[object]) -> str:
    """Say where two outputs part."""
    pairs = enumerate(zip(got, expected, strict=False))
    n = next((n for n, (a, b) in pairs if a != b), min(len(got), len(expected)))
    same = sorted(map(repr, got)) == sorted(map(repr, expected))
    told = f"{'the same rows in another order' if same else 'other rows'}; from number {n} on"
    return f"{told}: got {got[n : n + 6]}, expected {expected[n : n + 6]} (got {len(got)}, expected {len(expected)})"


ENDS = ("state", "ended_us", "new_results", "two_versions_us")
"""What a record says that is known when a change is over."""


def check_records(
    oracle: Oracle,
    given: Sequence[Given],
    report: Report,
    where: str,
    ends: bool = True,
) -> None:
    """Compare the record of every change with what the oracle counts; each keeps the guarantees of its method."""
    assert len(report.changes) == len(oracle.changes), where
    for n, (change, told) in enumerate(zip(oracle.changes, report.changes, strict=True)):
        method, _, order = change.method.partition("/")
        assert told["method"] == method, where
        assert not order or told["order"] == order, where
        if n >= len(oracle.runs):
            assert (told["state"], told["position_us"], told["loss"]) == ("not reached", None, None), where
            continue
        assert told["position_us"] == change.position, where
        expected = {k: v for k, v in asdict(count(oracle, n, given)).items() if ends or k not in ENDS}
        found = {name: told[name] for name in expected}
        assert found == expected, f"change {n + 1}: {_apart(found, expected)}{where}"
        if oracle.runs[n].state in ("finished", "unfinished") and n + 1 == len(oracle.runs):
            for name in guaranteed(change.method, given):
                assert expected[name] == 0, f"{change.method} is to have no {name}{where}"


def _apart(found: dict[str, object], expected: dict[str, object]) -> str:
    return "; ".join(f"{k} is {found[k]}, not {v}" for k, v in expected.items() if found[k] != v)


def check_one_change(case: Case, folder: Path) -> None:
    """Compare output and counts of a run with one change; both must keep the guarantees of its method."""
    check(case, folder)


# Draws ---------------------------------------------------------------------------------------------------------------


def draw_rows(rnd: random.Random, count: int) -> Rows:
    """Draw three streams: times dense or with gaps, unique or tied; nulls now and then."""
    unit = rnd.choice([1, 1, 1000])
    base = rnd.choice([0, 0, 3, 1_000_003])
    step = rnd.choice([(1, 1), (0, 1), (0, 3), (1, 4), (0, 12)])
    gap = rnd.choice([0.0, 0.0, 0.1])
    nulls = rnd.choice([0.0, 0.0, 0.15])
    keys = rnd.choice([1, 2, 3])
    out: Rows = {}
    for number, name in enumerate(STREAMS):
        time, rows = base + rnd.randint(*step) * unit, []
        for offset in range(count if name == "s" else count * 2 // 3):
            values = [None if rnd.random() < nulls else v for v in (rnd.randrange(keys), rnd.randint(0, 9))]
            rows.append(Row(time, number, offset, dict(zip("kv", values, strict=True))))
            time += (rnd.randint(*step) + (rnd.randint(10, 60) if rnd.random() < gap else 0)) * unit
        out[name] = rows
    return out


def tick_us(rows: Rows) -> int:
    """Return about how far the rows of a stream are apart."""
    times = [r.time for r in rows["s"]]
    return max(1, (times[-1] - times[0]) // len(times))


def draw_condition(rnd: random.Random, column: str = "v") -> Condition:
    op = rnd.choice(["<", ">", "=", "<>", "IS NOT NULL"])
    return Condition(column, op, {"<": 6, ">": 3}.get(op, rnd.randint(0, 3)))


def draw_where(rnd: random.Random, column: str = "v") -> tuple[Condition, ...]:
    return tuple(draw_condition(rnd, column) for _ in range(rnd.choice([0, 0, 0, 1, 1, 2])))


def draw_rows_slide(rnd: random.Random, most: int) -> RowsSlide:
    return RowsSlide(rnd.randint(1, most), rnd.choice([1, 1, 2, 3, rnd.randint(1, most)]))


def draw_window(rnd: random.Random, tick: int) -> InstanceWindow:
    """Draw a window of instances over a stream."""
    kind = rnd.random()
    if kind < 0.35:
        return draw_rows_slide(rnd, 9)
    if kind < 0.5:
        drawn = draw_rows_slide(rnd, 5)
        return RowsSlide(drawn.count, drawn.slide, "k")
    if kind < 0.8:
        slide = rnd.randint(1, 6) * tick
        return RangeSlide(rnd.choice([slide, slide * 2, slide * 3, rnd.randint(1, 15) * tick]), slide)
    return PredicateSlide(
        rnd.choice([Condition("v", ">", 3), Condition("v", "<>", 5)]),
        rnd.choice([Condition("v", "<", 3), Condition("v", ">", 6)]),
    )


def draw_outputs(rnd: random.Random, group_by: str | None, column: str, real: bool) -> tuple[tuple[str, str, str], ...]:
    """Draw the two columns that every query has, the second a float if `real`."""
    a = ("a", "", group_by) if group_by else ("a", *rnd.choice([("SUM", column), ("MIN", column), ("COUNT", "*")]))
    b = ("AVG", column) if real else rnd.choice([("SUM", column), ("MAX", column), ("COUNT", column), ("COUNT", "*")])
    return a, ("b", *b)


def draw_aggregates(rnd: random.Random, tick: int, real: bool) -> Aggregates:
    group_by = rnd.choice([None, None, None, "k"])
    outputs = draw_outputs(rnd, group_by, "v", real)
    return Aggregates("s", draw_window(rnd, tick), outputs, draw_where(rnd), group_by)


def draw_nested(rnd: random.Random, tick: int, real: bool) -> Aggregates:
    """Draw windows over the results of windows: counted ones above, so that time means the same to everyone."""
    group_by = rnd.choice([None, None, None, "k"])
    inner = [("x", *rnd.choice([("SUM", "v"), ("COUNT", "*"), ("MAX", "v")]))]
    inner += [("k", "", "k")] if group_by else []
    below = Aggregates("s", draw_window(rnd, tick), tuple(inner), draw_where(rnd), group_by)
    count = rnd.randint(1, 4)
    outputs = draw_outputs(rnd, None, "x", real)
    return Aggregates(below, RowsSlide(count, rnd.randint(1, count)), outputs, draw_where(rnd, "x"))


def draw_filter(rnd: random.Random, tick: int) -> Filter:
    window = rnd.choice([f"[RANGE {rnd.randint(0, 9) * tick} MICROSECONDS]", f"[ROWS {rnd.randint(1, 9)}]"])
    return Filter("s", window, draw_where(rnd), (("a", "k"), ("b", "v")))


def draw_join(rnd: random.Random, tick: int, counted: bool) -> Join:
    """Draw a join of two or three streams; `counted` allows ROWS windows."""
    names = rnd.sample(STREAMS, rnd.choice([2, 2, 3]))
    sources = []
    for alias, name in zip("abc", names, strict=False):
        if counted and rnd.random() < 0.5:
            sources.append(Source(alias, name, None, rnd.randint(1, 4), rnd.choice([None, None, "k"])))
        else:
            sources.append(Source(alias, name, rnd.choice([0, 1, 2, 4, 6]) * tick))
    on = []
    for left, right in zip("abc", "bc"[: len(names) - 1], strict=False):
        on.append((f"{left}.k", "=", f"{right}.k") if rnd.random() < 0.8 else (f"{left}.v", "<", f"{right}.v"))
    where = draw_where(rnd, rnd.choice("ab") + ".v")
    return Join(tuple(sources), tuple(on), where, (("a", "a.v"), ("b", "b.v")))


def draw_query(rnd: random.Random, tick: int, real: bool, method: str) -> Query:
    """Draw any query."""
    kind = rnd.random()
    if kind < 0.6:
        return draw_aggregates(rnd, tick, real)
    if kind < 0.75 or real:
        return draw_nested(rnd, tick, real)
    if kind < 0.83:
        return draw_filter(rnd, tick)
    return draw_join(rnd, tick, counted=True)


def draw_position(rnd: random.Random, rows: Rows) -> int:
    """Draw a position: mostly inside, sometimes before or at the first row, at or after the last one."""
    first = min(r[0].time for r in rows.values())
    last = max(r[-1].time for r in rows.values())
    edges = [first, max(0, first - 5), first + 1, last, last + 1, last + 40 * tick_us(rows)]
    inside = rnd.choice(rows["s"]).time
    return rnd.choice([inside, inside, inside + 1, rnd.randint(first, last), rnd.choice(edges)])


def draw_run(rnd: random.Random, rows: Rows, first: Query, changes: Sequence[Change]) -> Case:
    first_us, last = min(r[0].time for r in rows.values()), max(r[-1].time for r in rows.values())
    span = max(1, last - first_us)
    batch = rnd.choice([1_000_000_000, span + 1, max(1, span // 2), max(1, span // 7), max(1, span // 25)])
    return Case(rows, first, tuple(changes), batch, rnd.choice([1, 1, 2]))


def draw_case(rnd: random.Random, method: str) -> Case:
    rows = draw_rows(rnd, rnd.choice([12, 40, 60]))
    tick, real = tick_us(rows), rnd.random() < 0.15
    old, new = (draw_query(rnd, tick, real, method) for _ in range(2))
    if rnd.random() < 0.15:
        new = old
    return draw_run(rnd, rows, old, [Change(draw_position(rnd, rows), new, method)])


@pytest.mark.parametrize("seed", seeds(30_000, 40, quick=1))
def test_no_change(seed: int, tmp_path: Path) -> None:
    """What a query means has to be agreed on before it changes."""
    case = draw_case(random.Random(seed), "immediate")
    check(Case(case.rows, case.first, (), case.batch_us, case.buckets), tmp_path)


@pytest.mark.parametrize("seed", seeds(0, 100, quick=1))
@pytest.mark.parametrize("method", METHODS)
def test_one_change(method: str, seed: int, tmp_path: Path) -> None:
    check_one_change(draw_case(random.Random(seed * 10 + METHODS.index(method)), method), tmp_path)


@pytest.mark.parametrize("seed", seeds(5000, 20, quick=1))
@pytest.mark.parametrize("method", METHODS)
def test_counted_windows(method: str, seed: int, tmp_path: Path) -> None:
    """The queries of the paper: sums over windows of rows, more of them."""
    rnd = random.Random(seed * 10 + METHODS.index(method))
    rows = draw_rows(rnd, 150)
    old, new = (Aggregates("s", draw_rows_slide(rnd, 40), draw_outputs(rnd, None, "v", False)) for _ in range(2))
    change = Change(draw_position(rnd, rows), new, method)
    check_one_change(draw_run(rnd, rows, old, [change]), tmp_path)


@pytest.mark.parametrize("seed", seeds(40_000, 30, quick=1))
def test_delayed_drain_of_counted_windows_in_joins(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(seed)
    rows = draw_rows(rnd, 40)
    tick = tick_us(rows)
    change = Change(draw_position(rnd, rows), draw_query(rnd, tick, False, "delayed-drain"), "delayed-drain")
    check(draw_run(rnd, rows, draw_join(rnd, tick, counted=True), [change]), tmp_path)


@pytest.mark.parametrize("method", few_quick(METHODS))
def test_the_study_of_the_paper(method: str, tmp_path: Path) -> None:
    rows = {"s": [Row(n, 0, n, {"k": 0, "v": n % 7}) for n in range(2000)]}
    outputs = (("a", "SUM", "v"), ("b", "COUNT", "*"))
    size = {"graceful-drain": 50}.get(method, 10)
    old, new = (Aggregates("s", RowsSlide(n, 1), outputs) for n in (50, size))
    check_one_change(Case(rows, old, (Change(1000, new, method),), 300, 1), tmp_path)


# What the draws have found --------------------------------------------------------------------------------------------

COUNTS = (("a", "COUNT", "*"), ("b", "SUM", "v"))
EVERY = Filter("s", "[ROWS 1]", (), (("a", "k"), ("b", "v")))


def counts(count: int) -> Aggregates:
    return Aggregates("s", RowsSlide(count, 1), COUNTS)


def rows_at(s: Sequence[int], r: Sequence[int] = (), values: Sequence[int] = ()) -> Rows:
    """Return streams with rows at the given times, all of one key, of value 1 unless `values` of `s` are given."""
    given = {"s": s, "r": r, "u": ()}
    return {
        name: [Row(t, n, k, {"k": 0, "v": values[k] if name == "s" and values else 1}) for k, t in enumerate(times)]
        for n, (name, times) in enumerate(given.items())
    }


@pytest.mark.parametrize("batch_us", [1_000_000, 5])
@pytest.mark.parametrize("last", [(), (40,)], ids=["ended", "goes on"])
@pytest.mark.parametrize("method", METHODS)
def test_time_passes_with_the_rows_of_any_version(
    method: str, last: tuple[int, ...], batch_us: int, tmp_path: Path
) -> None:
    """The old version reads `s`, the new one `r`: the instance of the old one that ends at 12 is due before row 20."""
    old = Aggregates("s", RangeSlide(4, 4), COUNTS)
    new = Filter("r", "[ROWS 1]", (), EVERY.outputs)
    rows = rows_at([1, 2, 9, 10, *last], [3, 20, 30])
    check_one_change(Case(rows, old, (Change(10, new, method),), batch_us, 1), tmp_path)


@pytest.mark.parametrize("method", METHODS)
def test_time_passes_with_the_rows_of_a_version_that_has_stopped(method: str, tmp_path: Path) -> None:
    old, new = Filter("r", "[ROWS 1]", (), EVERY.outputs), Aggregates("s", RangeSlide(4, 4), COUNTS)
    check_one_change(Case(rows_at([1, 2, 9, 10], [3, 20, 30]), old, (Change(5, new, method),), 1_000_000, 1), tmp_path)


def test_a_join_is_drained_by_the_time_of_other_streams(tmp_path: Path) -> None:
    """Nothing comes any more on `r`, but rows of `s` say that time has passed: from 9 on the new version runs."""
    rows = rows_at([1, 2, 6, 9, 10], [1, 2])
    old = Join((Source("a", "r", 4), Source("b", "u", 4)), (("a.k", "=", "b.k"),), (), (("a", "a.v"), ("b", "b.v")))
    check_one_change(Case(rows, old, (Change(5, EVERY, "delayed-drain"),), 1_000_000, 1), tmp_path)


def test_what_a_drain_that_does_not_end_loses(tmp_path: Path) -> None:
    """The last window of the old version never closes, so that nothing of the new one leaves."""
    case = Case(rows_at(range(1, 6)), Aggregates("s", RowsSlide(3, 3), COUNTS), (), 1_000_000, 1)
    check_one_change(replace(case, changes=(Change(5, counts(1), "delayed-drain"),)), tmp_path)


def test_the_end_of_a_time_instance_below_lies_before_the_rows_of_its_time(tmp_path: Path) -> None:
    """The outer window closes with the inner instance that ends at 8: the new version takes the row of 8."""
    inner = Aggregates("s", RangeSlide(4, 4), (("x", "SUM", "v"),))
    old = Aggregates(inner, RowsSlide(1, 1), (("a", "COUNT", "*"), ("b", "SUM", "x")))
    change = Change(6, EVERY, "delayed-drain")
    check_one_change(Case(rows_at([1, 5, 7, 8, 9]), old, (change,), 1_000_000, 1), tmp_path)


@pytest.mark.parametrize("batch_us", [1_000_000, 1])
def test_duplicates_are_pairs(batch_us: int, tmp_path: Path) -> None:
    """Three results of either version depend on nothing but the first row: nine pairs, however batched."""
    query = Aggregates("s", RangeSlide(3, 1), COUNTS, (Condition("v", "<", 6),))
    rows = rows_at(range(6), values=[1, 9, 9, 9, 9, 9])
    check_one_change(Case(rows, query, (Change(0, query, "graceful-drain"),), batch_us, 1), tmp_path)


def test_a_row_and_a_window_of_that_row_are_duplicates(tmp_path: Path) -> None:
    change = Change(0, Aggregates("s", RangeSlide(1, 1), COUNTS), "graceful-drain")
    check_one_change(Case(rows_at([4, 8]), EVERY, (change,), 1_000_000, 1), tmp_path)


# Several changes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(10_000, 80, quick=1))
def test_changes_one_by_one(seed: int, tmp_path: Path) -> None:
    """Two or three changes, each asked when the one before has ended."""
    rnd = random.Random(seed)
    rows = draw_rows(rnd, 60)
    tick = tick_us(rows)
    first = draw_query(rnd, tick, False, "delayed-drain")
    changes: list[Change] = []
    at = rows["s"][0].time
    last = rows["s"][-1].time
    for _ in range(rnd.choice([2, 2, 3])):
        at += rnd.randint(1, max(1, (last - at) // 2))
        changes.append(Change(at, draw_query(rnd, tick, False, "delayed-drain"), rnd.choice(METHODS)))
        at = Oracle(rows, first, changes).ends[-1]
        if at >= last:
            break
    check(draw_run(rnd, rows, first, changes), tmp_path)


PAIRS = [(a, b) for a in METHODS for b in METHODS]


def draw_meeting(rnd: random.Random, methods: Sequence[str]) -> Case:
    """Draw changes close after one another, mostly while the one before is under way."""
    rows = draw_rows(rnd, 40)
    tick = tick_us(rows)
    queries: list[Query] = [draw_query(rnd, tick, False, "") for _ in range(len(methods) + 1)]
    if rnd.random() < 0.5:  # windows that take their time to drain
        outputs = draw_outputs(rnd, None, "v", False)
        by = rnd.choice([None, None, "k"])
        queries = [Aggregates("s", RowsSlide(rnd.randint(4, 12), rnd.randint(1, 3), by), outputs) for _ in queries]
    changes = []
    at = rnd.choice(rows["s"][5:30]).time
    for query, method in zip(queries[1:], methods, strict=True):
        changes.append(Change(at, query, method))
        at += rnd.choice([0, 1, tick, 3 * tick, rnd.randint(0, 8) * tick])
    return draw_run(rnd, rows, queries[0], changes)


def check_however_cut(
    case: Case, folder: Path, controls: Sequence[tuple[str, int]] = (), migrations: Sequence[Migration] = ()
) -> None:
    """Compare output and counts at several batch widths and numbers of buckets."""
    span = max(r[-1].time for r in case.rows.values()) - min(r[0].time for r in case.rows.values())
    for batch_us, buckets in ((case.batch_us, case.buckets), (2**60, 2), (max(1, span // 30), 3), (span // 4 + 1, 1)):
        check(replace(case, batch_us=batch_us, buckets=buckets), folder, controls=controls, migrations=migrations)


@pytest.mark.parametrize("seed", seeds(20_000, 16, quick=1))
@pytest.mark.parametrize("methods", few_quick([(pair,) for pair in PAIRS], 9), ids="+".join)
def test_changes_that_meet(methods: tuple[str, str], seed: int, tmp_path: Path) -> None:
    """A second change close after the first, by all pairs of methods."""
    rnd = random.Random(seed * 100 + PAIRS.index(methods))
    check_however_cut(draw_meeting(rnd, methods), tmp_path)


@pytest.mark.parametrize("seed", seeds(50_000, 240, quick=1))
def test_three_and_more_changes_that_meet(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(seed)
    check_however_cut(draw_meeting(rnd, [rnd.choice(METHODS) for _ in range(rnd.choice([3, 3, 4]))]), tmp_path)


@pytest.mark.parametrize("seed", seeds(60_000, 240, quick=1))
def test_controls_while_changes_meet(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(seed)
    case = draw_meeting(rnd, [rnd.choice(METHODS) for _ in range(rnd.choice([1, 1, 2, 3]))])
    tick, first = tick_us(case.rows), case.changes[0].position
    kinds = [rnd.choice(["istop", "dstop", "fstart", "abort"]) for _ in range(rnd.choice([1, 1, 2]))]
    controls = sorted(((kind, first + rnd.randint(0, 12) * tick) for kind in kinds), key=lambda c: c[1])
    check_however_cut(case, tmp_path, controls)


@pytest.mark.parametrize("seed", seeds(70_000, 160, quick=1))
def test_migrations_while_queries_change(seed: int, tmp_path: Path) -> None:
    """Joins of the same three streams change and migrate: the change's order and counts are as without migrations."""
    case, migrations = draw_migrating(random.Random(seed))
    check_however_cut(case, tmp_path, migrations=migrations)


def draw_migrating(rnd: random.Random) -> tuple[Case, list[Migration]]:
    """Draw one or two changes between joins of the same three streams, and migrations around them."""
    rows = draw_rows(rnd, 40)
    tick = tick_us(rows)
    at = rnd.choice(rows["s"][5:25]).time
    first, *others = (draw_wide_join(rnd, tick) for _ in range(3))
    changes = []
    for query in others[: rnd.choice([1, 1, 2])]:
        changes.append(Change(at, query, rnd.choice(METHODS)))
        at += rnd.randint(0, 8) * tick
    migrations = []
    for _ in range(rnd.randint(1, 3)):
        position = changes[0].position + rnd.randint(-5, 15) * tick
        strategies = ["moving-state", "hybrid", "just-in-time"]
        if position > changes[0].position:
            # What it holds back before any change leaves where the change begins, in its own order.
            strategies.append("parallel-track")
        migrations.append((max(0, position), rnd.choice(TREES), rnd.choice(strategies)))
    return draw_run(rnd, rows, first, changes), sorted(migrations)


TREES = ["((a b) c)", "((a c) b)", "(a (b c))", "((b c) a)", "(b (a c))"]


def draw_wide_join(rnd: random.Random, tick: int) -> Join:
    """Draw a join of all three streams."""
    sources = [
        Source(alias, name, *rnd.choice([(rnd.choice([2, 4, 6]) * tick,), (None, rnd.randint(2, 5))]))
        for alias, name in zip("abc", STREAMS, strict=True)
    ]
    on = (("a.k", "=", "b.k"), ("b.k", "=", "c.k"))
    return Join(tuple(sources), on, draw_where(rnd, "a.v"), (("a", "a.v"), ("b", "b.v")))


def check_meeting(first: Query, one: Change, two: Change, rows: Rows, folder: Path) -> None:
    for batch_us in (1_000_000, 1):
        check(Case(rows, first, (one, two), batch_us, 1), folder)


@pytest.mark.parametrize("method", ["graceful-immediate", "graceful-drain"])
def test_a_drain_without_anything_to_drain_is_over_before_the_next_change(method: str, tmp_path: Path) -> None:
    """Version 2 starts at 3, though no row comes before the next change; version 3 never answers."""
    one, two = Change(3, EVERY, "delayed-drain"), Change(27, counts(50), method)
    check_meeting(EVERY, one, two, rows_at([1, 41, 42]), tmp_path)


@pytest.mark.parametrize("batch_us", [10, 25, 1000])
@pytest.mark.parametrize("method", ["graceful-drain", "graceful-immediate"])
def test_a_first_result_that_comes_after_many_others(method: str, batch_us: int, tmp_path: Path) -> None:
    """The old version answers in many micro-batches before; it is drained in the one of the first result."""
    rows = {
        name: [Row(2 * n + k, k, n, {"k": n % 4, "v": n // 40}) for n in range(60)] for k, name in enumerate(("s", "r"))
    }
    first, second = (
        Join(
            (Source("a", "s", 3), Source("b", "r", 3)),
            (("a.k", "=", "b.k"),),
            where,
            (("a", "a.v"), ("b", "b.v")),
        )
        for where in ((), (Condition("a.v", ">", 0),))
    )
    check(Case(rows, first, (Change(5, second, method),), batch_us, 2), tmp_path)


@pytest.mark.parametrize("batch_us", [1, 7, 1000])
@pytest.mark.parametrize("at", [24, 27, 40])
def test_an_abort_that_is_refused_changes_no_loss(at: int, batch_us: int, tmp_path: Path) -> None:
    """Version 2 starts three rows late, so that its first window would have closed three rows earlier."""
    late = Aggregates("s", RowsSlide(9, 3), (("a", "COUNT", "*"), ("b", "COUNT", "v")))
    case = Case(rows_at(range(60)), counts(4), (Change(20, late, "delayed-drain"),), batch_us, 1)
    report = check(case, tmp_path, controls=[("abort", at)])
    assert report.changes[0]["loss"] > 0


@pytest.mark.parametrize("sizes", [(4, 3, 5), (4, 5, 2), (8, 3, 2), (8, 3, 5)], ids=str)
@pytest.mark.parametrize("second", few_quick(["graceful-immediate", "graceful-drain", "drain/stream", "immediate"]))
@pytest.mark.parametrize("first", ["graceful-immediate", "graceful-drain", "drain/stream"])
def test_graceful_changes_that_meet(first: str, second: str, sizes: tuple[int, int, int], tmp_path: Path) -> None:
    """A stop that waits for a first result is void when another change comes; that goes for every earlier version."""
    q1, q2, q3 = map(counts, sizes)
    check_meeting(q1, Change(8, q2, first), Change(9, q3, second), rows_at(range(16)), tmp_path)
