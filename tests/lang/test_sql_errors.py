"""Every mistake gets one sentence that names the thing and its place."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lang.streams import CATALOG

from midstream.lang.bind.clauses import ADVICE
from midstream.lang.sql import parse_query
from midstream.model.errors import SqlError

HOPS = "; a query that hops can do it: write HOP BY ... at the end"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # The text itself.
        ("", "the query is empty"),
        (" ;", "the query is empty"),
        ("-- nothing", "the query is empty"),
        ("SELECT k FROM stock; SELECT k FROM stock", "one query is expected, but here are 2 statements"),
        ("SELECT k FRO stock", "syntax error near 'stock': Invalid expression / Unexpected token (line 1, column 14)"),
        ("SELECT `k` FROM stock",
         'a name stands in double quotes, such as "my column", not in backticks (line 1, column 8)'),
        ("SELECT k\nFROM stock WHERE (k = 1", "syntax error near '1': Expecting ) (line 2, column 23)"),
        ("SELECT k FROM stock WHERE s = 'abc", "syntax error: ' is opened here and never closed (line 1, column 31)"),
        ("SELECT 1 AS x", "the query reads no stream; FROM is missing"),
        ("CREATE TABLE t (x INT)", "a query starts with SELECT, but here is 'CREATE' (line 1, column 1)"),
        ("SHOW TABLES", "a query starts with SELECT, but here is 'SHOW' (line 1, column 1)"),
        ("VALUES (1)", "a query is a SELECT, but here is VALUES (line 1, column 9)"),
        # Windows.
        ("SELECT k FROM stock [RANGE -5 SECONDS]",
         "a window cannot be negative: [RANGE -5 SECONDS] (line 1, column 28)"),
        ("SELECT k FROM stock [ROWS -1]", "a window cannot be negative: [ROWS -1] (line 1, column 27)"),
        ("SELECT k FROM stock [ROWS 0]", "a window of 0 rows never holds a row: [ROWS 0] (line 1, column 27)"),
        ("SELECT k FROM stock [ROWS 1.5]",
         "[ROWS ...] takes a whole number of rows; write for example [RANGE 10 SECONDS] or [ROWS 100]"
         " (line 1, column 27)"),
        ("SELECT k FROM stock [ROWS many]",
         "a window needs a number here; write for example [RANGE 10 SECONDS] or [ROWS 100] (line 1, column 27)"),
        ("SELECT k FROM stock [RANGE 5 FORTNIGHTS]",
         "'FORTNIGHTS' is not a unit of time a window can have; write for example [RANGE 10 SECONDS] or [ROWS 100]"
         " (line 1, column 30)"),
        ("SELECT k FROM stock [RANGE 5]", "[RANGE ...] needs a unit of time, for example SECONDS (line 1, column 29)"),
        ("SELECT k FROM stock [RANGE 5 SECONDS x]",
         "expected ] at the end of the window, but found 'x' (line 1, column 38)"),
        ("SELECT k FROM stock [ROWS 5 PARTITION BY z]",
         "stream 'stock' has no column 'z'; its columns are ts, k, qty (line 1, column 27)"),
        ("SELECT k FROM stock [ROWS 5] a [ROWS 6]",
         "a stream has one window, but here is a second (line 1, column 38)"),
        ("SELECT k [ROWS 5] FROM stock", "a window belongs after a stream or a subquery in FROM (line 1, column 16)"),
        ("SELECT k FROM stock [RANGE UNBOUNDED]",
         "an unbounded window is not supported: its state would grow forever (line 1, column 28)"),
        ("SELECT k FROM stock EMIT DELTA",
         "EMIT belongs after HOP BY; write for example HOP BY 30 SECONDS EMIT DELTA (line 1, column 21)"),
        ("SELECT a.k FROM stock a, prices [ROWS 1] b",
         "stream 'a' is joined without a window; write for example stock [RANGE 10 SECONDS] a (line 1, column 17)"),
        # Names.
        ("SELECT k FROM price",
         "there is no stream 'price'; the streams are orders, prices, stock; did you mean 'prices'?"
         " (line 1, column 15)"),
        ("SELECT price FROM stock", "there is no column 'price'; the columns are ts, k, qty (line 1, column 8)"),
        ("SELECT a.qyt\nFROM stock a WHERE a.k = 1",
         "stream 'stock' (a) has no column 'qyt'; its columns are ts, k, qty; did you mean 'qty'? (line 1, column 8)"),
        ("SELECT k FROM stock a\nWHERE stock.k = 1", "there is no 'stock' in FROM, which has a (line 2, column 7)"),
        ("SELECT k FROM stock [ROWS 1] a, prices [ROWS 1] b",
         "column 'k' is ambiguous; it could be a.k, b.k (line 1, column 8)"),
        ("SELECT tags FROM orders",
         "column orders.tags is list<item: string>, a type that queries cannot use (line 1, column 8)"),
        ("SELECT a.k FROM stock [ROWS 1] a, prices [ROWS 1] a",
         "alias 'a' is used twice in FROM; give each stream its own alias (line 1, column 51)"),
        ("SELECT k AS a, qty AS a FROM stock", "two outputs are called 'a'; rename one (line 1, column 23)"),
        ("SELECT k AS _time FROM stock", "output column '_time' is reserved; give it another alias"),
        ("SELECT a.b.k FROM stock a", "a column is written alias.column, but here is a.b.k (line 1, column 8)"),
        # Functions and types.
        ("SELECT lenght(s) FROM orders", "there is no function 'lenght'; did you mean 'length'? (line 1, column 8)"),
        ("SELECT round(k, 1, 2) FROM stock", "ROUND takes 1 or 2 arguments, not 3 (line 1, column 8)"),
        ("SELECT coalesce() FROM stock", "COALESCE takes at least 1 argument, not 0 (line 1, column 8)"),
        ("SELECT k FROM orders WHERE s = k",
         "cannot compare VARCHAR with BIGINT: orders.s = orders.k (line 1, column 28)"),
        ("SELECT k FROM orders WHERE k IN (1, 'a')",
         "cannot compare BIGINT with VARCHAR: orders.k IN (...) (line 1, column 28)"),
        ("SELECT lower(k) FROM stock", "LOWER takes VARCHAR, but stock.k is INTEGER (line 1, column 8)"),
        ("SELECT s + 1 FROM orders", "cannot compute VARCHAR + BIGINT: orders.s + 1 (line 1, column 8)"),
        ("SELECT 1.5 // 2 FROM orders", "// takes an integer, but 1.5 is DECIMAL(2, 1) (line 1, column 8)"),
        ("SELECT k FROM stock WHERE qty", "WHERE needs a condition, but stock.qty is BIGINT (line 1, column 27)"),
        ("SELECT k FROM stock WHERE NOT qty", "NOT takes a condition, but stock.qty is BIGINT (line 1, column 31)"),
        ("SELECT CASE WHEN k = 1 THEN 'a' ELSE 2 END FROM stock",
         "CASE needs values of one type, not VARCHAR with BIGINT (line 1, column 18)"),
        ("SELECT k FROM orders WHERE day > 'soon'", "'soon' is not a date (line 1, column 28)"),
        ("SELECT ts - ts FROM orders",
         "an INTERVAL cannot be selected; compare it with another: (orders.ts - orders.ts) (line 1, column 8)"),
        ("SELECT ts + INTERVAL 1 MONTH FROM orders",
         "INTERVAL cannot count in MONTH; use a unit of fixed length such as SECONDS or DAYS (line 1, column 8)"),
        ("SELECT CAST(ts AS BIGINT) FROM orders", "cannot cast TIMESTAMP to BIGINT: orders.ts (line 1, column 13)"),
        ("SELECT CAST(s AS JSON) FROM orders", "there is no type JSON in queries (line 1, column 13)"),
        ("SELECT date_trunc('eon', ts) FROM orders",
         "DATE_TRUNC takes one of microsecond, millisecond, second, minute, hour, day, week, month, quarter, year, "
         "not 'eon' (line 1, column 8)"),
        # What the language does not have.
        ("SELECT k FROM stock WHERE count(*) > 1",
         "aggregates such as COUNT do not belong in WHERE; HAVING takes conditions on them (line 1, column 27)"),
        ("SELECT DISTINCT k FROM stock", f"DISTINCT is not supported yet{HOPS} (line 1, column 8)"),
        ("SELECT k FROM stock ORDER BY k", f"ORDER BY is not supported yet{ADVICE['ORDER BY']} (line 1, column 21)"),
        ("SELECT k FROM stock LIMIT 5", f"LIMIT is not supported yet{ADVICE['LIMIT']} (line 1, column 21)"),
        ("WITH s AS (SELECT 1) SELECT * FROM s", f"WITH is not supported yet{ADVICE['WITH']} (line 1, column 1)"),
        ("SELECT k FROM stock UNION ALL SELECT k FROM stock", f"UNION is not supported yet{HOPS} (line 1, column 21)"),
        ("(SELECT k FROM stock) LIMIT 5", f"LIMIT is not supported yet{ADVICE['LIMIT']} (line 1, column 23)"),
        ("SELECT row_number() OVER (PARTITION BY k) FROM stock",
         "window functions (OVER) are not supported (line 1, column 8)"),
        ("SELECT a.k FROM stock [ROWS 1] a LEFT JOIN prices [ROWS 1] b ON a.k = b.k",
         "LEFT JOIN is not supported (outer joins are not supported yet); use JOIN ... ON (line 1, column 44)"),
        ("SELECT a.k FROM stock [ROWS 1] a NATURAL JOIN prices [ROWS 1] b",
         "NATURAL JOIN is not supported; use JOIN ... ON (line 1, column 47)"),
        ("SELECT k FROM (SELECT k FROM stock) a",
         "a subquery in FROM needs a window that slides, and aggregates over it; write for example"
         " FROM (SELECT ...) [ROWS 10 SLIDE 5] a, or write HOP BY ... at the end instead (line 1, column 23)"),
        ("SELECT k FROM stock WHERE k = (SELECT k FROM prices)",
         "subqueries are not supported as values; they can be joined in FROM, in a query with HOP BY at the end"
         " (line 1, column 39)"),
        ("SELECT k FROM stock WHERE EXISTS (SELECT k FROM prices)",
         "EXISTS is only for WHERE ... AND NOT EXISTS (SELECT ...), joined to other conditions by AND, in a query with"
         " HOP BY at the end (line 1, column 27)"),
        ("SELECT k FROM stock WHERE k IN (SELECT k FROM prices)",
         "IN takes a list of values; for a subquery write JOIN (SELECT DISTINCT ...) ON ..., and HOP BY ... at the end"
         " (line 1, column 27)"),
        ("SELECT k FROM stock, LATERAL (SELECT k FROM prices) x",
         f"LATERAL is not supported in FROM{ADVICE['LATERAL']} (line 1, column 38)"),
        ("SELECT k FROM stock, UNNEST([1, 2]) x", "UNNEST is not supported in FROM (line 1, column 30)"),
        # Brackets that are no window.
        ("SELECT k FROM stock []",
         "a window cannot be empty; write for example [RANGE 10 SECONDS] or [ROWS 100] (line 1, column 22)"),
        ("SELECT a.k FROM stock [ROWS 1] a JOIN prices b [ ] ON a.k = b.k",
         "a window cannot be empty; write for example [RANGE 10 SECONDS] or [ROWS 100] (line 1, column 50)"),
        ("SELECT k[] FROM stock", "syntax error near 'FROM': something is missing (line 1, column 12)"),
        ("SELECT k FROM stock [UNBOUNDED]",
         "an unbounded window is not supported: its state would grow forever (line 1, column 22)"),
        ("SELECT k FROM (stock [10 SECONDS])",
         "a window begins with RANGE, ROWS or START WHEN, not with '10'; write for example [RANGE 10 SECONDS] or"
         " [ROWS 100] (line 1, column 23)"),
        ("SELECT k[1] FROM stock", "this expression is not supported: k[1] (line 1, column 8)"),
        ("SELECT x FROM generate_series(1, 5)", "table functions are not supported in FROM (line 1, column 15)"),
        ("SELECT k FROM stock TABLESAMPLE 10%", "TABLESAMPLE is not supported after FROM (line 1, column 15)"),
        ("SELECT [1, 2] FROM stock", "this expression is not supported: [1, 2] (line 1, column 9)"),
        ("SELECT k & 1 FROM stock", "this expression is not supported: k & 1 (line 1, column 8)"),
        ("SELECT $1 FROM stock", "query parameters are not supported"),
        ("SELECT * EXCLUDE (k) FROM stock", "* with EXCLUDE, REPLACE or RENAME is not supported (line 1, column 8)"),
    ],
)  # fmt: skip
def test_errors(text: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        parse_query(text, CATALOG)
    assert str(error.value) == message


def test_place_is_also_data() -> None:
    with pytest.raises(SqlError) as error:
        parse_query("SELECT k,\n  zz\nFROM stock", CATALOG)
    assert (error.value.line, error.value.column) == (2, 3)


def test_no_streams() -> None:
    with pytest.raises(SqlError, match="there is no stream 'stock'; no stream is declared"):
        parse_query("SELECT k FROM stock", [])


def test_depth_is_an_error_not_a_crash() -> None:
    with pytest.raises(SqlError, match="nested too deeply"):
        parse_query(f"SELECT k FROM stock WHERE {'(' * 5000}k = 1{')' * 5000}", CATALOG)


WORDS = (
    "SELECT FROM WHERE AND OR NOT a b k x s orders stock . , ( ) [ ] RANGE ROWS 10 SECONDS 1.5 'abc' = < + - * || LIKE"
    " IN IS NULL BETWEEN CASE WHEN THEN ELSE END CAST AS INT DECIMAL(5,2) JOIN ON USING LEFT lower round extract year"
    " interval day :: ; \" ' -- /* */ GROUP BY LIMIT UNION WITH VALUES PARTITION OVER SLIDE ? $1 { } => : ~ ^ ! é"
)
SENTENCE = "SELECT a.k , x + 1 AS y FROM orders [ RANGE 10 SECONDS ] a WHERE x > 1 AND s LIKE 'a%'"


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_text_is_a_query_or_an_error(data: st.DataObject) -> None:
    words = SENTENCE.split()
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(words) - 1))
        words[place : place + data.draw(st.integers(0, 1))] = [data.draw(st.sampled_from(WORDS.split()))]
    try:
        query = parse_query(" ".join(words), CATALOG)
    except SqlError:
        return
    assert parse_query(str(query), CATALOG) == query


def test_many_conjuncts_are_fine() -> None:
    text = " AND ".join(f"k <> {n}" for n in range(400))
    assert len(parse_query(f"SELECT k FROM stock WHERE {text}", CATALOG).parts.first.conjuncts) == 400
