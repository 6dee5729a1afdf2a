"""Changes from, to and between hopping queries: output, order and record are as defined."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from midstream.app.replay import replay
from midstream.local.replay import prepare
from midstream.local.report import Report
from midstream.local.scenario import read_scenario
from oracle.change_run import Change
from oracle.changes import METHODS, Aggregates, Filter, Join, Query, RangeSlide, Row, Source, Value
from oracle.hop_changes import ARROW, HopOracle, HopQuery, output_row
from oracle.hop_generate import MOST_ROWS, _Draw, _weight
from oracle.hop_queries import COLUMNS, INT, Body, HopCase, Output, Select, Stream, Window, times_of
from oracle.test_changes import check_records, difference, draw_outputs, draw_where, draw_window
from seeds import seeds

PAIRS = [("hop", "hop"), ("sliding", "hop"), ("hop", "sliding")]
Rows = dict[str, list[Row]]


@dataclass(frozen=True)
class Case:
    """Recorded streams, a query, what it is changed to and how the engine runs it."""

    rows: Rows
    first: Query
    changes: tuple[Change, ...]
    batch_us: int
    buckets: int

    def __str__(self) -> str:
        lines = [f"{name}: {[(r.time, *r.values.values()) for r in rows]}" for name, rows in self.rows.items()]
        lines.append(f"batch {self.batch_us} us, {self.buckets} buckets: {self.first.sql}")
        lines += [f"  at {c.position} {c.method}: {c.query.sql}" for c in self.changes]
        return "\n" + "\n".join(lines)


# The engine ----------------------------------------------------------------------------------------------------------


def run_engine(
    case: Case, folder: Path, controls: Sequence[tuple[str, int]] = (), runtime: str = "local"
) -> tuple[list[tuple[Value, ...]], Report]:
    """Replay a case; return the output rows in order, and the report."""
    lines = [f"sql = {json.dumps(case.first.sql)}"]
    for name, rows in case.rows.items():
        columns = {c: pa.array([r.values[c] for r in rows], ARROW[kind]) for c, kind in COLUMNS.items()}
        pq.write_table(
            pa.table({"ts": pa.array([r.time for r in rows], pa.int64()), **columns}), folder / f"{name}.parquet"
        )
        lines += [f"[streams.{name}]", f'path = "{name}.parquet"', 'time = "ts"']
    lines += ["[run]", f'batch = "{case.batch_us} microseconds"', f"buckets = {case.buckets}"]
    blocks: list[tuple[int, list[str]]] = []
    for change in case.changes:
        method, _, order = change.method.partition("/")
        asked = [f"change = {json.dumps(change.query.sql)}", f'method = "{method}"', "allow_schema_change = true"]
        asked.append("audit = true")
        blocks.append((change.position, [*asked, *([f'order = "{order}"'] if order else [])]))
    blocks += [(at_us, [f'control = "{kind}"']) for kind, at_us in controls]
    for at_us, block in sorted(blocks, key=lambda b: b[0]):
        lines += ["[[at]]", f"time = {at_us}", *block]
    scenario = folder / "scenario.toml"
    scenario.write_text("\n".join(lines) + "\n", encoding="utf-8")
    report, table = replay(prepare(replace(read_scenario(scenario), runtime=runtime)))
    assert table is not None
    return [tuple(row.values()) for row in table.to_pylist()], report


def check(
    case: Case, folder: Path, runtime: str = "local", controls: Sequence[tuple[str, int]] = ()
) -> tuple[HopOracle, Report]:
    """Compare output and records of a run with what the definitions say."""
    oracle = HopOracle(case.rows, case.first, case.changes, controls)
    given = oracle.given_out()
    queries = [q for q in (case.first, *(c.query for c in case.changes)) if isinstance(q, HopQuery)]
    expected = [output_row(g, bool(queries), any(q.emit == "delta" for q in queries)) for g in given]
    where = f"{case}\n  controls {list(controls)}" if controls else str(case)
    try:
        got, report = run_engine(case, folder, controls, runtime=runtime)
    except Exception as error:
        error.add_note(where)
        raise
    if got != expected:
        pytest.fail(f"{difference(got, expected)}{where}")
    check_records(oracle, given, report, where)
    return oracle, report


# Draws ---------------------------------------------------------------------------------------------------------------


def named(body: Body) -> Body:
    """Return a query of two whole numbers whose columns are called as those of all others."""
    if isinstance(body, Select):
        outputs = tuple(Output(o.text, o.kind, name) for o, name in zip(body.outputs, "ab", strict=True))
        return replace(body, outputs=outputs)
    return replace(body, left=named(body.left))


def draw_hopping(draw: _Draw) -> HopQuery:
    """Draw a hopping query, mostly small, with columns a and b."""
    rnd = draw.rnd
    while True:
        kind = rnd.choice(["any", "any", "any", "group", "aggregate"])
        if kind == "any":
            body = draw.draw_body((INT, INT), rnd.choice([0, 0, 1]))
        else:
            body = draw.grouped((INT, INT), 0, keyed=kind == "group")
        hop = rnd.choice([1, 1, 2, 3, draw.hop, draw.hop]) * draw.tick
        emit = rnd.choice(["complete", "complete", "delta"])
        case = HopCase("", draw.streams, body, hop, emit, 1, 1)
        if _weight(case, body)[1] <= MOST_ROWS / 4 and len(case.hops) <= 120:
            return HopQuery(named(body), hop, emit)


def draw_sliding(rnd: random.Random, names: Sequence[str], tick: int) -> Query:
    """Draw a filter, aggregates over the instances of a window, or a join."""
    kind = rnd.random()
    name = rnd.choice(names)
    if kind < 0.6:
        group_by = rnd.choice([None, None, "k"])
        outputs = draw_outputs(rnd, group_by, "v", False)
        return Aggregates(name, draw_window(rnd, tick), outputs, draw_where(rnd), group_by)
    if kind < 0.8 or len(names) < 2:
        return Filter(name, "[ROWS 1]", draw_where(rnd), (("a", "k"), ("b", "v")))
    sources = [
        Source(alias, n, rnd.choice([0, 1, 2, 4]) * tick) for alias, n in zip("pq", rnd.sample(names, 2), strict=True)
    ]
    return Join(tuple(sources), (("p.k", "=", "q.k"),), (), (("a", "p.v"), ("b", "q.v")))


def draw_streams(rnd: random.Random, most: int, least: int = 1) -> tuple[_Draw, Rows]:
    """Draw `least` streams or more with rows, the first not empty, and what goes on with drawing queries over them."""
    while True:
        draw = _Draw(rnd, most)
        times = [t for table in draw.streams.values() for t in times_of(table)]
        if len(times) > 4 and times_of(draw.streams[draw.names[0]]) and len(draw.names) >= least:
            break
    rows: Rows = {}
    for number, (name, table) in enumerate(draw.streams.items()):
        columns = [table.column(c).to_pylist() for c in COLUMNS]
        values = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]
        rows[name] = [Row(t, number, n, v) for n, (t, v) in enumerate(zip(times_of(table), values, strict=True))]
    return draw, rows


def draw_case(rnd: random.Random, method: str, pair: tuple[str, str], most: int = 30) -> Case:
    """Draw streams, two queries of the given families, a position, micro-batches and buckets."""
    draw, rows = draw_streams(rnd, most)
    times = [r.time for held in rows.values() for r in held]
    first, last = min(times), max(times)
    if rnd.random() < 0.7:  # queries that have rows in common
        draw.names = [name for name in draw.names if rows[name]][: rnd.choice([1, 1, 2])]
    hop = draw.hop * draw.tick
    if rnd.random() < 0.3:
        queries = draw_alike(rnd, draw, pair)
    else:
        queries = [
            draw_hopping(draw) if family == "hop" else draw_sliding(rnd, draw.names, draw.tick) for family in pair
        ]
    shared = sorted(r.time for q in queries for name in q.streams for r in rows[name]) or [first]
    inside = shared[rnd.randrange(max(1, len(shared) * 3 // 4))]
    edges = [first, first - 5, first + 1, last, last + 1, last + 40 * hop]
    at = rnd.choice([inside] * 6 + [inside + 1, inside // hop * hop, inside // hop * hop, rnd.choice(edges)])
    span = last - first + 1
    batch = rnd.choice([10**12, span + 1, max(1, span // 2), max(1, span // 7), hop, max(1, span // 25)])
    batch = max(batch, span // 40, 1)
    return Case(rows, queries[0], (Change(at, queries[1], method),), batch, rnd.choice([1, 1, 2, 3]))


def draw_alike(rnd: random.Random, draw: _Draw, pair: tuple[str, str]) -> list[Query]:
    """Draw two queries that answer much alike: one of another hop or emission, or one that slides as the other hops."""
    if pair == ("hop", "hop"):
        query = draw_hopping(draw)
        hop_us = rnd.choice([query.hop_us, query.hop_us, 2 * query.hop_us, 3 * draw.tick])
        emit = rnd.choice([query.emit, query.emit, "complete", "delta"])
        return [query, replace(query, hop_us=hop_us, emit=emit)]
    name, hop_us, width_us = rnd.choice(draw.names), draw.hop * draw.tick, rnd.choice(draw.widths) * draw.tick
    source = Stream(name, Window(width_us=width_us), "w")
    if rnd.random() < 0.6:
        outputs = (("a", "SUM", "v"), ("b", "COUNT", "*"))
        sliding: Query = Aggregates(name, RangeSlide(width_us, hop_us), outputs)
        hopping: Body = Select((Output("SUM(w.v)", INT, "a"), Output("COUNT(*)", INT, "b")), (source,), ((),))
    else:
        sliding = Filter(name, "[ROWS 1]", (), (("a", "k"), ("b", "v")))
        source = Stream(name, rnd.choice([source.window, Window(rows=1)]), "w")
        hopping = Select((Output("w.k", INT, "a"), Output("w.v", INT, "b")), (source,), ((),))
    found = {"sliding": sliding, "hop": HopQuery(hopping, hop_us, rnd.choice(["complete", "complete", "delta"]))}
    return [found[family] for family in pair]


@pytest.mark.parametrize("seed", seeds(0, 200, quick=2))
def test_a_drawn_change(seed: int, tmp_path: Path) -> None:
    """All methods and pairs of families take turns."""
    rnd = random.Random(7_000_000 + seed)
    method, pair = METHODS[seed % len(METHODS)], PAIRS[seed // len(METHODS) % len(PAIRS)]
    check(draw_case(rnd, method, pair), tmp_path)


def draw_meeting(rnd: random.Random, methods: Sequence[str]) -> Case:
    """Draw changes close after one another, from, to and between queries that hop."""
    case = draw_case(rnd, methods[0], rnd.choice(PAIRS))
    (first,) = case.changes
    others = [case.first, first.query]
    changes, at = [first], first.position
    times = sorted(r.time for rows in case.rows.values() for r in rows)
    step = max(1, (times[-1] - times[0]) // 40)
    for method in methods[1:]:
        at += rnd.choice([0, 1, step, 3 * step, rnd.randint(0, 10) * step])
        query = rnd.choice(others)
        if isinstance(query, HopQuery) and rnd.random() < 0.5:
            query = replace(query, hop_us=max(1, query.hop_us * rnd.choice([1, 2, 3]) // 2))
        changes.append(Change(at, query, method))
    return replace(case, changes=tuple(changes))


def check_however_cut(case: Case, folder: Path, controls: Sequence[tuple[str, int]] = ()) -> None:
    """Compare output and counts at several batch widths and numbers of buckets."""
    times = sorted(r.time for rows in case.rows.values() for r in rows)
    span = times[-1] - times[0] + 1
    for batch_us, buckets in ((case.batch_us, case.buckets), (2**60, 2), (max(1, span // 20), 3)):
        check(replace(case, batch_us=batch_us, buckets=buckets), folder, controls=controls)


@pytest.mark.parametrize("seed", seeds(0, 180, quick=3, kept=[20, 33, 311]))
def test_changes_that_meet(seed: int, tmp_path: Path) -> None:
    """All pairs of methods take turns; now and then three."""
    rnd = random.Random(7_500_000 + seed)
    pair = METHODS[seed % 6], METHODS[seed // 6 % 6]
    check_however_cut(draw_meeting(rnd, [*pair, *rnd.choice([[], [], [rnd.choice(METHODS)]])]), tmp_path)


@pytest.mark.parametrize("seed", seeds(0, 90, quick=2, kept=[42]))
def test_controls_while_changes_meet(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(7_600_000 + seed)
    case = draw_meeting(rnd, [rnd.choice(METHODS) for _ in range(rnd.choice([1, 1, 2]))])
    times = sorted(r.time for rows in case.rows.values() for r in rows)
    kinds = [rnd.choice(["istop", "dstop", "fstart", "abort"]) for _ in range(rnd.choice([1, 1, 2]))]
    controls = sorted(((kind, rnd.choice(times)) for kind in kinds), key=lambda c: c[1])
    check_however_cut(case, tmp_path, controls)


# Control elements ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(0, 60, quick=2))
def test_a_control_element(seed: int, tmp_path: Path) -> None:
    """A hopping query alone is stopped, drained or started anew: what leaves is as defined, all of it version 1."""
    rnd = random.Random(7_300_000 + seed)
    kind = ["istop", "dstop", "fstart"][seed % 3]
    case = draw_case(rnd, "immediate", ("hop", "hop"))
    check(replace(case, changes=()), tmp_path, controls=[(kind, case.changes[0].position)])


@pytest.mark.parametrize("seed", seeds(0, 40, quick=2))
def test_an_abort(seed: int, tmp_path: Path) -> None:
    """The old version goes on, if the new one has not answered; else the abort is refused and changes nothing."""
    rnd = random.Random(7_400_000 + seed)
    case = draw_case(rnd, ["graceful-immediate", "graceful-drain"][seed % 2], PAIRS[seed // 2 % 3])
    at = case.changes[0].position + rnd.choice([0, 1, rnd.randint(0, 10**6)])
    oracle, report = check(case, tmp_path, controls=[("abort", at)])
    if at <= oracle.latest:
        (record,) = report.changes
        assert bool(record["reason"]) != (record["state"] == "aborted"), f"abort at {at}{case}"
