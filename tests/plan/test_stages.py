"""Plans with stages: how their work is split, what they print, what they refuse to be."""

from dataclasses import replace

import pyarrow as pa
import pytest
from plan.test_plan_values import CATALOG, plan

from midstream.lang.sql import parse_query
from midstream.model.errors import PlanError
from midstream.plan.aggregates import Aggregate
from midstream.plan.algebra import Distinct, Group, Project, Select, Windowed
from midstream.plan.expr import Column
from midstream.plan.query import hop_query, row_query
from midstream.plan.sql_text import block_sql
from midstream.plan.window import RowsInstances

JOIN = "FROM a [RANGE 1 s], b [RANGE 1 s], c [RANGE 1 s] WHERE a.k = b.k AND b.j = c.j"
TIES = "[RANGE 3 SECONDS SLIDE 2 SECONDS] leave at the same time, and a window over them sees them in order"
BY_KEY = "SELECT k AS key, SUM(v) AS total FROM a [RANGE 3 s SLIDE 2 s] WHERE v > 1 GROUP BY k HAVING COUNT(*) > 1"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT SUM(v) FROM a [ROWS 3 SLIDE 2]",
         "one bucket: the window [ROWS 3 SLIDE 2] of a counts all rows together"),
        ("SELECT SUM(v) FROM a [ROWS 3 SLIDE 2] GROUP BY k",
         "one bucket: the window [ROWS 3 SLIDE 2] of a counts all rows together"),
        ("SELECT SUM(v) FROM a [ROWS 3 SLIDE 2 PARTITION BY k] GROUP BY s", "hash a.k"),
        ("SELECT SUM(v) FROM a [ROWS 3 SLIDE 2 PARTITION BY s, k]", "hash a.s"),
        ("SELECT SUM(v) FROM a [RANGE 3 s SLIDE 2 s] x GROUP BY k", "hash x.k"),
        ("SELECT SUM(v) FROM a [RANGE 3 s SLIDE 2 s]",
         "one bucket: the aggregates of the window [RANGE 3 SECONDS SLIDE 2 SECONDS] of a are not grouped by a column"),
        ("SELECT SUM(v) FROM a [RANGE 3 s SLIDE 2 s] GROUP BY k + 1",
         "one bucket: the aggregates of the window [RANGE 3 SECONDS SLIDE 2 SECONDS] of a are not grouped by a column"),
        ("SELECT SUM(v) FROM a [START WHEN v > 1 END WHEN v < 1] GROUP BY k",
         "one bucket: the window [START WHEN (a.v > 1) END WHEN (a.v < 1)] of a opens and closes on any row"),
        ("SELECT SUM(v) FROM (SELECT k % 7 AS b, v FROM a WHERE v > 1) [ROWS 5 SLIDE 1 PARTITION BY b]",
         "hash (a.k % 7)"),
        # Windows over windows.
        (f"SELECT MAX(total) FROM ({BY_KEY}) [ROWS 5 SLIDE 1 PARTITION BY key]", f"one bucket: the groups of {TIES}"),
        (f"SELECT key, MAX(total) FROM ({BY_KEY}) [RANGE 5 s SLIDE 5 s] GROUP BY key",
         f"one bucket: the groups of {TIES}"),
        ("SELECT k, MAX(t) FROM (SELECT k, SUM(v) AS t FROM a [ROWS 3 SLIDE 1 PARTITION BY k] GROUP BY k) "
         "[RANGE 5 s SLIDE 5 s] GROUP BY k", "hash a.k"),
        (f"SELECT MAX(total) FROM ({BY_KEY}) [RANGE 5 s SLIDE 5 s]",
         "one bucket: the aggregates of the window [RANGE 5 SECONDS SLIDE 5 SECONDS] of t are not grouped by a column"),
        (f"SELECT MAX(total) FROM ({BY_KEY}) [ROWS 5 SLIDE 1 PARTITION BY total]",
         "one bucket: no column goes through all windows as a key that each of them keeps apart"),
        ("SELECT COUNT(*) FROM (SELECT j, k FROM a [RANGE 1 s SLIDE 1 s] GROUP BY j, k) [ROWS 5 SLIDE 1 PARTITION BY k]"
         " t",
         "one bucket: the groups of [RANGE 1 SECOND SLIDE 1 SECOND] leave at the same time, and a window over them "
         "sees them in order"),
        ("SELECT COUNT(*) FROM (SELECT j FROM a [ROWS 1 SLIDE 1 PARTITION BY k] GROUP BY j) [RANGE 1 s SLIDE 1 s] "
         "GROUP BY j",
         "one bucket: no column goes through all windows as a key that each of them keeps apart"),
        # Windows over joins.
        (f"SELECT SUM(v) FROM (SELECT b.k, a.v {JOIN}) [ROWS 5 SLIDE 1 PARTITION BY k]",
         "one bucket: a row of c brings results in every bucket, and a window sees them in order"),
        (f"SELECT SUM(v) FROM (SELECT b.j, a.v {JOIN}) [RANGE 1 s SLIDE 1 s] GROUP BY j",
         "one bucket: a row of a brings results in every bucket, and a window sees them in order"),
        ("SELECT SUM(v) FROM (SELECT b.k, a.v FROM a [RANGE 1 s], b [RANGE 1 s] WHERE a.k = b.k) "
         "[RANGE 1 s SLIDE 1 s] GROUP BY k", "hash a.k = b.k"),
        (f"SELECT SUM(v) FROM (SELECT b.s, a.v {JOIN}) [ROWS 5 SLIDE 1 PARTITION BY s]",
         "one bucket: what the window [ROWS 5 SLIDE 1 PARTITION BY s] keeps apart, s, is no join key"),
        ("SELECT SUM(v) FROM (SELECT a.k, a.v FROM a [ROWS 5], b [RANGE 1 s] WHERE a.k = b.k)"
         " [ROWS 5 SLIDE 1 PARTITION BY k]",
         "one bucket: the window [ROWS 5] of a counts rows of the whole stream"),
    ],
)  # fmt: skip
def test_partitioning(sql: str, expected: str) -> None:
    assert str(plan(sql).partitioning) == expected


