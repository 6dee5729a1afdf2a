"""The builder and SQL text give equal queries."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from lang.streams import CATALOG

from midstream.lang.builder import Expression, QueryBuilder, col, fn, lit, not_exists, stream, when
from midstream.lang.sql import parse_query
from midstream.model.errors import MidstreamError, SqlError

ORDERS = stream("orders", "a")


def test_a_join_is_the_query_of_its_sql() -> None:
    query = (
        stream("orders", "a")
        .range("10 seconds")
        .join(stream("prices").rows(100, partition_by=["k"]).alias("b"), on=col("a.k") == col("b.k"))
        .where(col("b.price") > 10, col("a.x").between(1, 5) | col("b.Unit").like("x%"))
        .select("a.k", col("b.price") * 2, total=col("a.x") + 1)
    )
    text = """
        SELECT a.k, b.price * 2, a.x + 1 AS total
        FROM orders [RANGE 10 SECONDS] a JOIN prices [ROWS 100 PARTITION BY k] b ON a.k = b.k
        WHERE b.price > 10 AND (a.x BETWEEN 1 AND 5 OR b.Unit LIKE 'x%')
    """
    assert query.bind(CATALOG) == parse_query(text, CATALOG)
    assert hash(query.bind(CATALOG)) == hash(parse_query(text, CATALOG))


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (ORDERS, "SELECT * FROM orders_ a"),
        (ORDERS.select("*"), "SELECT * FROM orders_ a"),
        (ORDERS.select("a.*"), "SELECT a.* FROM orders_ a"),
        (ORDERS.select("k", "a.x", "k"), "SELECT k, a.x, k FROM orders_ a"),
        (ORDERS.select(col("x").as_("y"), z="k"), "SELECT x AS y, k AS z FROM orders_ a"),
        (ORDERS.select("k").rows(5), "SELECT k FROM orders_ [ROWS 5] a"),
        (ORDERS.range(1500).select("k"), "SELECT k FROM orders_ [RANGE 1500 us] a"),
        (ORDERS.range(dt.timedelta(minutes=2)).select("k"), "SELECT k FROM orders_ [RANGE 2 MINUTES] a"),
        (stream("stock").rows(1).join(stream("prices").rows(2)).select("qty"),
         "SELECT qty FROM stock [ROWS 1], prices [ROWS 2]"),
    ],
)  # fmt: skip
def test_queries(built: QueryBuilder, text: str) -> None:
    without_tags = [s for s in CATALOG if s.name != "orders"]
    orders = next(s for s in CATALOG if s.name == "orders")
    plain = type(orders)("orders", orders.columns.remove(orders.columns.get_field_index("tags")), "ts")
    catalog = [plain, *without_tags]
    assert built.bind(catalog) == parse_query(text.replace("orders_", "orders"), catalog)


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (col("x") + 1, "x + 1"),
        ((col("x") + 1) * 2, "(x + 1) * 2"),
        (col("x") + col("k") * 2, "x + k * 2"),
        (1 - (col("x") - 1), "1 - (x - 1)"),
        (1 + col("x") - 1, "1 + x - 1"),
        (2 * col("x") / 3, "2 * x / 3"),
        (1 / col("x"), "1 / x"),
        (col("x") % 5 // 2, "x % 5 // 2"),
        (-col("x"), "-x"),
        (-(col("x") + 1), "-(x + 1)"),
        (lit(-5) + col("x"), "-5 + x"),
        (col("amount") * Decimal("1.10"), "amount * 1.10"),
        (col("x") * 1.5, "x * 1.5"),
        (col("x") * 1e300, "x * 1e+300"),
        (col("x") * -2, "x * -2"),
        ((col("x") > 1) & ~(col("s") == "it's"), "x > 1 AND NOT s = 'it''s'"),
        ((col("x") >= 1) & ((col("x") < 5) | (col("x") != 9)), "x >= 1 AND (x < 5 OR x <> 9)"),
        ((col("x") > 1) | (col("x") <= 5) & col("open"), "x > 1 OR x <= 5 AND open"),
        ((col("x") > 1) == col("open"), "(x > 1) = open"),
        (col("x").isin(1, 2, 3), "x IN (1, 2, 3)"),
        (~col("x").isin([1, 2]), "NOT x IN (1, 2)"),
        (col("s").is_null() | col("s").is_not_null(), "s IS NULL OR NOT s IS NULL"),
        (col("s").ilike("A_"), "s ILIKE 'A_'"),
        (col("s").concat("x"), "s || 'x'"),
        (col("x").between(col("k") + 1, 9), "x BETWEEN k + 1 AND 9"),
        (col("x").cast("double"), "CAST(x AS DOUBLE)"),
        (col("x").cast("decimal(5, 2)") + 1, "CAST(x AS DECIMAL(5, 2)) + 1"),
        (fn.lower(col("s")), "LOWER(s)"),
        (fn("round", col("x"), 1), "ROUND(x, 1)"),
        (fn.if_(col("open"), 1, None), "IF(open, 1, NULL)"),
        (fn.coalesce(col("s"), "none"), "COALESCE(s, 'none')"),
        (when(col("x") > 0, "up").when(col("x") < 0, "down").otherwise("flat"),
         "CASE WHEN x > 0 THEN 'up' WHEN x < 0 THEN 'down' ELSE 'flat' END"),
        (when(col("x") > 0, 1).end(), "CASE WHEN x > 0 THEN 1 END"),
        (col("day") > dt.date(2024, 1, 2), "day > CAST('2024-01-02' AS DATE)"),
        (col("ts") > dt.datetime(2024, 1, 2, 3), "ts > CAST('2024-01-02 03:00:00' AS TIMESTAMP)"),
        (col("ts") + dt.timedelta(seconds=1), "ts + INTERVAL '1000000' MICROSECONDS"),
        (lit(True), "TRUE"),
    ],
)  # fmt: skip
def test_expressions(built: Expression, text: str) -> None:
    wanted = parse_query(f"SELECT {text} FROM orders", CATALOG)
    assert stream("orders").select(built).bind(CATALOG) == wanted
    assert wanted.parts.first.outputs[0].name == text


def test_aggregates_are_the_query_of_their_sql() -> None:
    inner = (
        stream("stock")
        .rows(4, slide=2, partition_by="k")
        .where(col("qty") > 0)
        .group_by("k", col("qty") % 2)
        .having(fn.count() > 1, fn.sum(col("qty")) < 10)
        .select("k", total=fn.sum(col("qty").distinct()))
    )
    text = """
        SELECT k, SUM(DISTINCT qty) AS total FROM stock [ROWS 4 SLIDE 2 PARTITION BY k] WHERE qty > 0
        GROUP BY k, qty % 2 HAVING COUNT(*) > 1 AND SUM(qty) < 10
    """
    assert inner.bind(CATALOG) == parse_query(text, CATALOG)
    outer = inner.results("u").range("10 seconds", slide=dt.timedelta(seconds=5)).select(n=fn.count(col("*")))
    whole = f"SELECT COUNT(*) AS n FROM ({text}) [RANGE 10 SECONDS SLIDE 5 SECONDS] u"
    assert outer.bind(CATALOG) == parse_query(whole, CATALOG)
    opened = stream("stock").between(col("k") == 1, col("k") == 2).select(fn.max(col("qty")))
    assert opened.bind(CATALOG) == parse_query("SELECT MAX(qty) FROM stock [START WHEN k = 1 END WHEN k = 2]", CATALOG)


ORD, PRI, STO = (stream(name, name[0]).range("10 seconds") for name in ("orders", "prices", "stock"))
OF = {"o": "orders [RANGE 10 SECONDS] o", "p": "prices [RANGE 10 SECONDS] p", "s": "stock [RANGE 10 SECONDS] s"}
A, B, C = ORD.select("k"), PRI.select("k"), STO.select("k")
SAME = col("o.k") == col("p.k")


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (A.hop("30 seconds"), "SELECT k FROM {o} HOP BY 30 SECONDS"),
        (A.hop_rows(100, emit="delta"), "SELECT k FROM {o} HOP BY 100 ROWS EMIT DELTA"),
        (A.hop(dt.timedelta(minutes=1), emit="delta"), "SELECT k FROM {o} HOP BY 1 MINUTE EMIT DELTA"),
        (A.distinct().hop("5 s"), "SELECT DISTINCT k FROM {o} HOP BY 5 SECONDS"),
        (A.except_(B).hop("5 s"), "SELECT k FROM {o} EXCEPT SELECT k FROM {p} HOP BY 5 SECONDS"),
        (A.except_(B, keep_all=True).hop("5 s"), "SELECT k FROM {o} EXCEPT ALL SELECT k FROM {p} HOP BY 5 SECONDS"),
        (A.union(B).hop("5 s"), "SELECT k FROM {o} UNION SELECT k FROM {p} HOP BY 5 SECONDS"),
        (A.union(B, keep_all=True).hop("5 s"), "SELECT k FROM {o} UNION ALL SELECT k FROM {p} HOP BY 5 SECONDS"),
        (A.intersect(B).hop("5 s"), "SELECT k FROM {o} INTERSECT SELECT k FROM {p} HOP BY 5 SECONDS"),
        (A.except_(B.union(C)).except_(C).hop("5 s"),
         "SELECT k FROM {o} EXCEPT (SELECT k FROM {p} UNION SELECT k FROM {s}) EXCEPT SELECT k FROM {s} "
         "HOP BY 5 SECONDS"),
        (ORD.anti_join(PRI, on=SAME).join(STO, on=col("s.k") == col("o.k")).select("o.x", "s.qty").hop("5 s"),
         "SELECT o.x, s.qty FROM {o} ANTI JOIN {p} ON o.k = p.k JOIN {s} ON s.k = o.k HOP BY 5 SECONDS"),
        (ORD.where(col("x") > 1, not_exists(PRI.where(SAME).select("p.k"))).select("x").hop("5 s"),
         "SELECT x FROM {o} WHERE x > 1 AND NOT EXISTS (SELECT p.k FROM {p} WHERE o.k = p.k) HOP BY 5 SECONDS"),
        (ORD.anti_join(A.except_(B).results("z"), on=col("z.k") == col("o.k")).select("x").hop("5 s"),
         "SELECT x FROM {o} ANTI JOIN (SELECT k FROM {o} EXCEPT SELECT k FROM {p}) z ON z.k = o.k HOP BY 5 SECONDS"),
        (A.distinct().results("z").join(PRI, on=col("z.k") == col("p.k")).select("price").hop("5 s"),
         "SELECT price FROM (SELECT DISTINCT k FROM {o}) z JOIN {p} ON z.k = p.k HOP BY 5 SECONDS"),
        (ORD.join(PRI, on=SAME).group_by("o.k").having(fn.count() > 1).select("o.k", n=fn.count()).hop("5 s"),
         "SELECT o.k, COUNT(*) AS n FROM {o} JOIN {p} ON o.k = p.k GROUP BY o.k HAVING COUNT(*) > 1 HOP BY 5 SECONDS"),
        # Without hops.
        (A.except_(B).except_(C), "SELECT k FROM {o} EXCEPT SELECT k FROM {p} EXCEPT SELECT k FROM {s}"),
        (ORD.join(PRI, on=SAME).select("o.k", "price").results("z").rows(4, "k", slide=2).select(fn.count()),
         "SELECT COUNT(*) FROM (SELECT o.k, price FROM {o} JOIN {p} ON o.k = p.k) [ROWS 4 SLIDE 2 PARTITION BY k] z"),
        (ORD.join(PRI, on=SAME).joined().rows(4, "o.k", slide=2).group_by("p.k").select("p.k", n=fn.sum(col("x"))),
         "SELECT p.k, SUM(x) AS n FROM ({o} JOIN {p} ON o.k = p.k) [ROWS 4 SLIDE 2 PARTITION BY o.k] GROUP BY p.k"),
    ],
)  # fmt: skip
def test_all_that_sql_can_say(built: QueryBuilder, text: str) -> None:
    wanted = parse_query(text.format(**OF), CATALOG)
    assert built.bind(CATALOG) == wanted
    assert parse_query(built.sql(), CATALOG) == wanted, built.sql()
    assert built.bind(CATALOG).text == built.sql()


def test_hops_come_last() -> None:
    hopping = A.hop("5 seconds")
    for wrong in (
        lambda: B.except_(hopping).bind(CATALOG),
        lambda: hopping.results(),
        lambda: hopping.hop("1 s").tree(),
    ):
        with pytest.raises(SqlError, match="a query hops as a whole: hop comes last, not inside another query"):
            wrong()
    with pytest.raises(SqlError, match="emit is 'changes'; a query that hops emits complete or delta"):
        A.hop("5 seconds", emit="changes").bind(CATALOG)


def test_steps_leave_the_builder_alone() -> None:
    start = stream("stock").rows(5)
    start.where(col("k") > 1).select("qty").alias("other").range("1 second")
    assert str(start.select("k").bind(CATALOG)) == "SELECT stock.k\nFROM stock [ROWS 5]"


def test_errors_have_no_place() -> None:
    with pytest.raises(SqlError) as error:
        stream("stock").select("qyt").bind(CATALOG)
    assert str(error.value) == "there is no column 'qyt'; the columns are ts, k, qty; did you mean 'qty'?"
    with pytest.raises(SqlError, match=r"^a window cannot be negative: \[ROWS -1\]$"):
        stream("stock").rows(-1).select("k").bind(CATALOG)


def test_python_mistakes_are_told() -> None:
    with pytest.raises(MidstreamError, match="combine conditions with &"):
        bool(col("a") == 1)
    with pytest.raises(MidstreamError, match="cannot hold the Python value"):
        lit(object())
    with pytest.raises(MidstreamError, match=r"there is no type .quux"):
        col("x").cast("quux(")
    with pytest.raises(MidstreamError, match="is not a duration"):
        stream("stock").range("5 parsecs")


def test_what_the_builder_is_given_wrongly_is_one_sentence() -> None:
    a: Any = stream("orders", "a").range("1 second")
    b: Any = stream("prices", "b").range("1 second")
    orders: Any = stream("orders")
    given: Any = {"stream": stream, "col": col, "when": when, "not_exists": not_exists}
    wrong: list[tuple[str, Callable[[], Any]]] = [
        ("a window has a whole number of rows, not 1.5", lambda: orders.rows(1.5)),
        ("a window has a whole number of rows, not True", lambda: orders.rows(True)),
        ("a window has a whole number of rows, not 'x'", lambda: orders.rows(5, slide="x")),
        ("partition_by is the name of a column", lambda: orders.rows(5, partition_by=5)),
        ("a name is text, not 5", lambda: orders.rows(5, partition_by=[5])),
        ("a name is text, not 5", lambda: given["stream"](5)),
        ("a name is text, not 5", lambda: a.alias(5)),
        ("a name is text, not None", lambda: given["col"](None)),
        ("a condition is an expression such as .*, not 'k > 5'", lambda: a.where("k > 5")),
        ("a condition is an expression such as .*, not 5", lambda: a.join(b, on=5)),
        ("a condition is an expression such as .*, not None", lambda: a.anti_join(b, on=None)),
        ("a condition is an expression such as .*, not 1", lambda: a.having(1)),
        ("a condition is an expression such as .*, not 1", lambda: given["when"](1, 2)),
        ("a condition is an expression such as .*, not 1", lambda: a.between(col("k") > 1, 1)),
        ("a column is a name or an expression such as .*, not 5", lambda: a.select(5)),
        ("a column is a name or an expression such as .*, not None", lambda: a.group_by(None)),
        ("a query of the builder is expected, .*, not 5", lambda: a.join(5)),
        ("a query of the builder is expected, .*, not 'b'", lambda: a.except_("b")),
        ("a query of the builder is expected, .*, not None", lambda: given["not_exists"](None)),
        ("a query hops as a whole", lambda: a.join(b.hop("1 second"))),
        ("what is joined of a set operation are its results", lambda: a.join(b.union(b))),
    ]
    for said, give in wrong:
        with pytest.raises(MidstreamError, match=said):
            give()
