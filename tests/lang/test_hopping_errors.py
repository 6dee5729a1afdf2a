"""What of hopping queries is refused: one sentence each, with the place in the text."""

import pytest
from lang.streams import CATALOG

from midstream.lang.bind.clauses import ADVICE
from midstream.lang.sql import parse_query
from midstream.model.errors import SqlError

A, B = "SELECT k FROM stock [ROWS 1] a", "SELECT k FROM stock [ROWS 1] b"
HOP = "HOP BY 30 SECONDS"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{A} EMIT DELTA", "EMIT belongs after HOP BY; write for example HOP BY 30 SECONDS EMIT DELTA"
         " (line 1, column 32)"),
        (f"{A} EMIT DELTA {HOP}", "EMIT belongs after HOP BY; write for example HOP BY 30 SECONDS EMIT DELTA"
         " (line 1, column 32)"),
        (f"{A} {HOP} EMIT CHANGES", "EMIT takes COMPLETE or DELTA, but here is 'CHANGES' (line 1, column 55)"),
        (f"{A} {HOP} EMIT", "EMIT takes COMPLETE or DELTA, but here is the end of the text (line 1, column 54)"),
        (f"{A} {HOP} {HOP}", "HOP BY ends the query, but after it is 'HOP' (line 1, column 50)"),
        (f"{A} {HOP}; {B} {HOP}", "a query has one HOP BY, but here is a second (line 1, column 82)"),
        (f"{A} {HOP} WHERE k > 1", "HOP BY ends the query, but after it is 'WHERE' (line 1, column 50)"),
        (f"{A} {HOP} UNION {B}", "HOP BY ends the query, but after it is 'UNION' (line 1, column 50)"),
        (f"SELECT k FROM ({A} {HOP}) z",
         "HOP BY stands at the end of the whole query, not inside parentheses (line 1, column 47)"),
        (f"({A} {HOP})", "HOP BY stands at the end of the whole query, not inside parentheses (line 1, column 33)"),
        (f"{A} HOP BY", "HOP BY needs a number here; write for example HOP BY 30 SECONDS, or HOP BY 100 ROWS"
         " (line 1, column 38)"),
        (f"{A} HOP BY k", "HOP BY needs a number here; write for example HOP BY 30 SECONDS, or HOP BY 100 ROWS"
         " (line 1, column 39)"),
        (f"{A} HOP BY 30", "HOP BY needs a unit of time, for example SECONDS (line 1, column 41)"),
        (f"{A} HOP BY 30 EMIT DELTA", "HOP BY needs a unit of time, for example SECONDS (line 1, column 42)"),
        (f"{A} HOP BY 30 COLUMNS",
         "'COLUMNS' is not a unit of time HOP BY can have; write for example HOP BY 30 SECONDS, or HOP BY 100 ROWS"
         " (line 1, column 42)"),
        *((f"{A} HOP BY {n} ROWS",
           "a hop is after a whole number of rows; write for example HOP BY 100 ROWS (line 1, column 32)")
          for n in ("0", "-3", "1.5", "99999999999999999999")),
        (f"{A} HOP BY 30 ROWS WHERE k > 1", "HOP BY ends the query, but after it is 'WHERE' (line 1, column 47)"),
        (f"{A} HOP BY 0 SECONDS", "a hop is longer than nothing: HOP BY 0 SECONDS (line 1, column 32)"),
        (f"{A} HOP BY -5 SECONDS", "a hop is longer than nothing: HOP BY -5 SECONDS (line 1, column 32)"),
        (f"{A} HOP BY 99999999999 DAYS", "a hop this long cannot be counted in microseconds (line 1, column 32)"),
    ],
)  # fmt: skip
def test_the_clause(text: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        parse_query(text, CATALOG)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # Windows.
        ("SELECT k FROM stock s",
         "stream 's' needs a window with HOP BY; write for example stock [RANGE 10 SECONDS] s (line 1, column 15)"),
        (f"{A} WHERE NOT EXISTS (SELECT 1 FROM prices)",
         "stream 'prices' needs a window with HOP BY; write for example prices [RANGE 10 SECONDS]"
         " (line 1, column 64)"),
        ("SELECT COUNT(*) FROM stock [ROWS 5 SLIDE 5]",
         "a window that slides does not go with HOP BY, which says when there are results; write [RANGE ...] or"
         " [ROWS ...] (line 1, column 34)"),
        ("SELECT COUNT(*) FROM stock [START WHEN k = 1 END WHEN k = 2]",
         "a window that begins and ends by conditions does not go with HOP BY, which says when there are results; write"
         " [RANGE ...] or [ROWS ...] (line 1, column 29)"),
        ("SELECT k FROM stock [RANGE 0 SECONDS]",
         "a window of no length is empty at every hop: [RANGE 0 SECONDS] (line 1, column 28)"),
        ("SELECT k FROM stock [ROWS 5 PARTITION BY zz]",
         "stream 'stock' has no column 'zz'; its columns are ts, k, qty (line 1, column 27)"),
        (f"SELECT k FROM ({A}) [ROWS 3] z",
         "with HOP BY a window stands after a stream, not after a subquery (line 1, column 54)"),
        (f"SELECT k FROM ({A}) z [ROWS 3]",
         "with HOP BY a window stands after a stream, not after a subquery (line 1, column 56)"),
        # Set operations.
        (f"{A} INTERSECT ALL {B}", "INTERSECT ALL is not supported; INTERSECT is (line 1, column 32)"),
        (f"{A} UNION BY NAME {B}", "BY NAME is not supported yet"),
        (f"{A} EXCEPT {B} ORDER BY k", f"ORDER BY is not supported yet{ADVICE['ORDER BY']} (line 1, column 70)"),
        (f"({A} EXCEPT {B}) LIMIT 3", f"LIMIT is not supported yet{ADVICE['LIMIT']} (line 1, column 72)"),
        (f"({A}) z UNION {B}", "a query in parentheses has no name, but here is 'z' (line 1, column 34)"),
        (f"{A} UNION SELECT k, qty FROM stock [ROWS 1]",
         "both sides of UNION select as many columns, but the left selects 1 and the right 2 (line 1, column 45)"),
        (f"{A} EXCEPT SELECT * FROM stock [ROWS 1]",
         "both sides of EXCEPT select as many columns, but the left selects 1 and the right 3 (line 1, column 46)"),
        (f"{A} EXCEPT SELECT Unit FROM prices [ROWS 1]",
         "column 1 on the right of EXCEPT is VARCHAR, which cannot be compared with INTEGER on the left; cast one of"
         " them (line 1, column 46)"),
        (f"{A} INTERSECT SELECT Unit FROM prices [ROWS 1]",
         "column 1 on the right of INTERSECT is VARCHAR, which cannot be compared with INTEGER on the left; cast one of"
         " them (line 1, column 49)"),
        ("SELECT day FROM orders [ROWS 1] UNION SELECT 'soon' AS s FROM prices [ROWS 1]",
         "'soon' is not a date (line 1, column 46)"),
        (f"{A} EXCEPT SELECT a.k FROM prices [ROWS 1] c", "there is no 'a' in FROM, which has c (line 1, column 46)"),
        (f"{A} UNION SELECT 1 AS one", "the query reads no stream; FROM is missing"),
        (f"WITH w AS ({A}) {B}", f"WITH is not supported yet{ADVICE['WITH']} (line 1, column 1)"),
        # Subqueries as conditions.
        (f"{A} WHERE EXISTS (SELECT 1 FROM stock [ROWS 1] b)",
         "EXISTS is only for WHERE ... AND NOT EXISTS (SELECT ...), joined to other conditions by AND, in a query with"
         " HOP BY at the end (line 1, column 38)"),
        (f"{A} WHERE k > 1 OR NOT EXISTS ({B})",
         "EXISTS is only for WHERE ... AND NOT EXISTS (SELECT ...), joined to other conditions by AND, in a query with"
         " HOP BY at the end (line 1, column 51)"),
        (f"{A} WHERE k NOT IN ({B})",
         "NOT IN takes a list of values; for a subquery write NOT EXISTS (SELECT ...), and HOP BY ... at the end"
         " (line 1, column 38)"),
        (f"{A} WHERE k IN ({B})",
         "IN takes a list of values; for a subquery write JOIN (SELECT DISTINCT ...) ON ..., and HOP BY ... at the end"
         " (line 1, column 38)"),
        (f"{A} WHERE k = (SELECT k FROM prices [ROWS 1])",
         "subqueries are not supported as values; they can be joined in FROM, in a query with HOP BY at the end"
         " (line 1, column 50)"),
        (f"{A} WHERE NOT EXISTS ({A} EXCEPT {B})",
         "NOT EXISTS takes one SELECT, without set operations (line 1, column 42)"),
        (f"{A} WHERE NOT EXISTS (SELECT COUNT(*) FROM stock [ROWS 1] b)",
         "COUNT is not supported in NOT EXISTS (line 1, column 57)"),
        (f"{A} WHERE NOT EXISTS (SELECT k FROM stock [ROWS 1] b GROUP BY k)",
         "GROUP BY is not supported in NOT EXISTS (line 1, column 81)"),
        (f"{A} WHERE NOT EXISTS ({B} LIMIT 1)", f"LIMIT is not supported yet{ADVICE['LIMIT']} (line 1, column 81)"),
        (f"{A} WHERE NOT EXISTS (SELECT zz FROM stock [ROWS 1] b)",
         "there is no column 'zz'; the columns are ts, k, qty (line 1, column 57)"),
        (f"{A} WHERE NOT EXISTS ({B} WHERE b.k = z.k)", "there is no 'z' in FROM, which has b (line 1, column 93)"),
        (f"{A} WHERE NOT EXISTS ({B} WHERE NOT EXISTS (SELECT 1 FROM prices [ROWS 1] p WHERE p.k = a.k))",
         "NOT EXISTS reads the query right around it, but this is from further outside: (p.k = CAST(a.k AS BIGINT))"
         " (line 1, column 106)"),
        (f"{A} WHERE NOT EXISTS (SELECT 1 FROM (SELECT k FROM stock [ROWS 1] b WHERE b.k = a.k) z)",
         "there is no 'a' in FROM, which has b (line 1, column 108)"),
        # Joins and FROM.
        (f"{A} LEFT JOIN stock [ROWS 1] b ON a.k = b.k",
         "LEFT JOIN is not supported (outer joins are not supported yet); use JOIN ... ON (line 1, column 42)"),
        (f"{A} SEMI JOIN stock [ROWS 1] b ON a.k = b.k",
         "SEMI JOIN is not supported; use JOIN ... ON (line 1, column 42)"),
        (f"{A} ANTI JOIN stock [ROWS 1] b USING (k)",
         "an ANTI JOIN is written a ANTI JOIN b ON ... (line 1, column 42)"),
        ("SELECT b.k FROM stock [ROWS 1] a ANTI JOIN stock [ROWS 1] b ON a.k = b.k",
         "there is no 'b' in FROM, which has a (line 1, column 8)"),
        ("SELECT 1 FROM stock [ROWS 1] a, stock [ROWS 1] a",
         "alias 'a' is used twice in FROM; give each stream its own alias (line 1, column 48)"),
        (f"SELECT 1 FROM ({A}) a, ({B}) a",
         "alias 'a' is used twice in FROM; give each stream its own alias (line 1, column 84)"),
        (f"SELECT zz FROM ({A}) z", "there is no column 'zz'; the columns are k (line 1, column 8)"),
        (f"SELECT z.x FROM ({A}) z", "subquery 'z' has no column 'x'; its columns are k (line 1, column 8)"),
        (f"SELECT x FROM ({A}) z(x)", "renaming the columns of a subquery is not supported (line 1, column 48)"),
        # Groups and outputs.
        ("SELECT k, COUNT(*) FROM stock [ROWS 1]",
         "column 'k' is neither in GROUP BY nor inside an aggregate (line 1, column 8)"),
        ("SELECT 1 AS one FROM stock [ROWS 1] HAVING 1 > 0",
         "HAVING needs GROUP BY or an aggregate (line 1, column 37)"),
        ("SELECT k FROM stock [ROWS 1] WHERE COUNT(*) > 1",
         "aggregates such as COUNT do not belong in WHERE; HAVING takes conditions on them (line 1, column 36)"),
        ("SELECT DISTINCT ON (k) k FROM stock [ROWS 1]", "DISTINCT ON is not supported (line 1, column 8)"),
        ("SELECT k AS _hop FROM stock [ROWS 1]", "output column '_hop' is reserved; give it another alias"),
        ("SELECT tags FROM orders [ROWS 1]",
         "column orders.tags is list<item: string>, a type that queries cannot use (line 1, column 8)"),
        ("SELECT INTERVAL 1 DAY FROM orders [ROWS 1]",
         "an INTERVAL cannot be selected; compare it with another: INTERVAL 1 DAY"),
    ],
)  # fmt: skip
def test_the_query(text: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        parse_query(f"{text} {HOP}", CATALOG)
    assert str(error.value) == message
