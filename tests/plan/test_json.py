"""Written plans are read back as they were, whatever the query and the plan."""

import datetime as dt
import decimal
import json
import random
from dataclasses import replace

import pyarrow as pa
import pytest
from engine.test_hop_recovery import draw_asked, plan_of, ticking
from lang.streams import CATALOG

from midstream.engine.planning.plans import migrated
from midstream.lang.sql import parse_query
from midstream.local.aggregates import user_aggregate
from midstream.local.replay import make_plan
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import PlanError
from midstream.model.stream import StreamSchema
from midstream.plan.aggregates import UserAggregate
from midstream.plan.expr import Call, Case, Cast, Column, Expr, Literal
from midstream.plan.json import FORMAT, Reader, own_aggregates, read_plan, write, write_plan
from midstream.plan.plan import Plan
from oracle.differences import draw_difference, draw_order
from oracle.generate import draw_case
from oracle.hop_generate import KINDS
from oracle.hop_generate import draw_case as draw_hop_case
from seeds import seeds


def there_and_back(plan: Plan, aggregates: dict[str, UserAggregate] | None = None) -> Plan:
    return read_plan(json.loads(json.dumps(write_plan(plan))), aggregates)


def assert_same(plan: Plan, aggregates: dict[str, UserAggregate] | None = None) -> None:
    found = there_and_back(plan, aggregates)
    assert found == plan
    assert str(found) == str(plan)
    assert found.partitioning == plan.partitioning
    assert str(found.query) == str(plan.query)
    assert found.query.output_schema == plan.query.output_schema


def catalog_of(streams: dict[str, pa.Table]) -> list[StreamSchema]:
    return [StreamSchema(name, table.schema, "ts") for name, table in streams.items()]


@pytest.mark.parametrize("seed", seeds(0, 300, quick=18))
def test_a_hopping_plan(seed: int) -> None:
    rnd = random.Random(70_000 + seed)
    case = draw_hop_case(rnd, KINDS[seed % len(KINDS)])
    first = plan_of(case.sql, case.streams, "as-written")
    for shape in ("optimal", "push-down", "as-written"):
        asked = draw_asked(rnd, case.hop_us, hops=True).split(maxsplit=1)[1]
        assert_same(migrated(first, MigrationRequest(f"{shape} {asked}")))


@pytest.mark.parametrize("seed", seeds(0, 200, quick=12))
def test_a_plan_of_joins(seed: int) -> None:
    case = draw_case(random.Random(71_000 + seed))
    assert_same(make_plan(parse_query(case.sql, catalog_of(case.streams)), case.tree, case.join))


@pytest.mark.parametrize("seed", seeds(0, 100, quick=12))
def test_a_plan_of_differences(seed: int) -> None:
    rnd = random.Random(72_000 + seed)
    case = draw_difference(rnd)
    query = parse_query(case.sql, catalog_of(case.streams))
    assert_same(make_plan(query, draw_order(rnd, case.sides)))


WINDOWS = (
    "[ROWS 3 SLIDE 2]", "[ROWS 3 SLIDE 1 PARTITION BY k]", "[RANGE 3 SECONDS SLIDE 2 SECONDS]",
    "[START WHEN k > 1 END WHEN k < 3 AND k IS NOT NULL]",
)  # fmt: skip
BELOW = (
    "orders", "(SELECT k, x FROM orders WHERE x > 1)",
    "(SELECT k, SUM(x) AS x FROM orders [ROWS 2 SLIDE 1] GROUP BY k)",
    "(SELECT o.k, x FROM orders [RANGE 5 SECONDS] o JOIN prices [ROWS 4 PARTITION BY k] p ON o.k = p.k)",
)  # fmt: skip


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("below", BELOW)
def test_a_plan_of_windows_over_something(window: str, below: str) -> None:
    own = {"last_one": user_aggregate("last_one", lambda values: values[-1].as_py(), "BIGINT")}
    outputs = "k + 1 AS k, COUNT(*), LAST_ONE(x) AS y, AVG(DISTINCT x)"
    sql = f"SELECT {outputs} FROM {below} {window} u WHERE x < 9 GROUP BY k HAVING COUNT(*) > 1"
    assert_same(make_plan(parse_query(sql, CATALOG, own)), own)


LITERALS: list[tuple[object, pa.DataType]] = [
    (None, pa.int64()), (True, pa.bool_()), (2**62, pa.int64()), (-0.0, pa.float64()), (1e-320, pa.float64()),
    (float("inf"), pa.float64()), ("it's ü", pa.string()), (decimal.Decimal("-1.50"), pa.decimal128(5, 2)),
    (dt.date(2020, 2, 29), pa.date32()), (dt.datetime(1, 1, 1, 0, 0, 0, 7), pa.timestamp("us")),
    (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), pa.timestamp("us", "UTC")),
    (dt.timedelta(days=-3, microseconds=5), pa.duration("us")), (3, pa.float64()),
]  # fmt: skip


@pytest.mark.parametrize(("value", "type_"), LITERALS)
def test_a_literal_keeps_value_and_type(value: object, type_: pa.DataType) -> None:
    found = Reader().read(json.loads(json.dumps(write(Literal(value, type_)))))
    assert found == Literal(value, type_)
    assert type(found.value) is type(value)
    assert repr(found.value) == repr(value)


