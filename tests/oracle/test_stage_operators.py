"""Random stages over random rows, in random batches, against recomputing every instance in plain Python."""

import datetime as dt
import decimal
import math
import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from midstream.engine.snapshot.form import put_together, take_apart
from midstream.model.batch import Lineage, Results
from midstream.model.time import FOREVER_US
from midstream.operators.aggregate import partitioned_instances
from midstream.operators.aggregate import stage as stage_module
from midstream.operators.aggregate.build import build_stages
from midstream.operators.aggregate.stage import WindowStage
from midstream.plan.aggregates import Aggregate, UserAggregate
from midstream.plan.expr import Column, Expr, Literal
from midstream.plan.functions import resolve
from midstream.plan.parts import GROUPS, Output, Stage
from midstream.plan.window import Instances, PredicateWindow, RangeInstances, RowsInstances
from oracle.float_sums import summed
from seeds import seeds

D = decimal.Decimal
NAN = float("nan")
TYPES = {
    "k": pa.int64(), "name": pa.string(), "f": pa.float64(), "x": pa.int64(), "small": pa.int8(), "y": pa.float64(),
    "single": pa.float32(), "s": pa.string(), "day": pa.date32(), "at": pa.timestamp("us"), "b": pa.bool_(),
    "money": pa.decimal128(10, 2), "wide": pa.decimal128(38, 4), "nothing": pa.null(),
}  # fmt: skip
COLUMNS = {name: Column("r", name, t) for name, t in TYPES.items()}
SCHEMA = pa.schema(list(TYPES.items()))
NUMBERS = ("x", "small", "y", "single", "money", "wide")


def spread_of(values: pa.Array) -> Any:
    """Return the greatest minus the least, as a user would."""
    if not len(values):
        return -1
    found = pc.min_max(values)
    return found["max"].as_py() - found["min"].as_py()


def joined(values: pa.Array) -> str:
    return "|".join(values.to_pylist())


USER: dict[str, tuple[Callable[[pa.Array], Any], pa.DataType, str]] = {
    "spread_of": (spread_of, pa.float64(), "x"),
    "joined": (joined, pa.string(), "s"),
}
OWN = {name: UserAggregate(name, call, t) for name, (call, t, _) in USER.items()}


@dataclass
class Row:
    values: dict[str, Any]
    time: int
    trigger: tuple[int, int, int, int]
    oldest: int
    print: int


@dataclass
class Instance:
    rows: list[int]
    trigger: tuple[int, int, int, int]
    closer: int
    """What closes it: a row, or for windows of time T."""


# --- Recomputing


def instances(window: Instances, rows: list[Row], clock: int) -> list[Instance]:
    """Return the complete instances, in the order they close."""
    if isinstance(window, RangeInstances):
        return list(range_instances(window, rows, clock))
    if isinstance(window, PredicateWindow):
        return list(predicate_instances(rows))
    found = []
    for members in partitions(window, rows):
        for first in range(0, len(members), window.slide):
            held = members[first : first + window.count]
            if len(held) == window.count:
                found.append(Instance(held, rows[held[-1]].trigger, held[-1]))
    return sorted(found, key=lambda i: i.closer)


def partitions(window: RowsInstances, rows: list[Row]) -> list[list[int]]:
    keys: dict[Any, list[int]] = {}
    for n, row in enumerate(rows):
        keys.setdefault(tuple(same(row.values[c.name]) for c in window.partition_by), []).append(n)
    return list(keys.values())


def range_instances(window: RangeInstances, rows: list[Row], clock: int) -> Iterator[Instance]:
    held: dict[int, list[int]] = {}
    for n, row in enumerate(rows):
        t = row.trigger[0]
        at = t - t % window.slide_us + window.slide_us
        while at <= min(t + window.width_us, clock):
            held.setdefault(at, []).append(n)
            at += window.slide_us
    for at in sorted(held):
        yield Instance(held[at], (at, -1, -1, -1), at)


def predicate_instances(rows: list[Row], left_open: bool = False) -> Iterator[Instance]:
    """Windows from x > 20 to small < 0."""
    held: list[int] | None = None
    for n, row in enumerate(rows):
        if held is None and (row.values["x"] or 0) > 20:
            held = []
        if held is not None:
            held.append(n)
            if (row.values["small"] or 0) < 0:
                if not left_open:
                    yield Instance(held, row.trigger, n)
                held = None
    if left_open and held is not None:
        yield Instance(held, rows[held[-1]].trigger, -1)


