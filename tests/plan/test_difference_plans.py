"""Plans of differences: an order that keeps the first stream first, explained, compared and never partitioned."""

import pyarrow as pa
import pytest

from midstream.lang.sql import parse_query
from midstream.local.replay import make_plan
from midstream.model.errors import PlanError
from midstream.model.stream import StreamSchema
from midstream.plan.algebra import Except
from midstream.plan.nodes import steps
from midstream.plan.plan import Plan
from midstream.plan.query import Query, row_query

COLUMNS = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("s", pa.string())])
CATALOG = [StreamSchema(name, COLUMNS, "ts") for name in "abcd"]
CHAIN = " EXCEPT ".join(f"SELECT k FROM {name} [RANGE 1 s]" for name in "abcd")


def plan(sql: str, tree: str | None = None, join: str = "auto") -> Plan:
    return make_plan(parse_query(sql, CATALOG), tree, join)


def test_the_written_order_is_the_first_one() -> None:
    assert str(plan(CHAIN)) == "(((a b) c) d)"
    assert str(plan(CHAIN, "(((a d) b) c)")) == "(((a d) b) c)"


@pytest.mark.parametrize("tree", ["(((b a) c) d)", "((a b) (c d))", "(a (b (c d)))", "(d ((a b) c))"])
def test_any_other_tree_is_refused(tree: str) -> None:
    with pytest.raises(PlanError) as error:
        plan(CHAIN, tree)
    assert str(error.value) == (
        f"plan '{tree}' is no order of this difference: it begins with 'a' and takes the others away one after the "
        "other, such as (((a b) c) d)"
    )


def test_leaves_are_checked_as_ever() -> None:
    with pytest.raises(PlanError, match="leaves out 'd'"):
        plan(CHAIN, "((a b) c)")


@pytest.mark.parametrize("join", ["hash", "nested-loop"])
def test_a_difference_has_no_join_method(join: str) -> None:
    with pytest.raises(PlanError, match=f'join = "{join}" is for joins, and a difference has none'):
        plan(CHAIN, None, join)


def test_explain_shows_one_difference_a_line() -> None:
    sql = (
        "SELECT k AS key, upper(s) FROM a [RANGE 1 s] x EXCEPT SELECT k, s FROM b [ROWS 5] WHERE k > 3 AND s LIKE 'p%'"
    )
    sql += " EXCEPT SELECT k, s FROM a [ROWS 2 PARTITION BY s]"
    assert plan(sql, "((x a) b)").explain().splitlines() == [
        "Output",
        "  key: x.k",
        "  UPPER(s): UPPER(x.s)",
        "  _sign: +1 when a row comes into the difference, -1 when it goes",
        "Plan ((x a) b)",
        "  difference with (b.k, b.s)",
        "  ├─ difference with (a.k, a.s)",
        "  │  ├─ scan a [RANGE 1 SECOND] x",
        "  │  └─ scan a [ROWS 2 PARTITION BY s]",
        "  └─ scan b [ROWS 5] where (b.k > 3) AND (b.s LIKE 'p%')",
        "Windows",
        "  x: a [RANGE 1 SECOND]",
        "  b: b [ROWS 5]",
        "  a: a [ROWS 2 PARTITION BY s]",
        "Partitioning",
        "  one bucket: the changes of a difference leave in the order of events",
    ]


def test_two_orders_are_plans_of_one_query() -> None:
    first, second = plan(CHAIN), plan(CHAIN, "(((a c) b) d)")
    assert first != second
    assert first.query == second.query
    assert [frozenset(step.aliases) for step in steps(second.layout)] == [frozenset("ac"), frozenset("abc"),
                                                                         frozenset("abcd")]  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        CHAIN + " WHERE d.k > 3",
        CHAIN.replace("k FROM b", "k + 1 FROM b"),
        CHAIN.replace("k FROM a", "k + 1 AS k FROM a"),
        CHAIN.replace("a [RANGE 1 s]", "a [ROWS 3]"),
        "SELECT a.k FROM a [RANGE 1 s], b [RANGE 1 s], c [RANGE 1 s], d [RANGE 1 s]",
    ],
)
def test_another_meaning_is_another_query(other: str) -> None:
    assert plan(CHAIN).query != plan(other).query


def test_a_difference_that_is_wrong_cannot_be_built() -> None:
    root = parse_query(CHAIN, CATALOG).root
    strings = parse_query("SELECT s FROM b [ROWS 1]", CATALOG).root
    alone = parse_query("SELECT k FROM b", CATALOG).root
    with pytest.raises(PlanError, match="the sides of EXCEPT have columns of different types"):
        Except(root, strings)
    with pytest.raises(PlanError, match="stream 'b' needs a window; write for example b "):
        row_query(Except(parse_query("SELECT k FROM a [ROWS 1]", CATALOG).root, alone))
    with pytest.raises(PlanError, match="alias 'd' stands for two streams"):
        row_query(Except(root, root.right))
    with pytest.raises(PlanError, match="does not answer by row with results"):
        Query(root)
