"""Plans are values: they check themselves, print themselves, compare themselves and know how to be partitioned."""

import pyarrow as pa
import pytest

from midstream.lang.sql import parse_query
from midstream.local.replay import make_plan
from midstream.model.errors import PlanError
from midstream.model.stream import StreamSchema
from midstream.plan.plan import Plan
from midstream.plan.tree import leaves

COLUMNS = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("j", pa.int32()), ("s", pa.string()), ("v", pa.int64())])
CATALOG = [StreamSchema(name, COLUMNS, "ts") for name in "abcd"]
FROM = "SELECT a.v FROM a [RANGE 1 s], b [RANGE 1 s], c [RANGE 1 s], d [RANGE 1 s]"
CHAIN = f"{FROM} WHERE a.k = b.k AND b.k = c.k AND c.k = d.k"


def plan(sql: str, tree: str | None = None, join: str = "auto") -> Plan:
    return make_plan(parse_query(sql, CATALOG), tree, join)


def test_equal_text_gives_equal_plans() -> None:
    assert plan(CHAIN) == plan(CHAIN.lower().replace("select", "SELECT"))
    assert hash(plan(CHAIN)) == hash(plan(CHAIN))


@pytest.mark.parametrize(
    ("tree", "join"), [("((a b) (c d))", "auto"), ("(((b a) c) d)", "auto"), (None, "nested-loop")]
)
def test_another_plan_of_the_same_query_is_another_value(tree: str | None, join: str) -> None:
    other = plan(CHAIN, tree, join)
    assert other != plan(CHAIN)
    assert other.query == plan(CHAIN).query
    assert str(other) == (tree or "(((a b) c) d)")


@pytest.mark.parametrize(
    "other",
    [
        CHAIN.replace("b [RANGE 1 s]", "b [RANGE 2 s]"),
        CHAIN + " AND a.v > 3",
        CHAIN.replace(" AND c.k = d.k", ""),
        CHAIN.replace("SELECT a.v", "SELECT b.v"),
        CHAIN.replace("d [RANGE 1 s]", "a [RANGE 1 s] d"),
    ],
)
def test_another_meaning_is_another_query(other: str) -> None:
    assert plan(CHAIN).query != plan(other).query


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (CHAIN, "hash a.k = b.k = c.k = d.k"),
        (
            "SELECT a.v FROM a [RANGE 1 s], b [RANGE 1 s], c [RANGE 1 s] WHERE a.k = b.k AND b.j = c.j",
            "hash a.k = b.k; send c to every bucket",
        ),
        ("SELECT a.v FROM a [RANGE 1 s], b [RANGE 1 s] WHERE a.v < b.v", "deal out a by row; send b to every bucket"),
        (
            "SELECT a.v FROM a [ROWS 5], b [RANGE 1 s] WHERE a.k = b.k",
            "one bucket: the window [ROWS 5] of a counts rows of the whole stream",
        ),
        ("SELECT a.v FROM a [ROWS 5 PARTITION BY k], b [RANGE 1 s] WHERE a.k = b.k", "hash a.k = b.k"),
        (
            "SELECT a.v FROM a [ROWS 5 PARTITION BY j], b [RANGE 1 s] WHERE a.k = b.k",
            "one bucket: no join key keeps the partitions of its ROWS windows together",
        ),
    ],
)
def test_partitioning(sql: str, expected: str) -> None:
    assert str(plan(sql).partitioning) == expected


def test_the_starting_order_avoids_products() -> None:
    sql = f"{FROM} WHERE a.k = d.k AND d.j = b.j AND b.v < c.v"
    assert list(leaves(plan(sql).tree)) == ["a", "d", "b", "c"]


def test_equalities_over_integers_of_any_width_are_one_class() -> None:
    sql = "SELECT a.v FROM a [RANGE 1 s], b [RANGE 1 s], c [RANGE 1 s] WHERE a.j = b.j AND b.j = c.k"
    assert "hash join on a.j = c.k" in plan(sql, "((a c) b)").explain()


def test_a_plan_that_does_not_fit_its_query_cannot_be_built() -> None:
    query = parse_query(CHAIN, CATALOG)
    with pytest.raises(PlanError, match="leaves out 'd'"):
        Plan(query, make_plan(parse_query(CHAIN.split(", d [")[0] + " WHERE a.k = b.k", CATALOG)).root)