def open_rows(window: Instances, rows: list[Row], clock: int) -> set[int]:
    """Return the rows that an instance holds which has not closed."""
    if isinstance(window, PredicateWindow):
        return {n for i in predicate_instances(rows, left_open=True) for n in i.rows}
    if isinstance(window, RangeInstances):
        return {n for i in range_instances(window, rows, FOREVER_US) if i.closer > clock for n in i.rows}
    held = set()
    for members in partitions(window, rows):
        for first in range(0, len(members), window.slide):
            if first + window.count > len(members):
                held |= set(members[first:])
    return held


def same(value: Any) -> Any:
    """Return something that equals itself where SQL's GROUP BY says the values are the same."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def rank(value: Any) -> Any:
    return (math.isnan(value), value) if isinstance(value, float) else value


def expected(stage: Stage, case: "Draft", instance: Instance) -> Iterator[tuple[Any, ...]]:
    """Return the rows of an instance: its latest row, then output, time, order and lineage."""
    rows = case.rows
    members = [n for n in instance.rows if case.where is None or case.where(rows[n].values)]
    groups: dict[Any, list[int]] = {} if stage.keys else {(): members}
    for n in members if stage.keys else []:
        groups.setdefault(tuple(same(key(rows[n].values)) for key in case.keys), []).append(n)
    for held in groups.values():
        about = held or instance.rows
        keys = [key(rows[held[0]].values) for key in case.keys]
        aggregates = [recompute(a, [rows[n].values for n in held]) for a in stage.aggregates]
        if case.having and not len(held) > 1:
            continue
        lineage = (min(rows[n].oldest for n in about), tuple(sorted(rows[n].print for n in about)))
        time = max(rows[n].time for n in about)
        yield (
            max(about),
            (*keys, *aggregates, len(held) * 2),
            time,
            (*instance.trigger, *rows[max(about)].trigger),
            lineage,
        )


def recompute(a: Aggregate, rows: list[dict[str, Any]]) -> Any:
    if a.argument is None:
        return len(rows)
    assert isinstance(a.argument, Column)
    values = [row[a.argument.name] for row in rows]
    values = [v for v in values if v is not None]
    if a.distinct:
        values = list({same(v): v for v in reversed(values)}.values())[::-1]
        values = sorted(values, key=lambda v: [same(r[a.argument.name]) for r in rows].index(same(v)))
    if a.user is not None:
        return a.user.function(pa.array(values, a.argument.type))
    match a.function:
        case "count":
            return len(values)
        case "stddev":
            floats = [float(v) for v in values]
            if any(map(math.isnan, floats)):
                return NAN if len(values) > 1 else None
            return statistics.stdev(floats) if len(values) > 1 else None
    if not values:
        return None
    match a.function:
        case "min":
            return min(values, key=rank)
        case "max":
            return max(values, key=rank)
        case "sum" | "avg":
            total: Any = summed(values) if isinstance(values[0], float) else 0
            for v in values if not isinstance(total, float) else ():
                total = decimal.Context(prec=80).add(total, v) if isinstance(v, D) else total + v
            if a.function == "avg":
                return float(total) / len(values)
            outside = abs(total) >= 10**34 if isinstance(values[0], D) else not -(2**63) <= total < 2**63
            return None if not isinstance(total, float) and outside else total
    ordered = sorted(map(float, values) if isinstance(values[0], D) else values, key=rank)
    return (float(ordered[(len(ordered) - 1) // 2]) + float(ordered[len(ordered) // 2])) / 2


# --- Drawing


@dataclass
class Draft:
    stage: Stage
    rows: list[Row]
    where: Callable[[dict[str, Any]], bool] | None
    keys: list[Callable[[dict[str, Any]], Any]]
    having: bool


def draw_rows(rnd: random.Random, count: int) -> list[Row]:
    time = rnd.choice([-5_000, 0, 10**15])
    rows: list[Row] = []
    trigger = (0, 0, 0, 0)
    jumps, big = rnd.choice([(0, 1, 7), (0, 30), (1, 5, 2_000_000)]), rnd.random() < 0.2
    repeat, lag, nulls = rnd.random() * 0.4, rnd.random() < 0.3, rnd.choice([0.0, 0.1, 0.5])
    for n in range(count):
        if not rows or rnd.random() >= repeat:
            time += rnd.choice(jumps)
            trigger = (time, rnd.randrange(2), n, rnd.randrange(2))
        values: dict[str, Any] = {
            "k": rnd.randrange(4), "name": rnd.choice(["a", "b", "", "a longer name"]),
            "f": rnd.choice([0.0, -0.0, NAN, 1.5]),
            "x": rnd.randrange(-(2**62), 2**62) if big else rnd.randrange(-40, 60), "small": rnd.randrange(-3, 10),
            "y": rnd.choice([rnd.uniform(-1e3, 1e3), 0.1, 1e16, -1e16, 3.0]) if rnd.random() < 0.97 else NAN,
            "single": float(rnd.randrange(8)) / 4, "s": rnd.choice(["x", "", "yy", "z" * 20, "é"]),
            "day": dt.date(2020, 1, 1) + dt.timedelta(rnd.randrange(9)),
            "at": dt.datetime(2020, 1, 1) + dt.timedelta(seconds=rnd.randrange(9)), "b": rnd.random() < 0.5,
            "money": D(rnd.randrange(-5000, 5000)) / 100,
            "wide": D(rnd.randrange(-(10**38) + 1, 10**38)).scaleb(-4, decimal.Context(prec=50)), "nothing": None,
        }  # fmt: skip
        values = {name: None if rnd.random() < nulls else v for name, v in values.items()}
        late = rnd.randrange(20) if lag else 0
        rows.append(Row(values, time - late, trigger, time - rnd.randrange(50), rnd.randrange(-(2**63), 2**63)))
    return sorted(rows, key=lambda row: row.trigger)


def draw_window(rnd: random.Random) -> Instances:
    kind = rnd.choice(["range", "range", "rows", "rows", "partition", "partition", "predicate"])
    if kind == "predicate":
        start = resolve(">", [COLUMNS["x"], Literal(20, pa.int64())])
        return PredicateWindow(start, resolve("<", [COLUMNS["small"], Literal(0, pa.int8())]))
    if kind == "range":
        return RangeInstances(rnd.choice([1, 5, 30, 100, 1000]), rnd.choice([1, 3, 10, 70, 100, 2500]))
    count, slide = rnd.choice([1, 2, 5, 12, 40]), rnd.choice([1, 2, 3, 5, 12, 50])
    by = rnd.choice([("k",), ("name",), ("k", "f"), ("money", "b")]) if kind == "partition" else ()
    return RowsInstances(count, slide, tuple(COLUMNS[name] for name in by))


def result_type(function: str, t: pa.DataType) -> pa.DataType:
    if function in ("avg", "stddev", "median"):
        return pa.float64()
    if function == "sum":
        if pa.types.is_decimal(t):
            return pa.decimal128(38, t.scale)
        return pa.float64() if pa.types.is_floating(t) else pa.int64()
    return pa.int64() if function == "count" else t


def draw_aggregate(rnd: random.Random) -> Aggregate:
    function = rnd.choice(["count", "count", "sum", "sum", "avg", "min", "max", "stddev", "median", "user"])
    distinct = rnd.random() < 0.3
    if function == "user":
        name = rnd.choice(list(USER))
        call, t, argument = USER[name]
        return Aggregate(name, COLUMNS[argument], t, distinct, UserAggregate(name, call, t))
    if function == "count" and rnd.random() < 0.4:
        return Aggregate("count", None, pa.int64())
    any_type = function in ("count", "min", "max")
    argument = COLUMNS[rnd.choice(list(TYPES) if any_type else NUMBERS)]
    return Aggregate(function, argument, result_type(function, argument.type), distinct)


def draw(rnd: random.Random) -> Draft:
    window = draw_window(rnd)
    conjuncts: tuple[Expr, ...] = ()
    where = None
    if rnd.random() < 0.4:
        above = rnd.choice([0, 4, 8])
        conjuncts = (resolve(">", [COLUMNS["small"], Literal(above, pa.int8())]),)
        where = lambda values: (values["small"] or -9) > above  # noqa: E731
    names = rnd.choice(
        [(), (), ("k",), ("name",), ("f",), ("k", "name"), ("nothing", "b"), ("money", "f", "s"), ("wide",)]
    )
    aggregates = tuple(draw_aggregate(rnd) for _ in range(rnd.randint(1, 4)))
    counter = Column(GROUPS, f"agg{len(aggregates)}", pa.int64())
    aggregates = (*aggregates, Aggregate("count", None, pa.int64()))
    outputs = [Output(f"k{i}", Column(GROUPS, f"key{i}", TYPES[name])) for i, name in enumerate(names)]
    outputs += [Output(f"a{i}", Column(GROUPS, f"agg{i}", a.type)) for i, a in enumerate(aggregates)]
    outputs.append(Output("twice", resolve("*", [counter, Literal(2, pa.int64())])))
    having = rnd.random() < 0.25
    conditions = (resolve(">", [counter, Literal(1, pa.int64())]),) if having else ()
    keys: list[Callable[[dict[str, Any]], Any]] = [lambda values, name=name: values[name] for name in names]
    columns = tuple(COLUMNS[name] for name in names)
    stage = Stage("r", window, conjuncts, columns, aggregates, conditions, tuple(outputs))
    return Draft(stage, draw_rows(rnd, rnd.choice([0, 1, 30, 150])), where, keys, having)


# --- Running


def results_of(rows: list[Row]) -> Results:
    columns = {name: pa.array([row.values[name] for row in rows], t) for name, t in TYPES.items()}
    batch = pa.record_batch({**columns, "_time": pa.array([row.time for row in rows], pa.int64())})
    order = np.array([(*row.trigger, 7) for row in rows], np.int64).reshape(-1, 5)
    oldest, prints = ([getattr(row, name) for row in rows] for name in ("oldest", "print"))
    return Results(batch, order, Lineage(np.array(oldest, np.int64), np.array(prints, np.int64)))


def calls(rnd: random.Random, rows: list[Row]) -> Iterator[tuple[int, int, int]]:
    """Cut rows into calls: first row, last row, clock; rows with one trigger stay together."""
    at = 0
    clock = (rows[0].trigger[0] if rows else 0) - rnd.randrange(20)
    size = rnd.choice([1, 5, 40, 1000])
    while at < len(rows):
        end = min(at + rnd.randint(0, size), len(rows))
        while 0 < end < len(rows) and end > at and rows[end].trigger == rows[end - 1].trigger:
            end += 1
        if rnd.random() < 0.1:
            end = at
        latest = rows[end].trigger[0] if end < len(rows) else rows[-1].trigger[0] + 200
        clock = max(clock, rnd.choice([clock, latest, rnd.randint(clock, max(clock, latest))]))
        yield at, end, clock
        at = end
    yield at, at, rnd.choice([clock, clock + 3000, FOREVER_US])


class Owner:
    """Keeps what is needed to restore a stage, as an owner with a disk would."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.held: list[pa.Table] = []

    def checkpoint(self, running: WindowStage, rnd: random.Random) -> None:
        fresh = running.fresh_rows()
        self.held += [] if fresh is None else [fresh]
        if running.sparse:
            self.held = [running.needed_rows()]
            assert not running.sparse
        if rnd.random() < 0.5:
            first = running.first_number
            self.held = [t.filter(pc.greater_equal(t["_number"], first)) for t in self.held]

    def restored(self, running: WindowStage) -> WindowStage:
        (fresh,) = build_stages((self.stage,), SCHEMA)
        held = pa.concat_tables(self.held, promote_options="default") if self.held else pa.table({})
        fresh.restore(held, running.counters())
        assert fresh.counters() == running.counters()
        return fresh


