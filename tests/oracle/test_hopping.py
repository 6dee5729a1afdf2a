"""Hopping queries: in whatever plan, modes, way to work and batches, the answers are the snapshots at the hops."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from midstream.app.replay import replay
from midstream.lang import sql
from midstream.local.replay import prepare
from midstream.local.scenario import read_scenario
from midstream.model.stream import StreamSchema
from midstream.plan.algebra import Rel, Scan, inputs
from midstream.plan.query import Query
from oracle.hop_generate import KINDS, draw_case
from oracle.hop_queries import (
    INT,
    REAL,
    TEXT,
    Absent,
    Body,
    Derived,
    HopCase,
    Output,
    Row,
    Select,
    SetOperation,
    Stream,
    Window,
    streams_of,
    times_of,
)
from oracle.hop_recompute import Answer, connection, in_window, last_times, plain, recompute, snapshots
from seeds import seeds

PLANS = ("as-written", "push-down", "optimal")
ARROW = {INT: pa.types.is_integer, REAL: pa.types.is_floating, TEXT: pa.types.is_string}


# The engine ----------------------------------------------------------------------------------------------------------


def run_engine(
    case: HopCase,
    folder: Path,
    modes: str | None = None,
    working: str | None = None,
    plan: str | None = None,
    more: Sequence[str] = (),
) -> list[tuple[int, Row]]:
    """Replay a case; return hop and row, of a delta with its sign at the end, as they come.

    `more` are further lines of the scenario, after those of [run].
    """
    lines = [f"sql = {json.dumps(case.sql)}"]
    for name, table in case.streams.items():
        pq.write_table(table, folder / f"{name}.parquet")
        lines += [f"[streams.{name}]", f'path = "{name}.parquet"', 'time = "ts"']
    lines += ["[run]", f'batch = "{case.batch_us} microseconds"', f"buckets = {case.buckets}"]
    for key, value in (("plan", plan), ("modes", modes), ("working", working)):
        lines += [f"{key} = {json.dumps(value)}"] if value is not None else []
    scenario = folder / "scenario.toml"
    scenario.write_text("\n".join([*lines, *more]) + "\n", encoding="utf-8")
    _, table = replay(prepare(read_scenario(scenario)))
    assert table is not None
    signs = ["_sign"] if case.emit == "delta" else []
    assert table.column_names == [*case.names, "_time", "_version", "_hop", *signs], str(case)
    for name, kind in zip(case.names, case.kinds, strict=True):
        assert ARROW[kind](table.schema.field(name).type), f"{name} is {table.schema.field(name).type}{case}"
    assert table.schema.field("_hop").type == pa.int64(), str(case)
    hops: list[int] = table.column("_hop").to_pylist()
    assert table.column("_time").to_pylist() == hops, str(case)
    assert set(table.column("_version").to_pylist()) <= {1}, str(case)
    values = zip(*(table.column(n).to_pylist() for n in (*case.names, *signs)), strict=True)
    return [(hop, plain(row)) for hop, row in zip(hops, values, strict=True)]


def check(
    case: HopCase,
    expected: list[Answer],
    folder: Path,
    modes: str | None = None,
    working: str | None = None,
    plan: str | None = None,
    more: Sequence[str] = (),
) -> None:
    """Compare what the engine emits at each hop with what it is to emit; hops come in order."""
    asked = f"\nplan {plan}, modes {modes}, working {working}, {' '.join(more)}{case}"
    try:
        got = run_engine(case, folder, modes, working, plan, more)
    except Exception as error:
        error.add_note(asked)
        raise
    hops = [hop for hop, _ in got]
    assert hops == sorted(hops), f"hops are not in order: {hops}{asked}"
    found: dict[int, Counter[Row]] = {}
    for hop, row in got:
        found.setdefault(hop, Counter())[row] += 1
    for hop, answer in expected:
        given = found.pop(hop, Counter())
        if given != answer:
            more, less = some(given - answer), some(answer - given)
            told = f"at hop {hop}: too much {more}, missing {less}\ngot      {some(given)}\nexpected {some(answer)}"
            pytest.fail(f"{told}{asked}")
    assert not found, f"there are no such hops: {sorted(found)[:5]}{asked}"


def some(rows: Counter[Row]) -> str:
    """Write a few rows, in an order that does not depend on how they came."""
    listed = sorted(rows.elements(), key=repr)
    return f"{listed[:8]}{f' and {len(listed) - 8} more' if len(listed) > 8 else ''}"


def parsed(case: HopCase) -> Query:
    query = sql.parse_query(case.sql, [StreamSchema(name, table.schema, "ts") for name, table in case.streams.items()])
    assert query.hop_us is not None, case.sql
    return query


def draw_modes(rnd: random.Random, root: Rel, emit: str) -> list[str]:
    """Draw a mode for every operator, inputs before those that read them; the edge between two carries one thing."""
    found: list[str] = []

    def visit(rel: Rel, given: str) -> None:
        if isinstance(rel, Scan):
            return
        read = rnd.choice("DC")
        for child in inputs(rel):
            visit(child, read)
        found.append(f"{read}I{given}O")

    visit(root, "D" if emit == "delta" else "C")
    return found


def draw_batch(rnd: random.Random, case: HopCase) -> HopCase:
    """Draw another width of micro-batches: at most some dozens of them."""
    times = [t for table in case.streams.values() for t in times_of(table)] or [0]
    span = max(times) - min(times) + 1
    width = rnd.choice([span + 1, span // 3, case.hop_us, case.hop_us * 3 // 2, case.hop_us // 2, span // 40])
    return replace(case, batch_us=max(width, span // 40, 1), buckets=rnd.choice([1, 1, 2, 3]))


@pytest.mark.parametrize("seed", seeds(0, 400, quick=2))
def test_a_drawn_hopping_query_equals_the_snapshots(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(seed)
    case = draw_case(rnd, KINDS[seed % len(KINDS)])
    expected = recompute(case)
    root = parsed(case).root
    for number in range(rnd.choice([2, 3])):
        modes = ",".join(draw_modes(rnd, root, case.emit)) or "auto"
        working = rnd.choice(["window", "tuple"])
        check(case if number == 0 else draw_batch(rnd, case), expected, tmp_path, modes, working, "as-written")
    for plan in PLANS:
        check(draw_batch(rnd, case), expected, tmp_path, "auto", None, plan)
    check(draw_batch(rnd, case), expected, tmp_path, rnd.choice(["delta", "complete"]), None, rnd.choice(PLANS))


@pytest.mark.parametrize("seed", seeds(10_000, 40, quick=1))
def test_what_a_query_emits_does_not_depend_on_how_it_is_asked(seed: int, tmp_path: Path) -> None:
    """Both emissions of one query, with nothing said of plan and modes, in one batch and hop by hop."""
    case = draw_case(random.Random(seed))
    for emit in ("complete", "delta"):
        for batch_us in (2**50, max(1, case.hop_us)):
            asked = replace(case, emit=emit, batch_us=batch_us)
            check(asked, recompute(asked), tmp_path)


# The oracle itself ---------------------------------------------------------------------------------------------------

SECOND = 1_000_000


def stream_of(*rows: tuple[int, int | None, int | None]) -> pa.Table:
    """Return a stream of times in seconds, keys and values; x is a quarter of the value, s the key as a word."""
    times = [row[0] for row in rows]
    keys, values = [row[1] for row in rows], [row[2] for row in rows]
    columns = {
        "ts": pa.array([t * SECOND for t in times], pa.int64()),
        "k": pa.array(keys, pa.int64()),
        "v": pa.array(values, pa.int64()),
        "x": pa.array([None if v is None else v / 4 for v in values], pa.float64()),
        "s": pa.array([None if k is None else f"s{k}" for k in keys], pa.string()),
    }
    return pa.table(columns)


def case_of(body: Body, hop_s: int, emit: str = "complete", **streams: pa.Table) -> HopCase:
    return HopCase("by hand", streams, body, hop_s * SECOND, emit, SECOND, 1)


def seconds(width: int) -> Window:
    return Window(width_us=width * SECOND)


def select(item: Stream | Derived, *columns: str) -> Select:
    return Select(tuple(Output(f"{item.alias}.{c}", INT, c) for c in columns), (item,), ((),))


def told(case: HopCase) -> dict[int, list[Row]]:
    """Return the rows emitted, by the second of the hop."""

    def nothing_first(row: Row) -> Row:
        return tuple((v is not None, isinstance(v, str), v) for v in row)

    return {hop // SECOND: sorted(rows.elements(), key=nothing_first) for hop, rows in recompute(case)}


def test_a_window_holds_its_start_and_not_its_end() -> None:
    """Rows at 0, 5, 5, 10, 15: hops at 5, 10 and 15, the row at the hop is in the next one, that of T - w still is."""
    rows = stream_of((0, 1, 1), (5, 1, 2), (5, 1, 3), (10, 1, 4), (15, 1, 5))
    case = case_of(select(Stream("a", seconds(5), "a"), "v"), 5, a=rows)
    assert case.sql == "SELECT a.v FROM a [RANGE 5 SECONDS] HOP BY 5 SECONDS EMIT COMPLETE"
    assert told(case) == {5: [(1,)], 10: [(2,), (3,)], 15: [(4,)]}
    wide = case_of(select(Stream("a", seconds(10), "a"), "v"), 5, a=rows)
    assert told(wide) == {5: [(1,)], 10: [(1,), (2,), (3,)], 15: [(2,), (3,), (4,)]}
    narrow = case_of(select(Stream("a", seconds(4), "a"), "v"), 5, a=rows)
    assert told(narrow) == {5: [], 10: [], 15: []}


def test_hops_go_from_behind_the_first_row_to_the_last_one_of_the_streams_that_are_read() -> None:
    a, b = stream_of((3, 1, 1), (4, 1, 2)), stream_of((11, 1, 9), (29, 1, 8))
    one = select(Stream("a", seconds(10), "a"), "v")
    assert told(case_of(one, 10, a=a, b=b)) == {}, "b is not read, and nothing of a comes after 4"
    both = SetOperation("UNION ALL", one, select(Stream("b", seconds(10), "b"), "v"))
    assert told(case_of(both, 10, a=a, b=b)) == {10: [(1,), (2,)], 20: [(9,)]}
    assert told(case_of(both, 10, a=a.slice(0, 0), b=b.slice(0, 0))) == {}
    # Before 1970 the multiples go on downwards.
    assert case_of(one, 10, a=stream_of((-25, 1, 1), (0, 1, 2))).hops == [-20 * SECOND, -10 * SECOND, 0]
    assert case_of(one, 10, a=stream_of((0, 1, 1), (10, 1, 2))).hops == [10 * SECOND]


def test_empty_hops_answer_too() -> None:
    rows = stream_of((1, 1, 5), (35, 1, 6))
    count = Select(
        (Output("COUNT(*)", INT, "n"), Output("SUM(a.v)", INT, "t")), (Stream("a", seconds(10), "a"),), ((),)
    )
    assert told(case_of(count, 10, a=rows)) == {10: [(1, 5)], 20: [(0, None)], 30: [(0, None)]}
    changes = {10: [(1, 5, 1)], 20: [(0, None, 1), (1, 5, -1)], 30: []}
    assert told(case_of(count, 10, "delta", a=rows)) == changes


def test_counted_windows() -> None:
    """Of rows at the same time the later ones stay; null keys are a key."""
    rows = stream_of((1, 1, 1), (2, 2, 2), (2, 1, 3), (2, 1, 4), (3, None, 5), (4, None, 6), (10, 1, 7), (20, 1, 8))
    last = case_of(select(Stream("a", Window(rows=3), "a"), "v"), 10, a=rows)
    assert last.sql == "SELECT a.v FROM a [ROWS 3] HOP BY 10 SECONDS EMIT COMPLETE"
    assert told(last) == {10: [(4,), (5,), (6,)], 20: [(5,), (6,), (7,)]}
    by_key = case_of(select(Stream("a", Window(rows=1, by=("k",)), "a"), "k", "v"), 10, a=rows)
    assert "[ROWS 1 PARTITION BY k]" in by_key.sql
    assert told(by_key) == {10: [(None, 6), (1, 4), (2, 2)], 20: [(None, 6), (1, 7), (2, 2)]}
    two = case_of(select(Stream("a", Window(rows=2, by=("k", "s")), "a"), "k", "v"), 10, a=rows)
    assert told(two)[20] == [(None, 5), (None, 6), (1, 4), (1, 7), (2, 2)]


def test_a_delta_has_what_changed_as_often_as_it_changed() -> None:
    """7 goes and comes again within a hop, which is no change; of three 1s one is left."""
    rows = stream_of(
        (1, 1, 7), (2, 1, 1), (3, 1, 1), (4, 1, 1), (11, 1, 7), (12, 1, 1), (21, 1, 9), (21, 1, 9), (30, 1, 0)
    )
    case = case_of(select(Stream("a", seconds(10), "a"), "v"), 10, "delta", a=rows)
    first = [(1, 1), (1, 1), (1, 1), (7, 1)]
    assert told(case) == {10: first, 20: [(1, -1), (1, -1)], 30: [(1, -1), (7, -1), (9, 1), (9, 1)]}


def test_nulls_match_in_set_operations_and_not_in_joins() -> None:
    a = stream_of((1, None, 1), (2, None, 1), (3, 1, 1), (10, 1, 0))
    b = stream_of((1, None, 1), (4, 1, 2))
    left, right = Stream("a", seconds(10), "a"), Stream("b", seconds(10), "b")
    difference = {
        op: told(case_of(SetOperation(op, select(left, "k", "v"), select(right, "k", "v")), 10, a=a, b=b))[10]
        for op in ("EXCEPT", "EXCEPT ALL", "UNION", "UNION ALL")
    }
    assert difference["EXCEPT"] == [(1, 1)]
    assert difference["EXCEPT ALL"] == [(None, 1), (1, 1)]
    assert difference["UNION"] == [(None, 1), (1, 1), (1, 2)]
    assert difference["UNION ALL"] == [(None, 1), (None, 1), (None, 1), (1, 1), (1, 2)]
    outputs = (Output("a.v", INT, "v"), Output("b.v", INT, "w"))
    join = Select(outputs, (left, right), ((), ("a.k = b.k",)))
    assert told(case_of(join, 10, a=a, b=b)) == {10: [(1, 2)]}
    absent = replace(select(left, "k", "v"), absent=(Absent(right, ("a.k = b.k",)),))
    assert told(case_of(absent, 10, a=a, b=b)) == {10: [(None, 1), (None, 1)]}
    groups = Select(
        (Output("a.k", INT, "k"), Output("COUNT(*)", INT, "n"), Output("MEDIAN(a.x)", REAL, "m")),
        (left,),
        ((),),
        keys=("a.k",),
        having="COUNT(*) > 1",
    )
    assert told(case_of(groups, 10, a=a, b=b)) == {10: [(None, 2, 0.25)]}


def test_nan_equals_itself_and_zero_has_no_sign() -> None:
    nan = float("nan")
    table = stream_of(*((t, 1, 1) for t in (1, 2, 3, 4, 5, 10)))
    table = table.set_column(3, "x", pa.array([nan, nan, 0.0, -0.0, nan, 1.0], pa.float64()))
    item, other = Stream("a", seconds(10), "a"), Stream("a", Window(rows=1), "o")
    all_x = Select((Output("a.x", REAL, "x"),), (item,), ((),))
    distinct = told(case_of(replace(all_x, distinct=True), 10, a=table))[10]
    assert Counter(distinct) == Counter([("nan",), (0.0,)])
    counts = Select((Output("COUNT(DISTINCT a.x)", INT, "n"), Output("MAX(a.x)", REAL, "m")), (item,), ((),))
    assert told(case_of(counts, 10, a=table))[10] == [(2, "nan")]
    groups = Select((Output("COUNT(*)", INT, "n"),), (item,), ((),), keys=("a.x",))
    assert told(case_of(groups, 10, a=table))[10] == [(2,), (3,)]
    join = Select((Output("a.x", REAL, "x"),), (item, other), ((), ("a.x = o.x",)))
    assert told(case_of(join, 10, a=table))[10] == [("nan",)] * 3
    less = SetOperation("EXCEPT ALL", all_x, Select((Output("o.x", REAL, "x"),), (other,), ((),)))
    assert Counter(told(case_of(less, 10, a=table))[10]) == Counter({("nan",): 2, (0.0,): 2})


def test_a_subquery_is_a_snapshot_too() -> None:
    a, b = stream_of((1, 1, 1), (2, 1, 1), (3, 2, 2), (10, 1, 0)), stream_of((1, 1, 1), (11, 1, 1))
    left, right = (select(Stream(n, seconds(10), n), "k", "v") for n in "ab")
    derived = Derived(SetOperation("EXCEPT ALL", left, right, bare=True), "d")
    outputs = (Output("d.k", INT, "k"), Output("a.v + d.v", INT, "t"))
    body = Select(outputs, (derived, Stream("a", Window(rows=2), "a")), ((), ("d.k = a.k",)))
    case = case_of(body, 10, a=a, b=b)
    assert case.sql == (
        "SELECT d.k, a.v + d.v AS t FROM (SELECT a.k, a.v FROM a [RANGE 10 SECONDS] EXCEPT ALL "
        "SELECT b.k, b.v FROM b [RANGE 10 SECONDS]) d, a [ROWS 2] WHERE d.k = a.k HOP BY 10 SECONDS EMIT COMPLETE"
    )
    assert told(case) == {10: [(1, 2), (2, 4)]}


@pytest.mark.slow
def test_windows_hold_the_rows_that_the_definition_says() -> None:
    """How long a row is in its window, which the oracle goes by, says the same as the definition."""
    for seed in range(40):
        case = draw_case(random.Random(seed))
        for name, window in case.windows:
            table = case.streams[name]
            lives = list(zip(times_of(table), last_times(table, window), strict=True))
            for hop in case.hops:
                held = [i for i, (come, last) in enumerate(lives) if come < hop <= last]
                assert held == in_window(table, window, hop), f"{name} {window} at {hop}{case}"


@pytest.mark.slow
def test_the_answers_are_not_the_work_of_an_optimizer() -> None:
    """DuckDB says the same when it computes queries as they are written."""
    for seed in range(40):
        case = draw_case(random.Random(seed))
        before = list(snapshots(case))
        connection().execute("PRAGMA disable_optimizer")
        try:
            assert list(snapshots(case)) == before, str(case)
        finally:
            connection().execute("PRAGMA enable_optimizer")


@pytest.mark.slow
def test_draws_are_of_every_kind_and_say_something() -> None:
    seen: Counter[str] = Counter()
    names: set[str] = set()
    for seed in range(90):
        case = draw_case(random.Random(seed), KINDS[seed % len(KINDS)])
        answers = recompute(case)
        assert all(sum(rows.values()) < 5000 for _, rows in answers), str(case)
        read = list(streams_of(case.body))
        features = {
            case.kind: True,
            case.emit: True,
            "telling": any(rows for _, rows in answers),
            "silent hops": any(rows for _, rows in answers) and not all(rows for _, rows in answers),
            "counted": any(s.window.rows for s in read),
            "partitioned": any(s.window.by for s in read),
            "wide": any(s.window.width_us > case.hop_us for s in read),
            "narrow": any(0 < s.window.width_us < case.hop_us for s in read),
            "different windows": len({s.window for s in read}) > 1,
            "a stream twice": len({s.name for s in read}) < len(read),
            **{word: word in case.sql for word in (" EXCEPT (", " EXCEPT ALL ", " UNION (", " UNION ALL ", "HAVING")},
            **{word: word in case.sql for word in ("NOT EXISTS", "GROUP BY", "DISTINCT", "MEDIAN", "JOIN", "(SELECT")},
        }
        seen.update(name for name, there in features.items() if there)
        names |= set(features)
    assert {name: seen[name] for name in names if seen[name] < 2} == {}
    assert seen["telling"] > 75
    assert str(draw_case(random.Random(7))) == str(draw_case(random.Random(7))), "a seed is a case"
