"""Window stages: what leaves when, and what they remember."""

import datetime as dt
import decimal
import math
import random
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from midstream.engine.snapshot.form import put_together, take_apart
from midstream.model.batch import Lineage, Results
from midstream.model.errors import MidstreamError, PlanError
from midstream.model.time import FOREVER_US
from midstream.operators.aggregate import partitioned_instances
from midstream.operators.aggregate.build import build_stages
from midstream.operators.aggregate.stage import WindowStage
from midstream.plan.aggregates import Aggregate, UserAggregate
from midstream.plan.expr import Column, Literal
from midstream.plan.functions import resolve
from midstream.plan.parts import GROUPS, Output, Stage
from midstream.plan.window import Instances, PredicateWindow, RangeInstances, RowsInstances

D = decimal.Decimal
K, X = Column("r", "k", pa.int64()), Column("r", "x", pa.int64())
SELECTED = pa.schema([("k", pa.int64()), ("x", pa.int64())])
COUNT = Aggregate("count", None, pa.int64())
SUM = Aggregate("sum", X, pa.int64())


def stage_of(window: Instances, *aggregates: Aggregate, keys: Sequence[Column] = (), alias: str = "r") -> Stage:
    outputs = [Output(key.name, Column(GROUPS, f"key{i}", key.type)) for i, key in enumerate(keys)]
    outputs += [Output(f"a{i}", Column(GROUPS, f"agg{i}", a.type)) for i, a in enumerate(aggregates)]
    return Stage(alias, window, (), tuple(keys), aggregates, (), tuple(outputs))


def built(window: Instances, *aggregates: Aggregate, keys: Sequence[Column] = ()) -> WindowStage:
    return build_stages((stage_of(window, *aggregates, keys=keys),), SELECTED)[0]


def results(columns: dict[str, pa.Array], times: Sequence[int], first: int = 0) -> Results:
    time = np.array(times, np.int64)
    numbers = np.arange(first, first + len(time))
    order = np.column_stack([time, np.zeros_like(time), numbers, np.zeros_like(time)])
    return Results(pa.record_batch({**columns, "_time": pa.array(time)}), order, Lineage(time, numbers))


def rows(*given: tuple[int, int | None, int | None], first: int = 0) -> Results:
    """Make rows of time, k and x."""
    columns = {name: pa.array([row[i] for row in given], pa.int64()) for i, name in ((1, "k"), (2, "x"))}
    return results(columns, [row[0] for row in given], first)


def plain(found: Results) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in found.rows.to_pylist()]


def test_an_instance_of_time_closes_with_the_clock() -> None:
    stage = built(RangeInstances(10, 5), SUM)
    assert plain(stage.on_results(rows((-7, 0, 1), (-5, 0, 2), (4, 0, 4)), 4)) == [(1, -7), (3, -5)]
    assert [part.tolist() for part in stage.closed()] == [[-5, 0], [-7, -7]]
    found = stage.on_results(rows(), 5)
    assert plain(found) == [(6, 4)]
    assert found.order is not None
    assert found.order.tolist() == [[5, -1, -1, -1, 4, 0, 2, 0]]
    assert stage.holds_before(5)
    assert not stage.holds_before(4)
    assert plain(stage.on_results(rows((5, 0, 8)), 9)) == []
    assert plain(stage.on_results(rows(), FOREVER_US)) == [(12, 5), (8, 5)]
    assert stage.tuples == 0


def test_time_without_rows_is_skipped_at_once() -> None:
    stage = built(RangeInstances(2, 1), COUNT)
    stage.on_results(rows((0, 0, 1)), 0)
    found = stage.on_results(rows((10**15, 0, 1)), 10**15 + 1)
    assert found.order is not None
    assert found.order[:, 0].tolist() == [1, 2, 10**15 + 1]


def test_rows_of_one_time_may_come_in_several_calls() -> None:
    stage = built(RangeInstances(5, 5), SUM)
    assert plain(stage.on_results(rows((5, 0, 1)), 5)) == []
    assert plain(stage.on_results(rows((5, 0, 2), (10, 0, 4)), 10)) == [(3, 5)]
    assert plain(stage.on_results(rows((10, 0, 8)), 15)) == [(12, 10)]


