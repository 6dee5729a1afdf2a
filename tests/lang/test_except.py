"""EXCEPT: a chain of differences as text, and what of it is refused."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lang.streams import CATALOG

from midstream.lang.bind.clauses import ADVICE
from midstream.lang.sql import parse_query
from midstream.model.errors import SqlError
from midstream.plan.query import Query
from midstream.plan.window import RangeWindow, RowsWindow

ORDERS = "SELECT k, s FROM orders [RANGE 10 SECONDS]"
PRICES = "SELECT k, Unit FROM prices [ROWS 100] WHERE price > 1"
STOCK = "SELECT k, 'x' FROM stock [ROWS 2 PARTITION BY k] t WHERE t.qty = 3 AND k > 0"


def parse(text: str) -> Query:
    return parse_query(text, CATALOG)


HOPS = "; a query that hops can do it: write HOP BY ... at the end"


@pytest.mark.parametrize(
    "text",
    [
        f"{ORDERS} EXCEPT {PRICES} EXCEPT {STOCK}",
        f"(({ORDERS}) EXCEPT ({PRICES})) EXCEPT ({STOCK});",
        f"(({ORDERS} EXCEPT {PRICES}) EXCEPT {STOCK})",
        f"{ORDERS} EXCEPT DISTINCT {PRICES} except {STOCK}",
        f"{ORDERS} EXCEPT\n{PRICES} -- and then\nEXCEPT {STOCK}".replace("k, s", "ORDERS.k AS k, s"),
    ],
)
def test_a_chain_is_read_from_left_to_right(text: str) -> None:
    query = parse(text)
    assert query == parse(f"{ORDERS} EXCEPT {PRICES} EXCEPT {STOCK}")
    assert query.aliases == ("orders", "prices", "t")
    assert [s.window for s in query.sources[:2]] == [RangeWindow(10_000_000), RowsWindow(100)]
    assert [o.name for o in query.parts.first.outputs] == ["k", "s"], "the first SELECT names the columns"
    assert [list(map(str, s.values)) for s in query.parts.taken] == [
        ["prices.k", "prices.Unit"],
        ["CAST(t.k AS BIGINT)", "'x'"],
    ]
    assert [list(map(str, s.conjuncts)) for s in query.parts.taken] == [
        ["(prices.price > 1.0)"],
        ["(t.qty = 3)", "(t.k > 0)"],
    ]
    assert query.parts.first.conjuncts == ()
    assert parse(str(query)) == query


def test_the_text_of_a_difference() -> None:
    text = str(parse(f"{ORDERS} WHERE x = 1 EXCEPT {PRICES}"))
    assert text == (
        "SELECT orders.k, orders.s\nFROM orders [RANGE 10 SECONDS]\nWHERE (orders.x = 1)\n"
        "EXCEPT\n"
        "SELECT prices.k, prices.Unit\nFROM prices [ROWS 100]\nWHERE (prices.price > 1.0)"
    )


@pytest.mark.parametrize(
    ("first", "second", "common"),
    [
        ("k", "k", pa.int64()),
        ("x", "k", pa.int64()),
        ("x", "price", pa.float64()),
        ("amount", "10.5", pa.decimal128(10, 2)),
        ("1.5", "2.5", pa.float64()),
        ("NULL", "k", pa.int64()),
        ("day", "'2024-01-01'", pa.date32()),
        ("NULL", "NULL", pa.null()),
        ("open", "TRUE", pa.bool_()),
    ],
)
def test_columns_get_the_type_they_are_compared_in(first: str, second: str, common: pa.DataType) -> None:
    query = parse(f"SELECT {first} AS v FROM orders [ROWS 1] EXCEPT SELECT {second} FROM prices [ROWS 1]")
    assert query.schema == pa.schema([("v", common)])
    assert [v.type for v in query.parts.taken[0].values] == [common]
    assert parse(str(query)) == query


def test_a_star_stands_for_its_columns() -> None:
    query = parse("SELECT * FROM stock [ROWS 1] a EXCEPT SELECT b.* FROM stock [ROWS 2] b")
    assert query.schema.names == ["ts", "k", "qty"]
    assert list(map(str, query.parts.taken[0].values)) == ["b.ts", "b.k", "b.qty"]


def test_a_stream_that_is_read_twice_gets_another_alias() -> None:
    query = parse("SELECT k FROM stock [ROWS 1] EXCEPT SELECT stock.k FROM stock [ROWS 2]")
    assert query.aliases == ("stock", "stock_2")
    assert parse(str(query)) == query


def test_a_constant_condition_is_about_its_side() -> None:
    query = parse("SELECT k FROM stock [ROWS 1] a EXCEPT SELECT k FROM stock [ROWS 1] b WHERE 1 > 2")
    assert query.parts.first.conjuncts == ()
    assert list(map(str, query.parts.taken[0].conjuncts)) == ["(1 > 2)"]


A, B = "SELECT k FROM stock [ROWS 1] a", "SELECT k FROM stock [ROWS 1] b"
C = "SELECT k FROM prices [ROWS 1] c"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{A} EXCEPT ALL {B}",
         f"EXCEPT ALL is not supported; EXCEPT compares values, however often they appear{HOPS} (line 1, column 32)"),
        (f"{A} UNION {B}", f"UNION is not supported yet{HOPS} (line 1, column 32)"),
        (f"{A} EXCEPT {B}\nINTERSECT {C}", f"INTERSECT is not supported yet{HOPS} (line 2, column 1)"),
        (f"{A} EXCEPT {B}\nUNION {C}", f"UNION is not supported yet{HOPS} (line 2, column 1)"),
        (f"{A}\nEXCEPT ({B} EXCEPT {C})",
         "the right side of EXCEPT is one SELECT; a difference is taken from left to right: (a EXCEPT b) EXCEPT c"
         f"{HOPS} (line 2, column 1)"),
        (f"({A}) z EXCEPT {B}", "a query in parentheses has no name, but here is 'z' (line 1, column 34)"),
        (f"{A} EXCEPT BY NAME {B}", "BY NAME is not supported yet"),
        (f"{A} EXCEPT {B} ORDER BY k", f"ORDER BY is not supported yet{ADVICE['ORDER BY']} (line 1, column 70)"),
        (f"({A} EXCEPT {B}) LIMIT 3", f"LIMIT is not supported yet{ADVICE['LIMIT']} (line 1, column 72)"),
        (f"WITH w AS ({C}) {A} EXCEPT {B}", f"WITH is not supported yet{ADVICE['WITH']} (line 1, column 1)"),
        (f"{A} EXCEPT SELECT DISTINCT k FROM prices [ROWS 1]",
         f"DISTINCT is not supported yet{HOPS} (line 1, column 46)"),
        (f"{A} EXCEPT SELECT k FROM prices",
         "stream 'prices' is in a difference without a window; write for example prices [RANGE 10 SECONDS]"
         " (line 1, column 53)"),
        (f"SELECT k FROM stock s EXCEPT {C}",
         "stream 's' is in a difference without a window; write for example stock [RANGE 10 SECONDS] s"
         " (line 1, column 15)"),
        (f"{A} EXCEPT SELECT x.k FROM prices [ROWS 1] x, stock [ROWS 1] y",
         f"each side of EXCEPT reads one stream, but here is 'y' beside 'x'{HOPS} (line 1, column 74)"),
        (f"{A} EXCEPT SELECT k, price FROM prices [ROWS 1]",
         "both sides of EXCEPT select as many columns, but the left selects 1 and the right 2 (line 1, column 46)"),
        (f"SELECT k, qty FROM stock [ROWS 1] EXCEPT {C}",
         "both sides of EXCEPT select as many columns, but the left selects 2 and the right 1 (line 1, column 49)"),
        (f"{A} EXCEPT {C} EXCEPT\nSELECT Unit FROM prices [ROWS 1]",
         "column 1 on the right of EXCEPT is VARCHAR, which cannot be compared with INTEGER on the left; cast one of"
         " them (line 2, column 8)"),
        ("SELECT day FROM orders [ROWS 1] EXCEPT SELECT 'soon' AS s FROM prices [ROWS 1]",
         "'soon' is not a date (line 1, column 47)"),
        (f"SELECT k AS _sign FROM stock [ROWS 1] EXCEPT {C}",
         "output column '_sign' is reserved; give it another alias"),
        (f"{A} EXCEPT SELECT a.k FROM prices [ROWS 1] c", "there is no 'a' in FROM, which has c (line 1, column 46)"),
        (f"{A} EXCEPT SELECT 1 AS one", "the query reads no stream; FROM is missing"),
        (f"{A} EXCEPT VALUES (1)", "values are not supported in FROM (line 1, column 47)"),
    ],
)  # fmt: skip
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        parse(text)
    assert str(error.value) == message


def test_a_chain_has_an_end() -> None:
    sides = [f"SELECT k FROM stock [ROWS 1] a{n}" for n in range(63)]
    assert len(parse(" EXCEPT ".join(sides[:62])).sources) == 62
    with pytest.raises(SqlError, match="at most 62 streams, not 63"):
        parse(" EXCEPT ".join(sides))


WORDS = "SELECT FROM WHERE k s 'x' orders prices [ ] ROWS 1 , ( ) EXCEPT ALL UNION * NULL a b . ; = <"

SENTENCE = "( SELECT k , s FROM orders [ ROWS 1 ] a ) EXCEPT SELECT k , 'x' FROM prices [ ROWS 1 ] b"


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_text_is_a_difference_or_an_error(data: st.DataObject) -> None:
    words = SENTENCE.split()
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(words) - 1))
        words[place : place + data.draw(st.integers(0, 1))] = [data.draw(st.sampled_from(WORDS.split()))]
    try:
        query = parse(" ".join(words))
    except SqlError:
        return
    assert parse(str(query)) == query
