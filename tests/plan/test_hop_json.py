"""Written plans of hopping queries are read back as they were, whatever the query and the plan."""

import datetime as dt
import decimal
import json
import random
from dataclasses import replace

import pyarrow as pa
import pytest
from engine.test_hop_recovery import draw_asked, plan_of, ticking

from midstream.local.aggregates import user_aggregate
from midstream.local.hop_plans import migrated
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import PlanError
from midstream.plan.algebra import scans
from midstream.plan.expr import Call, Case, Cast, Column, Expr, Literal
from midstream.plan.expr_json import read_expr, write_expr
from midstream.plan.hop_json import read_plan, write_plan
from midstream.plan.hopping import HopPlan, HopQuery
from oracle.hop_generate import KINDS, draw_case
from seeds import seeds


def there_and_back(plan: HopPlan, query: HopQuery) -> HopPlan:
    return read_plan(json.loads(json.dumps(write_plan(plan))), query)


@pytest.mark.parametrize("seed", seeds(0, 300, quick=18))
def test_a_drawn_plan_is_read_as_it_was_written(seed: int) -> None:
    rnd = random.Random(70_000 + seed)
    case = draw_case(rnd, KINDS[seed % len(KINDS)])
    first = plan_of(case.sql, case.streams, "as-written")
    for shape in ("optimal", "push-down", "as-written"):
        asked = draw_asked(rnd, case.hop_us, hops=True).split(maxsplit=1)[1]
        plan = migrated(first, MigrationRequest(f"{shape} {asked}"))
        found = there_and_back(plan, first.query)
        assert found == plan, case
        assert found.partitioning == plan.partitioning
        assert [s.source for s in scans(found.root)] == [s.source for s in scans(plan.root)]


LITERALS: list[tuple[object, pa.DataType]] = [
    (None, pa.int64()), (True, pa.bool_()), (2**62, pa.int64()), (-0.0, pa.float64()), (1e-320, pa.float64()),
    (float("inf"), pa.float64()), ("it's ü", pa.string()), (decimal.Decimal("-1.50"), pa.decimal128(5, 2)),
    (dt.date(2020, 2, 29), pa.date32()), (dt.datetime(1, 1, 1, 0, 0, 0, 7), pa.timestamp("us")),
    (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), pa.timestamp("us", "UTC")),
    (dt.timedelta(days=-3, microseconds=5), pa.duration("us")), (3, pa.float64()),
]  # fmt: skip


@pytest.mark.parametrize(("value", "type_"), LITERALS)
def test_a_literal_keeps_value_and_type(value: object, type_: pa.DataType) -> None:
    found = read_expr(json.loads(json.dumps(write_expr(Literal(value, type_)))))
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
    assert read_expr(json.loads(json.dumps(write_expr(expr)))) == expr


def test_an_aggregate_of_the_user_comes_from_the_query() -> None:
    own = user_aggregate("last_one", lambda values: values[-1].as_py(), "BIGINT")
    sql = "SELECT k % 2 AS g, last_one(k) AS x FROM a [RANGE 3 SECONDS] GROUP BY k % 2 HOP BY 2 SECONDS"
    plan = plan_of(sql, {"a": ticking(3)}, aggregates={"last_one": own})
    assert there_and_back(plan, plan.query) == plan
    other = plan_of(sql.replace("last_one", "max"), {"a": ticking(3)})
    with pytest.raises(PlanError, match="the query has no aggregate LAST_ONE"):
        there_and_back(plan, other.query)


def test_a_plan_of_another_query_is_refused() -> None:
    tables = {"a": ticking(3), "b": ticking(3)}
    sql = "SELECT a.k FROM a [RANGE 3 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k HOP BY 1 SECOND"
    plan = plan_of(sql, tables)
    for other in ("b [RANGE 2 SECONDS]", "a [RANGE 2 SECONDS] b"):
        query = plan_of(sql.replace("b [RANGE 3 SECONDS]", other), tables).query
        with pytest.raises(PlanError, match="the query does not read what 'b' does"):
            there_and_back(plan, query)
    written = write_plan(plan)
    for broken in ({}, {**written, "root": {"split": 1}}, {**written, "modes": ["DIDO"]}, {**written, "hop_us": 0}):
        with pytest.raises(PlanError):
            read_plan(broken, plan.query)
    assert there_and_back(replace(plan, query=replace(plan.query, hop_us=7)), plan.query).query.hop_us == 7