def test_rows_between_instances_are_not_held() -> None:
    counted = built(RowsInstances(2, 5), SUM)
    assert plain(counted.on_results(rows(*((t, 0, t) for t in range(13))), 12)) == [(1, 1), (11, 6), (21, 11)]
    assert counted.tuples == 0
    timed = built(RangeInstances(2, 10), SUM)
    assert plain(timed.on_results(rows(*((t, 0, t) for t in range(19))), 18)) == [(17, 9)]
    assert timed.tuples == 1


def test_every_key_has_a_place_of_its_own() -> None:
    stage = built(RowsInstances(2, 2, (K,)), SUM)
    given = [(1, 1, 1), (2, None, 2), (3, 2, 4), (4, None, 8), (5, 1, 16), (6, None, 32)]
    assert plain(stage.on_results(rows(*given), 6)) == [(10, 4), (17, 5)]
    assert stage.holds_before(4)
    assert not stage.holds_before(3)


def test_a_window_between_conditions() -> None:
    window = PredicateWindow(resolve("=", [K, Literal(1, pa.int64())]), resolve(">", [X, Literal(9, pa.int64())]))
    stage = built(window, SUM, COUNT)
    first = [(1, 0, 1), (2, 1, 2), (3, 1, None), (4, None, 10), (5, 0, 50), (6, 1, 70), (7, 1, 3)]
    assert plain(stage.on_results(rows(*first), 7)) == [(12, 3, 4), (70, 1, 6)]
    assert stage.counters()["open"] == 1
    assert plain(stage.on_results(rows((8, 1, 10), (9, 0, 1)), 9)) == [(13, 2, 8)]
    assert stage.tuples == 0


def test_where_leaves_an_instance_without_keys_a_row() -> None:
    asked = stage_of(RowsInstances(2, 2), SUM, COUNT)
    condition = resolve(">", [X, Literal(0, pa.int64())])
    where = Stage("r", asked.window, (condition,), (), asked.aggregates, (), asked.outputs)
    (stage,) = build_stages((where,), SELECTED)
    found = stage.on_results(rows((1, 0, -1), (2, 0, None), (3, 0, 7), (4, 0, -7)), 4)
    assert plain(found) == [(None, 0, 2), (7, 1, 3)]
    assert found.lineage is not None
    assert found.lineage.oldest_us.tolist() == [1, 3]


def test_a_stage_over_a_stage() -> None:
    inner = stage_of(RangeInstances(10, 10), SUM, keys=[K])
    total = Column("i", "a0", pa.int64())
    outer = stage_of(RangeInstances(20, 20), Aggregate("max", total, pa.int64()), COUNT, alias="i")
    first, second = build_stages((inner, outer), SELECTED)
    given = rows(*((t, t % 3, t) for t in range(45)))
    middle = first.on_results(given, 44)
    # What closed at 20 is of the instance that ends at 40.
    assert plain(second.on_results(middle, 44)) == [(18, 3, 9), (98, 6, 29)]


def test_groups_leave_by_their_latest_row() -> None:
    stage = built(RangeInstances(10, 10), SUM, keys=[K])
    given = [(1, 3, 1), (2, 1, 1), (3, 2, 1), (4, 3, 1), (5, None, 1)]
    assert plain(stage.on_results(rows(*given), 10)) == [(1, 1, 2), (2, 1, 3), (3, 2, 4), (None, 1, 5)]


def test_a_sum_that_is_too_large_is_null() -> None:
    stage = built(RowsInstances(2, 1), SUM, Aggregate("avg", X, pa.float64()))
    big = 2**63 - 1
    found = plain(stage.on_results(rows((1, 0, big), (2, 0, 1), (3, 0, -1), (4, 0, -big)), 4))
    assert [row[:2] for row in found] == [(None, 2.0**62), (0, 0.0), (-(2**63), -(2.0**62))]
    money = Column("r", "d", pa.decimal128(38, 0))
    wide = stage_of(RowsInstances(2, 1), Aggregate("sum", money, pa.decimal128(38, 0)))
    (decimals,) = build_stages((wide,), pa.schema([("d", money.type)]))
    most, least = D(10**38 - 1), D(1 - 10**38)
    given = pa.array([most, D(1), D(-1), least, least], money.type)
    sums = decimals.on_results(results({"d": given}, range(5)), 5).rows.column(0).to_pylist()
    assert sums == [None, D(0), None, None]