def print_of(prints: tuple[int, ...]) -> int:
    total = sum(prints) & (2**64 - 1)
    return total - 2**64 if total >= 2**63 else total


def is_rounded(a: Aggregate) -> bool:
    """Tell whether the last digits of an aggregate may differ from those recomputed."""
    return a.function == "stddev" or (a.function == "avg" and pa.types.is_decimal(a.argument.type))  # type: ignore[union-attr]


def assert_same(got: Any, wanted: Any, rounded: bool) -> None:
    if isinstance(got, float) and wanted is not None:
        close = math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-9) if rounded else got == float(wanted)
        assert close or (math.isnan(got) and math.isnan(wanted)), (got, wanted)
    else:
        assert got == wanted


def check(case: Draft, rnd: random.Random, calm: bool = False) -> None:
    """Compare a stage with recomputing, call by call; `calm`: nobody asks it for its rows meanwhile."""
    stage, rows = case.stage, case.rows
    (running,) = build_stages((stage,), SCHEMA)
    owner = Owner(stage)
    done = 0
    for first, end, clock in calls(rnd, rows):
        got = running.on_results(results_of(rows[first:end]), clock)
        complete = instances(stage.window, rows[:end], clock)
        closed = complete[done:]
        done = len(complete)
        lines = [line for i in closed for line in expected(stage, case, i)]
        lines.sort(key=lambda line: (line[3][:4], line[0]))
        assert got.order is not None
        assert got.lineage is not None
        assert got.order.tolist() == [list(line[3]) for line in lines]
        assert got.rows.schema == pa.schema([*stage.schema, pa.field("_time", pa.int64())])
        assert got.rows.column("_time").to_pylist() == [line[2] for line in lines]
        assert got.lineage.oldest_us.tolist() == [line[4][0] for line in lines]
        assert got.lineage.prints.tolist() == [print_of(line[4][1]) for line in lines]
        rounded = [*(False for _ in stage.keys), *map(is_rounded, stage.aggregates), False]
        for k in range(len(stage.outputs)):
            for value, line in zip(got.rows.column(k).to_pylist(), lines, strict=True):
                assert_same(value, line[1][k], rounded[k])
        before = rnd.choice(rows).oldest + rnd.randrange(2) if rows else 0
        times = [i.trigger[0] for i in closed if min(rows[n].oldest for n in i.rows) < before]
        gone_us, oldest_us = running.closed()
        found = (gone_us - (0 if running.timed else 1))[oldest_us < before].tolist()
        assert max(found, default=None) == max(times, default=None)
        held = open_rows(stage.window, rows[:end], clock)
        assert running.holds_before(before) == any(rows[n].oldest < before for n in held)
        if not calm and rnd.random() < 0.3:
            owner.checkpoint(running, rnd)
            if rnd.random() < 0.5:
                running = owner.restored(running)
        elif rnd.random() < 0.1:
            running = put_together(*take_apart(running), OWN)


