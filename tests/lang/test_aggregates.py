"""What SQL text with aggregates means: windows of instances, stages, types, and every way to say it wrong."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lang.streams import CATALOG, STOCK

from midstream.lang.bind.clauses import ADVICE
from midstream.lang.sql import parse_query
from midstream.model.errors import PlanError, SqlError
from midstream.plan.aggregates import Aggregate, UserAggregate, check_aggregate_name
from midstream.plan.expr import Column
from midstream.plan.parts import Output, Stage
from midstream.plan.query import Query
from midstream.plan.source import Source
from midstream.plan.window import Instances, PredicateWindow, RangeInstances, RowsInstances

SECOND = 1_000_000
OWN = {"P90": UserAggregate("p90", lambda values: values[0].as_py(), pa.float64())}
QTY = Column("stock", "qty", pa.int64())


def parse(text: str) -> Query:
    query = parse_query(text, CATALOG, OWN)
    assert parse_query(str(query), CATALOG, OWN) == query, str(query)
    return query


def stage(text: str) -> Stage:
    return parse(text).parts.stages[-1]


def test_a_stage_stands_on_the_columns_that_it_reads() -> None:
    query = parse("SELECT SUM(qty) FROM stock [ROWS 3 SLIDE 2] WHERE k > 0")
    assert query.sources == (Source("stock", STOCK, 2),)
    assert query.parts.first.conjuncts == ()
    assert query.parts.first.outputs == (Output("k", Column("stock", "k", pa.int32())), Output("qty", QTY))
    (found,) = query.parts.stages
    assert (found.alias, found.window, found.keys, found.having) == ("stock", RowsInstances(3, 2), (), ())
    assert [str(c) for c in found.conjuncts] == ["(stock.k > 0)"]
    assert found.aggregates == (Aggregate("sum", QTY, pa.int64()),)
    assert found.outputs == (Output("SUM(qty)", Column("#1", "agg0", pa.int64())),)
    assert query.schema == pa.schema([("SUM(qty)", pa.int64())])


def test_a_stage_that_reads_no_column_stands_on_time() -> None:
    assert parse("SELECT COUNT(*) AS n FROM stock [ROWS 3 SLIDE 2] a").parts.first.schema.names == ["ts"]


HOPS = "; a query that hops can do it: write HOP BY ... at the end"
PLAIN = "plain windows such as [RANGE 10 SECONDS], and HOP BY ... at the end"


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("[ROWS 3 SLIDE 2]", RowsInstances(3, 2)),
        ("[rows 3 slide 3]", RowsInstances(3, 3)),
        ("[ROWS 3 SLIDE 2 PARTITION BY k, stock.qty]",
         RowsInstances(3, 2, (Column("stock", "k", pa.int32()), QTY))),
        ("[ROWS 3 PARTITION BY K SLIDE 2]", RowsInstances(3, 2, (Column("stock", "k", pa.int32()),))),
        ("[RANGE 10 SECONDS SLIDE 5 SECONDS]", RangeInstances(10 * SECOND, 5 * SECOND)),
        ("[RANGE '1 minute' SLIDE INTERVAL '1.5' SECOND]", RangeInstances(60 * SECOND, 3 * SECOND // 2)),
    ],
)  # fmt: skip
def test_windows_that_slide(window: str, expected: Instances) -> None:
    assert stage(f"SELECT SUM(qty) FROM stock {window}").window == expected


@pytest.mark.parametrize(
    ("window", "start", "end"),
    [
        ("[START WHEN qty > 5 END WHEN qty < 2]", "(stock.qty > 5)", "(stock.qty < 2)"),
        ("[START WHEN TRUE END WHEN stock.k = 1 OR qty IN (1, 2)]", "TRUE",
         "((stock.k = 1) OR (stock.qty IN (1, 2)))"),
        ("[START WHEN CASE WHEN k = 1 THEN CASE k WHEN 1 THEN TRUE END WHEN k = 2 THEN FALSE END END WHEN NULL]",
         None, "NULL"),
    ],
)  # fmt: skip
def test_predicate_windows(window: str, start: str | None, end: str) -> None:
    found = stage(f"SELECT COUNT(*) FROM stock {window}").window
    assert isinstance(found, PredicateWindow)
    assert start is None or str(found.start) == start
    assert str(found.end) == end


@pytest.mark.parametrize(
    ("call", "text", "given", "gives"),
    [
        ("COUNT(*)", "COUNT(*)", None, pa.int64()),
        ("count(s)", "COUNT(orders.s)", pa.string(), pa.int64()),
        ("COUNT(DISTINCT s)", "COUNT(DISTINCT orders.s)", pa.string(), pa.int64()),
        ("SUM(x)", "SUM(orders.x)", pa.int32(), pa.int64()),
        ("SUM(x * 1.5)", "SUM((CAST(orders.x AS DOUBLE) * 1.5))", pa.float64(), pa.float64()),
        ("SUM(1.5)", "SUM(1.5)", pa.float64(), pa.float64()),
        ("SUM(NULL)", "SUM(NULL)", pa.int64(), pa.int64()),
        ("SUM(DISTINCT amount)", "SUM(DISTINCT orders.amount)", pa.decimal128(10, 2), pa.decimal128(38, 2)),
        ("AVG(x)", "AVG(orders.x)", pa.int32(), pa.float64()),
        ("mean(amount)", "AVG(CAST(orders.amount AS DOUBLE))", pa.float64(), pa.float64()),
        ("STDDEV(amount)", "STDDEV(CAST(orders.amount AS DOUBLE))", pa.float64(), pa.float64()),
        ("stddev_samp(x)", "STDDEV(orders.x)", pa.int32(), pa.float64()),
        ("MEDIAN(DISTINCT x)", "MEDIAN(DISTINCT orders.x)", pa.int32(), pa.float64()),
        ("MIN(s)", "MIN(orders.s)", pa.string(), pa.string()),
        ("MAX(DISTINCT day)", "MAX(orders.day)", pa.date32(), pa.date32()),
        ("MAX(ts)", "MAX(orders.ts)", pa.timestamp("us"), pa.timestamp("us")),
        ("p90(amount)", "P90(orders.amount)", pa.decimal128(10, 2), pa.float64()),
        ("P90(DISTINCT k + 1)", "P90(DISTINCT (orders.k + 1))", pa.int64(), pa.float64()),
    ],
)
def test_aggregates(call: str, text: str, given: pa.DataType | None, gives: pa.DataType) -> None:
    found = stage(f"SELECT {call} AS a FROM orders [ROWS 3 SLIDE 2]")
    (made,) = found.aggregates
    assert str(made) == text
    assert (None if made.argument is None else made.argument.type) == given
    assert made.type == gives
    assert found.schema == pa.schema([("a", gives)])


def test_own_aggregates_are_known_by_name() -> None:
    (made,) = stage("SELECT p90(qty) FROM stock [ROWS 3 SLIDE 2]").aggregates
    assert (made.function, made.user) == ("p90", OWN["P90"])


def test_equal_calls_are_one_aggregate_in_the_order_of_the_outputs() -> None:
    found = stage(
        "SELECT CASE SUM(qty) WHEN MAX(qty) THEN 1 END AS a, SUM(qty) / COUNT(*) + 1 AS b FROM stock [ROWS 3 SLIDE 2]"
        " HAVING MIN(qty) > 0 AND sum(stock.qty) > 1"
    )
    assert [str(a) for a in found.aggregates] == ["SUM(stock.qty)", "MAX(stock.qty)", "COUNT(*)", "MIN(stock.qty)"]
    assert [str(h) for h in found.having] == ['("#1".agg3 > 0)', '("#1".agg0 > 1)']


@pytest.mark.parametrize(
    ("select", "group", "keys", "outputs"),
    [
        ("k, COUNT(*)", "k", ["o.k"], ['"#1".key0', '"#1".agg0']),
        ("COUNT(*)", "o.k, K, x", ["o.k", "o.x"], ['"#1".agg0']),
        ("k + 1 AS y, COUNT(*)", "o.k + 1", ["(o.k + 1)"], ['"#1".key0', '"#1".agg0']),
        ("k % 2 AS odd, COUNT(*)", "odd", ["(o.k % 2)"], ['"#1".key0', '"#1".agg0']),
        ("COUNT(*), lower(s)", "2", ["LOWER(o.s)"], ['"#1".agg0', '"#1".key0']),
        ("k + 1 + SUM(x) AS y", "k", ["o.k"], ['(("#1".key0 + 1) + "#1".agg0)']),
        ("(k + 1) * 2 AS y", "k + 1", ["(o.k + 1)"], ['("#1".key0 * 2)']),
        ("k AS x", "x, k", ["o.x", "o.k"], ['"#1".key1']),
        ("5 AS five, COUNT(*)", "five", ["5"], ["5", '"#1".agg0']),
        ("upper(s) = 'A' AS a", "1", ["(UPPER(o.s) = 'A')"], ['"#1".key0']),
    ],
)  # fmt: skip
def test_group_by(select: str, group: str, keys: list[str], outputs: list[str]) -> None:
    found = stage(f"SELECT {select} FROM orders [RANGE 1 s SLIDE 1 s] o GROUP BY {group}")
    assert [str(k) for k in found.keys] == keys
    assert [str(o.expr) for o in found.outputs] == outputs


def test_group_by_every_column() -> None:
    assert stage("SELECT * FROM stock [ROWS 3 SLIDE 2] GROUP BY qty, k, ts").schema.names == ["ts", "k", "qty"]


def test_having() -> None:
    found = stage("SELECT k, SUM(qty) AS total FROM stock [ROWS 3 SLIDE 2] GROUP BY k HAVING total > 5 AND k < 3")
    assert [str(h) for h in found.having] == ['("#1".agg0 > 5)', '("#1".key0 < 3)']
    assert stage("SELECT 1 AS one FROM stock [ROWS 3 SLIDE 2] HAVING COUNT(*) > 2").schema.names == ["one"]
    assert stage("SELECT k FROM stock [ROWS 3 SLIDE 2] GROUP BY k HAVING k > 2").aggregates == ()


@pytest.mark.parametrize(
    "item",
    [
        "(SELECT qty AS v FROM stock WHERE k = 1) [ROWS 4 SLIDE 2] u",
        "(SELECT qty AS v FROM stock WHERE k = 1) AS u [ROWS 4 SLIDE 2]",
        "((SELECT qty AS v FROM stock WHERE k = 1)) u [ROWS 4 SLIDE 2]",
        "((SELECT qty AS v FROM (stock) WHERE k = 1) [ROWS 4 SLIDE 2]) u",
    ],
)
def test_a_window_over_a_filter(item: str) -> None:
    assert str(parse(f"SELECT SUM(v) AS total FROM {item} WHERE v > 0")) == (
        "SELECT SUM(u.v) AS total\n"
        "FROM (SELECT stock.qty AS v\nFROM stock\nWHERE (stock.k = 1)) [ROWS 4 SLIDE 2] u\n"
        "WHERE (u.v > 0)"
    )


def test_a_window_over_a_join() -> None:
    join = "SELECT a.k, price FROM stock [ROWS 3] a JOIN prices [RANGE 1 s] b ON a.k = b.k"
    query = parse(f"SELECT k, AVG(price) AS p FROM ({join}) [RANGE 10 s SLIDE 5 s] GROUP BY k")
    assert query.aliases == ("a", "b")
    assert query.parts.first.schema.names == ["k", "price"]
    assert query.parts.stages[0].alias == "t"
    assert query.schema == pa.schema([("k", pa.int32()), ("p", pa.float64())])


def test_a_window_right_over_a_join() -> None:
    query = parse(
        "SELECT a.k, AVG(price) AS p FROM (stock [ROWS 3] a CROSS JOIN orders [ROWS 1] c JOIN prices [RANGE 1 s] b"
        " ON a.k = b.k AND c.k < a.k) [ROWS 4 SLIDE 2 PARTITION BY b.k] WHERE qty > 1 GROUP BY a.k HAVING COUNT(*) > 1"
    )
    assert str(query) == (
        "SELECT a.k AS k, AVG(b.price) AS p\n"
        "FROM (stock [ROWS 3] a CROSS JOIN orders [ROWS 1] c JOIN prices [RANGE 1 SECOND] b"
        " ON (CAST(a.k AS BIGINT) = b.k) AND (c.k < CAST(a.k AS BIGINT))) [ROWS 4 SLIDE 2 PARTITION BY b.k]\n"
        "WHERE (a.qty > 1)\nGROUP BY a.k\nHAVING (COUNT(*) > 1)"
    )
    assert query.parts.first.schema.names == ["a.qty", "a.k", "b.price", "b.k"]
    assert query.parts.stages[0].alias == ""
    assert query.when == "close"
    assert parse("SELECT COUNT(*) AS n FROM (stock [ROWS 3] a CROSS JOIN stock [ROWS 1] b) [ROWS 4 SLIDE 2]")


def test_windows_over_windows() -> None:
    query = parse(
        "SELECT MAX(total) AS most FROM (SELECT k, SUM(qty) AS total FROM stock [ROWS 3 SLIDE 2 PARTITION BY k]"
        " GROUP BY k HAVING COUNT(*) > 1) [ROWS 4 SLIDE 1] WHERE k > 0"
    )
    assert [s.alias for s in query.parts.stages] == ["stock", "t"]
    assert query.parts.stages[1].aggregates == (Aggregate("max", Column("t", "total", pa.int64()), pa.int64()),)
    deeper = parse(f"SELECT COUNT(*) AS n FROM ({query}) [RANGE 1 s SLIDE 1 s]")
    assert [s.alias for s in deeper.parts.stages] == ["stock", "t", "t_2"]


def test_an_alias_hides_what_is_inside() -> None:
    query = parse("SELECT SUM(stock.v) AS s FROM (SELECT qty AS v, k FROM stock) [ROWS 3 SLIDE 2] stock")
    assert query.parts.first.schema.names == ["v", "k"]
    assert parse(
        'SELECT SUM("SUM(qty)") AS s FROM (SELECT SUM(qty) FROM stock [ROWS 3 SLIDE 2]) [ROWS 1 SLIDE 1] "a b"'
    )


SLIDING = "stock [ROWS 3 SLIDE 2]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # Windows.
        ("SELECT SUM(qty) FROM stock s",
         "SUM needs a window that slides, and stream 's' has none; write for example stock [ROWS 50 SLIDE 1] s"
         f", or {PLAIN} (line 1, column 8)"),
        ("SELECT k FROM stock\nGROUP BY k",
         "GROUP BY needs a window that slides, and stream 'stock' has none; write for example stock [ROWS 50 SLIDE 1]"
         f", or {PLAIN} (line 2, column 1)"),
        ("SELECT SUM(qty) FROM stock [ROWS 50]",
         "SUM needs a window that slides: say how far the window moves, for example [ROWS 50 SLIDE 1]"
         ", or how often there is a result, with HOP BY ... at the end (line 1, column 34)"),
        ("SELECT SUM(qty) FROM stock [RANGE 9 s]",
         "SUM needs a window that slides: say how far the window moves, for example [RANGE 9 SECONDS SLIDE 9 SECONDS]"
         ", or how often there is a result, with HOP BY ... at the end (line 1, column 35)"),
        (f"SELECT qty FROM {SLIDING}",
         f"a window that slides needs an aggregate; write for example SELECT COUNT(*), or {PLAIN} (line 1, column 29)"),
        ("SELECT qty FROM stock [START WHEN k = 1 END WHEN k = 2]",
         "a window that begins and ends by conditions needs an aggregate; write for example SELECT COUNT(*), or"
         f" {PLAIN} (line 1, column 24)"),
        (f"SELECT 1 AS one FROM {SLIDING} HAVING TRUE",
         f"a window that slides needs an aggregate; write for example SELECT COUNT(*), or {PLAIN} (line 1, column 34)"),
        (f"SELECT a.k FROM {SLIDING} a, prices [ROWS 3] b",
         "a window that slides is for aggregates; to aggregate a join write FROM (SELECT ...) [ROWS 10 SLIDE 5]"
         f", or {PLAIN} (line 1, column 29)"),
        (f"SELECT SUM(qty) FROM prices [ROWS 3] b, {SLIDING} a",
         "a window that slides is for aggregates; to aggregate a join write FROM (SELECT ...) [ROWS 10 SLIDE 5]"
         f", or {PLAIN} (line 1, column 53)"),
        ("SELECT SUM(qty) FROM stock [ROWS 3] a, prices [ROWS 3] b",
         "SUM reads one stream or subquery; to aggregate a join write FROM (SELECT ...) [ROWS 10 SLIDE 5]"
         f", or {PLAIN} (line 1, column 8)"),
        ("SELECT SUM(qty) FROM stock [ROWS 0 SLIDE 1]",
         "a window that slides has a row at least, and so has its slide: [ROWS 0 SLIDE 1] (line 1, column 34)"),
        ("SELECT SUM(qty) FROM stock [ROWS 3 SLIDE 1.5]",
         "[ROWS ...] takes a whole number of rows; write for example [RANGE 10 SECONDS] or [ROWS 100]"
         " (line 1, column 42)"),
        ("SELECT SUM(qty) FROM stock [RANGE 3 s SLIDE 0 s]",
         "a window that slides is longer than nothing, and so is its slide: [RANGE 3 SECONDS SLIDE 0 SECONDS]"
         " (line 1, column 35)"),
        ("SELECT SUM(qty) FROM stock [RANGE 3 s SLIDE 1]",
         "[RANGE ...] needs a unit of time, for example SECONDS (line 1, column 46)"),
        ("SELECT SUM(qty) FROM stock [ROWS 3 SLIDE 2 PARTITION BY z]",
         "stream 'stock' has no column 'z'; its columns are ts, k, qty (line 1, column 34)"),
        # Predicate windows.
        ("SELECT SUM(qty) FROM stock [START WHEN qty\nEND WHEN k = 1]",
         "START WHEN needs a condition, but stock.qty is BIGINT (line 1, column 40)"),
        ("SELECT SUM(qty) FROM stock [START WHEN k = 1\nEND WHEN zz = 1]",
         "there is no column 'zz'; the columns are ts, k, qty (line 2, column 10)"),
        ("SELECT SUM(qty) FROM stock [START WHEN k = 1 END WHEN MAX(k) = 1]",
         "aggregates such as MAX do not belong in END WHEN (line 1, column 55)"),
        ("SELECT SUM(qty) FROM stock\n[START WHEN (k = 1 END WHEN k = 1]",
         "syntax error near '1': Expecting ) (line 2, column 18)"),
        ("SELECT SUM(qty) FROM stock [START WHEN END WHEN k = 1]",
         "START WHEN needs a condition; write for example [START WHEN x > 5 END WHEN x < 2] (line 1, column 40)"),
        ("SELECT SUM(qty) FROM stock [START k = 1 END WHEN k = 1]",
         "expected WHEN after START in the window, but found 'k' (line 1, column 35)"),
        ("SELECT SUM(qty) FROM stock [START WHEN k = 1]",
         "expected END after START WHEN ... in the window, but found ']' (line 1, column 45)"),
        ("SELECT SUM(qty) FROM stock [START WHEN k = 1 END WHEN k, qty]",
         "a window takes one condition here, not a list and no further clauses (line 1, column 55)"),
        # Subqueries.
        ("SELECT SUM(qty) FROM (SELECT qty FROM stock) t",
         "a subquery in FROM needs a window that slides, and aggregates over it; write for example"
         " FROM (SELECT ...) [ROWS 10 SLIDE 5] t, or write HOP BY ... at the end instead (line 1, column 30)"),
        ("SELECT qty FROM (SELECT qty FROM stock) [ROWS 3] t",
         "a subquery in FROM needs a window that slides, and aggregates over it; or write HOP BY ... at the end instead"
         " (line 1, column 47)"),
        ("SELECT COUNT(*) FROM (SELECT k FROM stock [ROWS 1] EXCEPT SELECT k FROM prices [ROWS 1]) [ROWS 3 SLIDE 1]",
         "a window over UNION, INTERSECT or EXCEPT is not supported yet; leave it out, and write HOP BY ... at the end"
         " (line 1, column 30)"),
        ("SELECT COUNT(*) FROM (SELECT k FROM stock) [ROWS 3 SLIDE 1] t(a)",
         "renaming the columns of a subquery is not supported (line 1, column 61)"),
        ("SELECT SUM(z) FROM (SELECT k FROM stock) [ROWS 3 SLIDE 1] t",
         "there is no column 'z'; the columns are k (line 1, column 12)"),
        ("SELECT SUM(t.z) FROM (SELECT k FROM stock) [ROWS 3 SLIDE 1] t",
         "subquery 't' has no column 'z'; its columns are k (line 1, column 12)"),
        (f"SELECT k FROM (SELECT COUNT(*) AS k FROM {SLIDING}) a, stock [ROWS 1] b",
         "a subquery in FROM is for aggregates over a window that slides; joins and differences read streams"
         f"{HOPS} (line 1, column 23)"),
        ("SELECT COUNT(*) FROM stock [ROWS 3 SLIDE 1] EXCEPT SELECT k FROM stock [ROWS 3]",
         f"COUNT is not supported in a difference yet{HOPS} (line 1, column 8)"),
        ("SELECT COUNT(*) FROM (stock a JOIN prices [ROWS 1] b ON a.k = b.k) [ROWS 3 SLIDE 1]",
         "stream 'a' is joined without a window; write for example stock [RANGE 10 SECONDS] a (line 1, column 23)"),
        ("SELECT COUNT(*) FROM (stock [ROWS 1] a JOIN prices [ROWS 1] b ON a.k = b.k) [ROWS 3]",
         "COUNT needs a window that slides: say how far the window moves, for example [ROWS 3 SLIDE 1]"
         ", or how often there is a result, with HOP BY ... at the end (line 1, column 83)"),
        ("SELECT COUNT(*) FROM (stock) [ROWS 3 SLIDE 1]",
         "a window belongs after a stream or a subquery in FROM (line 1, column 36)"),
        # Groups.
        (f"SELECT k,\n  qty + SUM(qty) FROM {SLIDING} GROUP BY k",
         "column 'qty' is neither in GROUP BY nor inside an aggregate (line 2, column 3)"),
        (f"SELECT k + 1 + k FROM {SLIDING} GROUP BY k + 1",
         "column 'k' is neither in GROUP BY nor inside an aggregate (line 1, column 16)"),
        (f"SELECT SUM(qty) FROM {SLIDING} HAVING stock.k > 1",
         "column 'stock.k' is neither in GROUP BY nor inside an aggregate (line 1, column 52)"),
        (f"SELECT stock.*, SUM(qty) FROM {SLIDING} GROUP BY ts",
         "stock.k is neither in GROUP BY nor inside an aggregate (line 1, column 8)"),
        (f"SELECT SUM(qty) FROM {SLIDING} HAVING SUM(qty)",
         "HAVING needs a condition, but SUM(stock.qty) is BIGINT (line 1, column 52)"),
        (f"SELECT SUM(qty) FROM {SLIDING} GROUP BY 2", "GROUP BY 2 is no place in the select list (line 1, column 54)"),
        (f"SELECT SUM(qty) FROM {SLIDING} GROUP BY 1",
         "aggregates such as SUM do not belong in GROUP BY (line 1, column 8)"),
        (f"SELECT SUM(qty) FROM {SLIDING} GROUP BY ALL", "GROUP BY ALL is not supported yet (line 1, column 45)"),
        (f"SELECT SUM(qty) FROM {SLIDING} GROUP BY ROLLUP(k)",
         "this expression is not supported: ROLLUP (k) (line 1, column 61)"),
        # Aggregates.
        (f"SELECT SUM(1 + AVG(qty)) FROM {SLIDING}",
         "aggregates such as AVG do not belong inside another aggregate (line 1, column 16)"),
        (f"SELECT SUM(qty) FROM {SLIDING} WHERE COUNT(*) > 1",
         "aggregates such as COUNT do not belong in WHERE; HAVING takes conditions on them (line 1, column 51)"),
        ("SELECT SUM(s) FROM orders [ROWS 3 SLIDE 2]",
         "SUM takes a number, but orders.s is VARCHAR (line 1, column 8)"),
        ("SELECT MAX(ts - ts) FROM orders [ROWS 3 SLIDE 2]",
         "MAX does not take an INTERVAL: (orders.ts - orders.ts) (line 1, column 8)"),
        ("SELECT MAX(ts) - MIN(ts) FROM orders [ROWS 3 SLIDE 2]",
         "an INTERVAL cannot be selected; compare it with another: (MAX(orders.ts) - MIN(orders.ts))"
         " (line 1, column 8)"),
        (f"SELECT SUM(*) FROM {SLIDING}", "SUM takes a value, not * (line 1, column 8)"),
        (f"SELECT SUM(k, qty) FROM {SLIDING}", "SUM takes 1 argument, not 2 (line 1, column 8)"),
        (f"SELECT ARG_MAX(k, qty) FROM {SLIDING}",
         "there is no aggregate ARG_MAX; the aggregates are COUNT, SUM, AVG, MIN, MAX, STDDEV, MEDIAN, P90"
         " (line 1, column 8)"),
        (f"SELECT COUNT() FROM {SLIDING}", "COUNT takes 1 argument, not 0 (line 1, column 8)"),
        (f"SELECT FIRST(k) FROM {SLIDING}",
         "there is no aggregate FIRST; the aggregates are COUNT, SUM, AVG, MIN, MAX, STDDEV, MEDIAN, P90"
         " (line 1, column 8)"),
        (f"SELECT p91(k) FROM {SLIDING}", "there is no function 'p91'; did you mean 'p90'? (line 1, column 8)"),
        (f"SELECT medain(k) FROM {SLIDING}",
         "there is no function 'medain'; did you mean 'median'? (line 1, column 8)"),
        (f"SELECT COUNT(*), xyz(k) FROM {SLIDING}",
         "there is no function 'xyz'; the aggregates registered are p90 (line 1, column 18)"),
        (f"SELECT SUM(qty) FILTER (WHERE k = 1) FROM {SLIDING}",
         "aggregates with FILTER are not supported yet (line 1, column 8)"),
        (f"SELECT SUM(qty) OVER () FROM {SLIDING}", "window functions (OVER) are not supported (line 1, column 8)"),
        (f"SELECT DISTINCT SUM(qty) FROM {SLIDING}", f"DISTINCT is not supported yet{HOPS} (line 1, column 8)"),
        (f"SELECT SUM(qty) FROM {SLIDING} ORDER BY 1",
         f"ORDER BY is not supported yet{ADVICE['ORDER BY']} (line 1, column 45)"),
        (f"SELECT SUM(qty) AS _time FROM {SLIDING}", "output column '_time' is reserved; give it another alias"),
    ],
)  # fmt: skip
def test_errors(text: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        parse_query(text, CATALOG, OWN)
    assert str(error.value) == message


def test_names_of_own_aggregates() -> None:
    check_aggregate_name("p90")
    check_aggregate_name("first")
    for name, message in {
        "Sum": "there is an aggregate 'Sum' already; give this one another name",
        "len": "there is a function 'len' already; give the aggregate another name",
        "order": "'order' is a word of the language; give the aggregate another name",
        "p 90": "an aggregate is called by a plain name such as p90, not 'p 90'",
    }.items():
        with pytest.raises(PlanError) as error:
            check_aggregate_name(name)
        assert str(error.value) == message


WORDS = (
    "SELECT FROM WHERE AND NOT a k x s orders . , ( ) [ ] RANGE ROWS 10 SECONDS = < + * CASE WHEN END START SLIDE SUM("
    " COUNT(*) MIN( DISTINCT p90( GROUP BY HAVING PARTITION 1 2 'a' NULL AS t (SELECT lower( EXCEPT"
)
SENTENCES = (
    "SELECT x , SUM( k ) + 1 AS y FROM orders [ ROWS 4 SLIDE 2 ] a WHERE x > 1 GROUP BY x HAVING COUNT(*) > 1",
    "SELECT MAX( y ) FROM ( SELECT x , k AS y FROM orders WHERE x > 1 ) [ START WHEN y = 1 END WHEN y = 2 ] t",
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_text_is_a_query_or_an_error(data: st.DataObject) -> None:
    words = data.draw(st.sampled_from(SENTENCES)).split()
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(words) - 1))
        words[place : place + data.draw(st.integers(0, 1))] = [data.draw(st.sampled_from(WORDS.split()))]
    try:
        query = parse_query(" ".join(words), CATALOG, OWN)
    except SqlError:
        return
    assert parse_query(str(query), CATALOG, OWN) == query
