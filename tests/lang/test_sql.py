"""What SQL text means: windows, sources, conjuncts, outputs."""

import pytest
from lang.streams import CATALOG, ORDERS, PRICES, STOCK

from midstream.lang.sql import parse_query
from midstream.plan.query import Query
from midstream.plan.window import RangeWindow, RowsWindow

SECOND = 1_000_000


def parse(text: str) -> Query:
    return parse_query(text, CATALOG)


@pytest.mark.parametrize(
    ("source", "alias", "window"),
    [
        ("stock", "stock", None),
        ("stock [RANGE 10 SECONDS]", "stock", RangeWindow(10 * SECOND)),
        ("stock [RANGE 10 SECONDS] a", "a", RangeWindow(10 * SECOND)),
        ("stock[range 10 seconds]a", "a", RangeWindow(10 * SECOND)),
        ("stock [RANGE 10 SECONDS] AS a", "a", RangeWindow(10 * SECOND)),
        ("stock AS a [RANGE 1 MINUTE]", "a", RangeWindow(60 * SECOND)),
        ("stock a [RANGE 1 MINUTE]", "a", RangeWindow(60 * SECOND)),
        ('"stock" AS "my a" [RANGE 1 HOUR]', "my a", RangeWindow(3600 * SECOND)),
        ("stock [RANGE 500 MILLISECONDS]", "stock", RangeWindow(SECOND // 2)),
        ("stock [RANGE 1.5 SECONDS]", "stock", RangeWindow(3 * SECOND // 2)),
        ("stock [RANGE 250 us]", "stock", RangeWindow(250)),
        ("stock [RANGE 0 SECONDS]", "stock", RangeWindow(0)),
        ("stock [RANGE INTERVAL '10' SECOND]", "stock", RangeWindow(10 * SECOND)),
        ("stock [RANGE INTERVAL 10 SECOND]", "stock", RangeWindow(10 * SECOND)),
        ("stock [RANGE '10 seconds']", "stock", RangeWindow(10 * SECOND)),
        ("stock [ROWS 100] a", "a", RowsWindow(100)),
        ("stock /* all */ [ROWS /* last */ 100] -- tail\n a", "a", RowsWindow(100)),
    ],
)
def test_windows(source: str, alias: str, window: RangeWindow | RowsWindow | None) -> None:
    (found,) = parse(f"SELECT qty FROM {source}").sources
    assert (found.alias, found.stream, found.position, found.window) == (alias, STOCK, 2, window)


def test_rows_window_by_key() -> None:
    (source,) = parse("SELECT 1 AS one FROM orders [ROWS 100 PARTITION BY k, S] o").sources
    assert isinstance(source.window, RowsWindow)
    assert [str(c) for c in source.window.partition_by] == ["o.k", "o.s"]
    assert str(source) == "orders [ROWS 100 PARTITION BY k, s] o"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.k FROM orders [ROWS 5] a, prices [ROWS 5] b WHERE a.k = b.k AND b.price > 10",
        "SELECT a.k FROM orders [ROWS 5] a JOIN prices [ROWS 5] b ON a.k = b.k WHERE b.price > 10",
        "SELECT a.k FROM orders [ROWS 5] a INNER JOIN prices [ROWS 5] b ON a.k = b.k AND b.price > 10",
        "SELECT a.k FROM orders [ROWS 5] a CROSS JOIN prices [ROWS 5] b WHERE (a.k = b.k) AND (b.price > 10);",
        "SELECT a.k FROM orders [ROWS 5] a JOIN prices [ROWS 5] b USING (k) WHERE price > 10",
        "(SELECT a.K FROM Orders [rows 5] A JOIN prices [ROWS 5] b ON A.k = B.k WHERE NOT (price <= 10))",
    ],
)
def test_ways_to_join_are_one_query(text: str) -> None:
    query = parse(text.replace("A.", "a.").replace("] A ", "] a "))
    assert str(query) == (
        "SELECT a.k\nFROM orders [ROWS 5] a, prices [ROWS 5] b\nWHERE (a.k = b.k) AND (b.price > 10.0)"
    )


def test_parentheses_around_joins() -> None:
    query = parse(
        "SELECT c.qty FROM orders [ROWS 1] a JOIN (prices [ROWS 2] b JOIN stock [ROWS 3] c ON b.k = c.k) ON a.k = b.k"
    )
    assert query.aliases == ("a", "b", "c")
    assert [str(c) for c in query.parts.first.conjuncts] == ["(b.k = CAST(c.k AS BIGINT))", "(a.k = b.k)"]


def test_self_join() -> None:
    query = parse("SELECT a.k, b.k FROM stock [ROWS 1] a, stock [ROWS 2] b WHERE a.k = b.k")
    assert [(s.alias, s.stream.name, s.position) for s in query.sources] == [("a", "stock", 2), ("b", "stock", 2)]
    assert [o.name for o in query.parts.first.outputs] == ["k", "k_1"]


@pytest.mark.parametrize(
    ("condition", "conjuncts"),
    [
        ("k = 1 AND (x = 2 AND s = 'a')", ["(orders.k = 1)", "(orders.x = 2)", "(orders.s = 'a')"]),
        ("k BETWEEN 1 AND 5", ["(orders.k >= 1)", "(orders.k <= 5)"]),
        ("k NOT BETWEEN 1 AND 5", ["((orders.k < 1) OR (orders.k > 5))"]),
        ("NOT (k = 1 OR x < 2)", ["(orders.k <> 1)", "(orders.x >= 2)"]),
        ("NOT (k = 1 AND NOT open)", ["((orders.k <> 1) OR orders.open)"]),
        ("NOT s LIKE 'a%' ESCAPE '!'", ["(NOT (orders.s LIKE 'a%' ESCAPE '!'))"]),
        ("s NOT IN ('a', 'b') AND s IS NOT NULL", ["(NOT (orders.s IN ('a', 'b')))", "(NOT (orders.s IS NULL))"]),
        ("TRUE AND k = 1 AND k = 1", ["(orders.k = 1)"]),
        ("open", ["orders.open"]),
        ("open IS TRUE", ["(NOT (orders.open IS DISTINCT FROM TRUE))"]),
        ("k IS DISTINCT FROM x", ["(orders.k IS DISTINCT FROM CAST(orders.x AS BIGINT))"]),
        ("k = 1 OR k = 2 OR k = 3", ["((orders.k = 1) OR (orders.k = 2) OR (orders.k = 3))"]),
        ("day >= '2024-02-29'", ["(orders.day >= DATE '2024-02-29')"]),
        ("day < '2024-02-29 12:00'", ["(CAST(orders.day AS TIMESTAMP) < TIMESTAMP '2024-02-29 12:00:00')"]),
        ("ts < '2024-02-29'", ["(orders.ts < TIMESTAMP '2024-02-29 00:00:00')"]),
        ("ts < '2024-02-29T12:00:00+02:00'", ["(orders.ts < TIMESTAMP '2024-02-29 10:00:00')"]),
        ("ts - ts < INTERVAL 5 SECONDS", ["((orders.ts - orders.ts) < INTERVAL 5 SECONDS)"]),
        ("ts > day + INTERVAL '1 hour 30 minutes'",
         ["(orders.ts > (CAST(orders.day AS TIMESTAMP) + INTERVAL 90 MINUTES))"]),
        ("ts - ts > INTERVAL -5 SECONDS", ["((orders.ts - orders.ts) > INTERVAL -5 SECONDS)"]),
        ("amount > 10", ["(orders.amount > 10.00)"]),
        ("amount > 10.5", ["(orders.amount > 10.50)"]),
        ("amount > 10.555", ["(CAST(orders.amount AS DECIMAL(11, 3)) > 10.555)"]),
        ("amount > 1e1", ["(CAST(orders.amount AS DOUBLE) > 10.0)"]),
        ("k > 10.5", ["(CAST(orders.k AS DOUBLE) > 10.5)"]),
        ("x < 3000000000", ["(CAST(orders.x AS BIGINT) < 3000000000)"]),
        ("x = -5", ["(orders.x = -5)"]),
    ],
)  # fmt: skip
def test_conjuncts(condition: str, conjuncts: list[str]) -> None:
    query = parse(f"SELECT k FROM orders WHERE {condition}")
    assert [str(c) for c in query.parts.first.conjuncts] == conjuncts
    assert parse(str(query)) == query


@pytest.mark.parametrize(
    ("select", "names"),
    [
        ("k, x AS y", ["k", "y"]),
        ("k, k, k", ["k", "k_1", "k_2"]),
        ("k, x AS k_1, k", ["k", "k_1", "k_2"]),
        ("k, x AS k", ["k_1", "k"]),
        ("K, \"k\"", ["k", "k_1"]),
        ("x + 1, lower(s), -k", ["x + 1", "LOWER(s)", "-k"]),
        ("(x + 1) * 2, x::double", ["(x + 1) * 2", "CAST(x AS DOUBLE)"]),
    ],
)  # fmt: skip
def test_output_names(select: str, names: list[str]) -> None:
    query = parse(f"SELECT {select} FROM orders")
    assert [o.name for o in query.parts.first.outputs] == names
    assert parse(str(query)) == query


def test_stars() -> None:
    both = "FROM prices [ROWS 1] p JOIN stock [ROWS 1] s"
    every = parse(f"SELECT * {both} ON p.k = s.k")
    assert every.schema.names == ["ts", "k", "price", "Unit", "ts_1", "k_1", "qty"]
    assert parse(f"SELECT * {both} USING (k)").schema.names == ["ts", "k", "price", "Unit", "ts_1", "qty"]
    assert parse(f"SELECT s.*, p.price, k {both} USING (K)").schema.names == ["ts", "k", "qty", "price", "k_1"]


def test_names_match_exactly_first_then_without_case() -> None:
    query = parse("SELECT unit, p.UNIT FROM PRICES p")
    assert [str(o.expr) for o in query.parts.first.outputs] == ["p.Unit", "p.Unit"]
    assert query.sources[0].stream is PRICES
    query = parse("SELECT A.k FROM stock [ROWS 1] a, stock [ROWS 1] A")
    assert str(query.parts.first.outputs[0].expr) == "A.k"


def test_reserved_words_and_odd_names_survive_their_text() -> None:
    query = parse('SELECT "order".k AS "select", k + 1 AS "it is ""so""" FROM stock [ROWS 3] "order"')
    assert parse(str(query)) == query
    assert query.schema.names == ["select", 'it is "so"']


def test_types_of_outputs() -> None:
    query = parse("SELECT amount * 1.1 AS m, x * 1.1 AS d, x + x AS i, x / 2 AS q, 10.5 AS c FROM orders")
    assert [str(t) for t in query.schema.types] == ["decimal128(13, 3)", "double", "int64", "double", "double"]
    assert query.sources[0].stream is ORDERS