def test_equal_floats_do_not_deviate_and_sums_keep_their_bits() -> None:
    y = Column("r", "y", pa.float64())
    asked = stage_of(
        RowsInstances(7, 3), Aggregate("stddev", y, y.type), Aggregate("sum", y, y.type), Aggregate("avg", y, y.type)
    )
    rnd = random.Random(5)
    values = [0.1] * 10 + [rnd.uniform(-1e9, 1e9) * 10 ** rnd.randrange(9) for _ in range(200)]

    def run(size: int) -> list[tuple[Any, ...]]:
        (stage,) = build_stages((asked,), pa.schema([("y", y.type)]))
        found: list[tuple[Any, ...]] = []
        for at in range(0, len(values), size):
            part = values[at : at + size]
            found += plain(stage.on_results(results({"y": pa.array(part)}, range(at, at + len(part)), at), at))
        return found

    whole = run(1000)
    assert whole[0][0] == 0.0
    assert whole == run(1) == run(13)
    assert [row[1] for row in whole] == [math.fsum(values[i : i + 7]) for i in range(0, len(values) - 6, 3)]


TYPED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "INTEGER": (pa.int32(), [3, None, -7, 3, 12, 2**31 - 1, 0]),
    "DOUBLE": (pa.float64(), [1.5, float("nan"), -0.25, None, 1e300, 1.5, float("-inf")]),
    "FLOAT": (pa.float32(), [0.5, None, 2.5, 0.5, -8.0]),
    "DECIMAL(20,3)": (pa.decimal128(20, 3), [D("1.250"), D("-3.5"), None, D("1.25"), D("99999999999999999.999")]),
    "VARCHAR": (pa.string(), ["b", "", None, "a", "é", "b"]),
    "DATE": (pa.date32(), [dt.date(2021, 5, 4), None, dt.date(1969, 1, 1), dt.date(2021, 5, 4)]),
    "TIMESTAMP": (pa.timestamp("us"), [dt.datetime(2021, 5, 4, 1), None, dt.datetime(1960, 1, 1)]),
    "BOOLEAN": (pa.bool_(), [True, None, False, True]),
}


@pytest.mark.parametrize("name", TYPED)
@pytest.mark.parametrize("distinct", [False, True])
def test_aggregates_are_those_of_duckdb(name: str, distinct: bool) -> None:
    t, values = TYPED[name]
    v = Column("r", "v", t)
    types = {"count": pa.int64(), "min": t, "max": t}
    if pa.types.is_floating(t) or pa.types.is_integer(t) or pa.types.is_decimal(t):
        types |= {"median": pa.float64(), "avg": pa.float64()}
        types["sum"] = pa.decimal128(38, t.scale) if pa.types.is_decimal(t) else pa.float64()
        types |= {} if name == "DOUBLE" else {"stddev": pa.float64()}  # of infinity, DuckDB gives an error
    asked = [Aggregate(f, v, out, distinct) for f, out in types.items()]
    connection = duckdb.connect()
    for size in (1, 2, 3, len(values)):
        (stage,) = build_stages((stage_of(RowsInstances(size, 1), *asked),), pa.schema([("v", t)]))
        found = stage.on_results(results({"v": pa.array(values, t)}, range(len(values))), 0).rows.drop_columns("_time")
        for at, row in enumerate(found.to_pylist()):
            connection.register("part", pa.table({"v": pa.array(values[at : at + size], t)}))
            calls = [f"{f}({'DISTINCT ' * distinct}v)" for f in types]
            casts = [
                f"CAST({c} AS DOUBLE)" if types[f] == pa.float64() else c for f, c in zip(types, calls, strict=True)
            ]
            (wanted,) = connection.execute(f"SELECT {', '.join(casts)} FROM part").fetchall()
            for f, got, want in zip(types, row.values(), wanted, strict=True):
                if isinstance(want, float) and got is not None:
                    assert math.isclose(got, want, rel_tol=1e-12) or (math.isnan(got) and math.isnan(want)), (f, at)
                else:
                    assert got == want, (f, at)


def failing(values: pa.Array) -> int:
    raise ValueError("no way")


def longest(values: pa.Array) -> Any:
    return np.float64(len(values) + 0.5)