@pytest.mark.parametrize("seed", seeds(0, 200, quick=3))
def test_stages_equal_recomputing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(seed)
    monkeypatch.setattr(partitioned_instances, "SLACK_ROWS", rnd.choice([0, 20, 1024]))
    for _ in range(5):
        check(draw(rnd), rnd)


FOLDING = [
    *(("count", name, distinct) for name in ("x", "s", "nothing", "money") for distinct in (False, True)),
    *((f, name, distinct) for f in ("sum", "avg") for name in ("x", "small", "money") for distinct in (False, True)),
    *((f, name, False) for f in ("sum", "avg") for name in ("y", "f", "single")),
    *((f, name, False) for f in ("min", "max") for name in ("x", "y", "f", "s", "day", "b", "money", "wide")),
]
EXACT = [
    (f, name, False)
    for f, name, distinct in FOLDING
    if not distinct and (f in ("sum", "avg") or name not in ("y", "f"))
]


@pytest.mark.parametrize("seed", seeds(0, 100, quick=2))
def test_folded_stages_equal_recomputing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(900_000 + seed)
    monkeypatch.setattr(stage_module, "FOLD_ROWS", rnd.choice([1, 5, 20]))
    folds: list[int] = []
    fold = stage_module.folded
    monkeypatch.setattr(stage_module, "folded", lambda *args: folds.append(args[3]) or fold(*args))
    for n in range(5):
        case, surely = draw(rnd), n == 0
        while isinstance(case.stage.window, RowsInstances) or (surely and case.keys):
            case = draw(rnd)
        if surely:
            case.stage = replace(case.stage, window=RangeInstances(1000, 500))
        kinds = EXACT if surely or rnd.random() < 0.6 else FOLDING
        drawn = [rnd.choice(kinds) for _ in case.stage.aggregates[1:]]
        aggregates = [Aggregate(f, COLUMNS[of], result_type(f, TYPES[of]), once) for f, of, once in drawn]
        outputs = list(case.stage.outputs)
        for k, a in enumerate(aggregates):
            outputs[len(case.keys) + k] = Output(f"a{k}", Column(GROUPS, f"agg{k}", a.type))
        case.stage = replace(case.stage, aggregates=(*aggregates, case.stage.aggregates[-1]), outputs=tuple(outputs))
        case.rows = draw_rows(rnd, 100)
        while case.rows[-1].trigger[0] - case.rows[0].trigger[0] > 1000:
            case.rows = draw_rows(rnd, 100)
        # Rows that were handed out are not folded any more.
        check(case, rnd, calm=surely)
    assert folds