def test_every_kind_of_expression_is_read_back() -> None:
    k = Column("my a", "order", pa.int32())
    expr: Expr = Case(
        ((Call("<", (k, Literal(5, pa.int32())), pa.bool_()), Cast(k, pa.int64())),),
        Literal(None, pa.int64()),
        pa.int64(),
    )
    assert Reader().read(json.loads(json.dumps(write(expr)))) == expr


def test_an_aggregate_of_the_user_is_known_by_its_name() -> None:
    own = user_aggregate("last_one", lambda values: values[-1].as_py(), "BIGINT")
    sql = "SELECT k % 2 AS g, last_one(k) AS x FROM a [RANGE 3 SECONDS] GROUP BY k % 2 HOP BY 2 SECONDS"
    plan = plan_of(sql, {"a": ticking(3)}, aggregates={"last_one": own})
    assert own_aggregates(plan.root) == {"last_one": own}
    assert there_and_back(plan, own_aggregates(plan.root)) == plan
    with pytest.raises(PlanError, match="the plan calls LAST_ONE, an aggregate that is not registered"):
        there_and_back(plan)


def test_what_is_no_plan_is_refused() -> None:
    sql = "SELECT a.k FROM a [RANGE 3 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k HOP BY 1 SECOND"
    written = write_plan(plan_of(sql, {"a": ticking(3), "b": ticking(3)}))
    plan = written["plan"]
    query = plan["query"]
    for broken in (
        {}, {**plan, "root": {"is": "Split", "a": 1}}, {**plan, "root": 5}, {**plan, "modes": ["DIDO"]}, plan["root"],
        {**plan, "query": {**query, "hop_us": 0}}, {**plan, "query": {**query, "when": "row"}}, {**plan, "more": 1},
    ):  # fmt: skip
        with pytest.raises(PlanError):
            read_plan({**written, "plan": broken})
    for broken in ({}, {**written, "streams": {}}):
        with pytest.raises(PlanError, match="this is no plan"):
            read_plan(broken)


def test_a_plan_of_another_query_is_refused() -> None:
    tables = {"a": ticking(3), "b": ticking(3)}
    sql = "SELECT a.k FROM a [RANGE 3 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k HOP BY 1 SECOND"
    plan = plan_of(sql, tables)
    for other in ("b [RANGE 2 SECONDS]", "a [RANGE 2 SECONDS] b"):
        query = plan_of(sql.replace("b [RANGE 3 SECONDS]", other), tables).query
        with pytest.raises(PlanError, match="the query does not read what 'b' does"):
            replace(plan, query=query)


def test_what_is_written_stays_what_it_is() -> None:
    """A plan that was written by an earlier version is read, or its format has another number."""
    sql = "SELECT k + 1 AS j FROM stock [ROWS 2 PARTITION BY k] WHERE qty > 2.5"
    wide, key = {"type": "int64"}, {"is": "Column", "alias": "stock", "name": "k", "type": {"type": "int32"}}
    qty = {"is": "Column", "alias": "stock", "name": "qty", "type": {"type": "int64"}}
    window = {"is": "RowsWindow", "count": 2, "partition_by": [key]}
    source = {"is": "Source", "alias": "stock", "stream": {"stream": "stock"}, "position": 2, "window": window}
    number = {"is": "Cast", "arg": qty, "type": {"type": "double"}}
    limit = {"is": "Literal", "value": {"float": "2.5"}, "type": {"type": "double"}}
    condition = {"is": "Call", "function": ">", "args": [number, limit], "type": {"type": "bool"}}
    one, wider = {"is": "Literal", "value": 1, "type": wide}, {"is": "Cast", "arg": key, "type": wide}
    computed = {"is": "Call", "function": "+", "args": [wider, one], "type": wide}
    select = {
        "is": "Select", "child": {"is": "Scan", "source": source, "columns": [key, qty]}, "conjuncts": [condition],
    }  # fmt: skip
    output = [{"is": "Column", "alias": "#1", "name": "j", "type": {"type": "int64"}}, computed]
    root = {"is": "Project", "child": select, "outputs": [output]}
    query = {"is": "Query", "root": root, "when": "row", "emit": "results", "hop_us": None, "text": sql}
    assert write_plan(make_plan(parse_query(sql, CATALOG))) == {
        "format": 1,
        "streams": {"stock": {"time": "ts", "columns": [["ts", "int64", True], ["k", "int32", True],
                                                        ["qty", "int64", True]]}},
        "plan": {"is": "Plan", "query": query, "root": root, "modes": [], "working": [], "method": "auto"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "do"),
    [
        (FORMAT + 1, "read it with a newer Midstream"),
        (FORMAT - 1, "start the query anew, or read it with the Midstream it is from"),
    ],
)
def test_another_format_is_refused_with_what_to_do(found: int, do: str) -> None:
    written = write_plan(make_plan(parse_query("SELECT k FROM stock", CATALOG)))
    with pytest.raises(PlanError) as error:
        read_plan({**written, "format": found})
    told = f"this plan is written in format {found}, and this Midstream reads format {FORMAT}: {do}"
    assert str(error.value) == told