def test_hashing_is_by_columns_of_the_stream() -> None:
    found = plan("SELECT SUM(v) FROM (SELECT j AS b, v FROM a x) [ROWS 5 SLIDE 1 PARTITION BY b] y").partitioning
    assert found.hashed == (("x", Column("x", "j", pa.int32())),)
    assert found.type == pa.int32()


def test_explain() -> None:
    sql = f"SELECT MAX(total) AS m, 1 + COUNT(*) AS c FROM ({BY_KEY}) [ROWS 5 SLIDE 1 PARTITION BY key]"
    assert plan(sql).explain() == (
        "Output\n"
        "  m: MAX(t.total)\n"
        "  c: (1 + COUNT(*))\n"
        "Plan a\n"
        "  scan a\n"
        "Stages\n"
        "  a [RANGE 3 SECONDS SLIDE 2 SECONDS] where (a.v > 1) group by a.k"
        " aggregate SUM(a.v), COUNT(*) having (COUNT(*) > 1)\n"
        "  t [ROWS 5 SLIDE 1 PARTITION BY key] aggregate MAX(t.total), COUNT(*)\n"
        "Partitioning\n"
        f"  one bucket: the groups of {TIES}"
    )


@pytest.mark.parametrize(
    "other",
    [
        BY_KEY.replace("3 s", "4 s"),
        BY_KEY.replace("total", "t"),
        f"SELECT COUNT(*) FROM ({BY_KEY}) [ROWS 1 SLIDE 1]",
        "SELECT k, v FROM a",
    ],
)
def test_another_meaning_is_another_query(other: str) -> None:
    assert plan(BY_KEY).query != plan(other).query


SUM = "SELECT k, SUM(v) AS total FROM a [ROWS 3 SLIDE 2] GROUP BY k"
K, V = Column("a", "k", pa.int64()), Column("a", "v", pa.int64())
KEY = Column("#1", "key0", pa.int64())


def levels() -> tuple[Project, Group, Windowed]:
    top = parse_query(SUM, CATALOG).root
    assert isinstance(top, Project)
    assert isinstance(top.child, Group)
    assert isinstance(top.child.child, Windowed)
    return top, top.child, top.child.child


def test_what_does_not_fit_on_the_level_below_cannot_be_built() -> None:
    top, group, windowed = levels()
    with pytest.raises(PlanError, match=r"a condition is true or false, but a\.v is int64"):
        Select(windowed, (V,))
    with pytest.raises(PlanError, match=r"there is no column a\.s here"):
        replace(group, keys=(Column("a", "s", pa.string()),))
    with pytest.raises(PlanError, match=r"there is no column a\.v here"):
        replace(group, aggregates=(Aggregate("sum", Column("a", "v", pa.int32()), pa.int64()),))
    with pytest.raises(PlanError, match=r"there is no column a\.v here"):
        replace(top, outputs=((Column("#2", "x", pa.int64()), V),))
    with pytest.raises(PlanError, match=r"there is no column a\.s here"):
        replace(windowed, window=RowsInstances(3, 2, (Column("a", "s", pa.string()),)))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "a query selects at least one column"),
        (("_time",), "output column '_time' is reserved; give it another alias"),
        (("x", "x"), "output column 'x' appears twice; give one of them an alias"),
    ],
)
def test_names_that_an_output_cannot_have(names: tuple[str, ...], message: str) -> None:
    root = replace(levels()[0], outputs=tuple((Column("#2", name, pa.int64()), KEY) for name in names))
    with pytest.raises(PlanError) as error:
        row_query(root)
    assert str(error.value) == message


def test_trees_that_no_operators_answer_are_refused_by_name() -> None:
    top, group, _ = levels()
    both = parse_query("SELECT k, v FROM a [ROWS 1] EXCEPT SELECT k, v FROM b [ROWS 1]", CATALOG).root
    columns = both.columns
    over = Group(Windowed(both, RowsInstances(3, 2)), "#9", (columns[0],), ())
    with pytest.raises(PlanError, match="a window over UNION, INTERSECT or EXCEPT is not supported yet"):
        row_query(Project(over, ((Column("#10", "k", pa.int64()), over.columns[0]),)))
    with pytest.raises(PlanError, match="DISTINCT is not supported yet"):
        row_query(Distinct(top))
    with pytest.raises(PlanError, match="GROUP is not supported yet"):
        row_query(group)
    with pytest.raises(PlanError, match="a window that slides does not go with HOP BY"):
        hop_query(top, 5)


def test_the_parts_of_a_tree() -> None:
    parts = parse_query(SUM, CATALOG).parts
    assert block_sql(parts.first) == "SELECT a.k, a.v\nFROM a"
    assert [str(s) for s in parts.stages] == ["a [ROWS 3 SLIDE 2] group by a.k aggregate SUM(a.v)"]