def test_an_aggregate_of_the_user() -> None:
    asked = Aggregate("longest", X, pa.int64(), user=UserAggregate("longest", longest, pa.int64()))
    stage = built(RowsInstances(2, 2), asked)
    assert plain(stage.on_results(rows((1, 0, 1), (2, 0, None), (3, 0, None), (4, 0, None)), 4)) == [(2, 2), (0, 4)]
    broken = Aggregate("failing", X, pa.int64(), user=UserAggregate("failing", failing, pa.int64()))
    with pytest.raises(MidstreamError, match=r"^the aggregate failing has failed \(ValueError: no way\)$"):
        built(RowsInstances(1, 1), broken).on_results(rows((1, 0, 1)), 1)


def test_the_same_rows_have_the_same_print_in_any_stage() -> None:
    one = built(RowsInstances(3, 3), SUM).on_results(rows((1, 0, 1), (2, 0, 2), (3, 0, 3)), 3)
    other = built(RangeInstances(10, 10), COUNT, keys=[K]).on_results(rows((1, 0, 1), (2, 0, 2), (3, 0, 3)), 10)
    less = built(RowsInstances(2, 2), SUM).on_results(rows((1, 0, 1), (2, 0, 2), (3, 0, 3)), 3)
    prints = [found.lineage.prints.tolist() for found in (one, other, less) if found.lineage is not None]
    assert prints[0] == prints[1] != prints[2]


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(PlanError, match=r"r\.x is not a column of type int64"):
        build_stages((stage_of(RowsInstances(1, 1), SUM),), pa.schema([("k", pa.int64())]))


def test_a_slow_key_makes_what_is_written_sparse() -> None:
    stage = built(RowsInstances(10, 10, (K,)), SUM)
    stage.on_results(rows((0, 0, 1)), 0)
    written = []
    for at in range(1, 4001, 500):
        stage.on_results(rows(*((t, 1, t) for t in range(at, at + 500)), first=at), at)
        fresh = stage.fresh_rows()
        written += [] if fresh is None else [fresh]
    assert stage.first_number == 0
    assert stage.tuples < 3000, "rows that nobody needs are let go"
    assert sum(map(len, written)) == 1 + 8, "a closed instance leaves one row that says so"
    assert stage.sparse
    needed = stage.needed_rows()
    assert needed.num_rows == 1
    assert not stage.sparse
    (fresh_stage,) = build_stages((stage_of(RowsInstances(10, 10, (K,)), SUM),), SELECTED)
    fresh_stage.restore(needed, stage.counters())
    given = rows(*((5000 + t, 0, 1) for t in range(9)))
    assert plain(fresh_stage.on_results(given, 6000)) == plain(stage.on_results(given, 6000)) == [(10, 5008)]


def test_counts_between_instances_are_remembered() -> None:
    stage = built(RowsInstances(2, 5, (K,)), SUM)
    stage.on_results(rows(*((t, 7, t) for t in range(8))), 8)  # the next instance is 10, 11
    assert not stage.holds_before(100)
    restored = built(RowsInstances(2, 5, (K,)), SUM)
    fresh = stage.fresh_rows()
    assert fresh is not None
    assert fresh.num_rows == 1
    restored.restore(fresh, stage.counters())
    later = rows(*((t, 7, t) for t in range(8, 13)))
    assert plain(restored.on_results(later, 13)) == plain(stage.on_results(later, 13)) == [(21, 11)]
    assert restored.fresh_rows() is not None
    assert restored.fresh_rows() is None


def test_large_states_travel_as_arrays() -> None:
    stage = built(RowsInstances(5000, 1), SUM, keys=[K])
    stage.on_results(rows(*((t, t % 3, t) for t in range(4999))), 0)
    description, arrays = take_apart(stage)
    assert len(description) < 50_000
    moved = put_together(description, arrays)
    last = rows((5000, 1, 1))
    assert plain(moved.on_results(last, 0)) == plain(stage.on_results(last, 0))
    assert moved.nbytes > 5000 * 8 * 8


def test_a_key_that_is_done_says_so_before_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned_instances, "SLACK_ROWS", 0)
    stage, restored = (built(RowsInstances(2, 2, (K,)), SUM) for _ in range(2))
    stage.on_results(rows((0, 0, 1), (1, 1, 2)), 1)
    written = [stage.fresh_rows()]
    assert plain(stage.on_results(rows((2, 1, 4)), 2)) == [(6, 2)]
    written.append(stage.fresh_rows())
    restored.restore(pa.concat_tables(written), stage.counters())
    assert restored.tuples == 1
    assert plain(restored.on_results(rows((3, 1, 8), (4, 1, 16)), 4)) == [(24, 4)]
