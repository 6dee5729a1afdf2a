"""Hopping queries as text: the algebra they mean, its aliases, types and windows."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lang.streams import CATALOG

from midstream.lang.sql import parse_query
from midstream.model.errors import SqlError
from midstream.model.stream import StreamSchema
from midstream.plan.aggregates import UserAggregate
from midstream.plan.algebra import (
    Anti,
    Distinct,
    Except,
    Group,
    Join,
    Project,
    Rel,
    Scan,
    Select,
    Union,
    inputs,
    name_of,
    relation_text,
)
from midstream.plan.query import Query
from midstream.plan.window import RangeWindow, RowsWindow

SECOND = 1_000_000
A, B, C = "orders [RANGE 10 SECONDS]", "prices [ROWS 5]", "stock [ROWS 3 PARTITION BY k]"


def parse(text: str, hop: str = "HOP BY 30 SECONDS") -> Query:
    query = parse_query(f"{text} {hop}", CATALOG)
    assert query.hop_us is not None
    return query


def tree(text: str) -> str:
    return relation_text(parse(text).root)


def lines(rel: Rel, depth: int = 0) -> list[str]:
    """Write a tree with what each operator computes, one line for each."""
    match rel:
        case Scan(source=source, columns=columns):
            told = f"{source}: {', '.join(c.name for c in columns)}"
        case Project(outputs=outputs):
            told = ", ".join(f"{column} = {expr}" for column, expr in outputs)
        case Group(alias=alias, keys=keys, aggregates=aggregates):
            told = f"{alias}: {', '.join(map(str, keys))}; {', '.join(map(str, aggregates))}"
        case Select(conjuncts=conjuncts) | Join(conjuncts=conjuncts) | Anti(conjuncts=conjuncts):
            told = ", ".join(map(str, conjuncts))
        case Except() | Union() | Distinct():
            told = ", ".join(map(str, rel.columns))
    below = [line for child in inputs(rel) for line in lines(child, depth + 1)]
    return [f"{'  ' * depth}{name_of(rel)} {told}".rstrip(), *below]


def written(text: str) -> str:
    return "\n".join(lines(parse(text).root))


@pytest.mark.parametrize(
    ("hop", "hop_us", "emit"),
    [
        ("HOP BY 30 SECONDS", 30 * SECOND, "complete"),
        ("hop by 30 seconds;", 30 * SECOND, "complete"),
        ("HOP BY 500 MILLISECONDS EMIT COMPLETE", SECOND // 2, "complete"),
        ("HOP BY 1 MINUTE EMIT DELTA", 60 * SECOND, "delta"),
        ("HOP BY 1.5 s emit Delta ;", 3 * SECOND // 2, "delta"),
        ("HOP BY INTERVAL '2 hours' /* or so */ EMIT DELTA -- only", 7200 * SECOND, "delta"),
    ],
)
def test_the_clause(hop: str, hop_us: int, emit: str) -> None:
    query = parse(f"SELECT k FROM {A}", hop)
    assert (query.hop_us, query.emit) == (hop_us, emit)
    assert query.text == f"SELECT k FROM {A} {hop}"


def test_without_the_clause_a_query_answers_row_by_row() -> None:
    for text in (f"SELECT k FROM {A}", "SELECT hop.k AS emit FROM stock hop"):
        query = parse_query(text, CATALOG)
        assert (query.when, query.emit, query.hop_us, query.signed) == ("row", "results", None, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"SELECT k FROM {A}", "(project orders)"),
        (f"(SELECT k FROM {A})", "(project orders)"),
        (f"SELECT k FROM {A} WHERE x > 1", "(project (select orders))"),
        (f"SELECT DISTINCT k FROM {A}", "(distinct (project orders))"),
        (f"SELECT o.k FROM {A} o, {B} p", "(project (join o p))"),
        (f"SELECT 1 FROM {A} o CROSS JOIN {B} p JOIN {C} s ON s.k = p.k", "(project (join (join o p) s))"),
        (f"SELECT 1 FROM {A} o JOIN ({B} p JOIN {C} s ON s.k = p.k) ON o.k = p.k", "(project (join (join o p) s))"),
        (f"SELECT k FROM {A} EXCEPT SELECT k FROM {B}", "(except (project orders) (project prices))"),
        (f"SELECT k FROM {A} EXCEPT ALL SELECT k FROM {B}", "(except-all (project orders) (project prices))"),
        (f"SELECT k FROM {A} UNION ALL SELECT k FROM {B}", "(union (project orders) (project prices))"),
        (f"SELECT k FROM {A} UNION SELECT k FROM {B}", "(distinct (union (project orders) (project prices)))"),
        (f"SELECT k FROM {A} EXCEPT DISTINCT (SELECT k FROM {B} UNION ALL SELECT k FROM {B})",
         "(except (project orders) (union (project prices) (project prices_2)))"),
        (f"SELECT k FROM {A} EXCEPT SELECT k FROM {B} UNION ALL SELECT k FROM {B}",
         "(union (except (project orders) (project prices)) (project prices_2))"),
        (f"SELECT k FROM {A} EXCEPT (SELECT k FROM {B} EXCEPT SELECT k FROM {A})",
         "(except (project orders) (except (project prices) (project orders_2)))"),
        (f"SELECT k FROM {A} INTERSECT SELECT k FROM {B}",
         "(except (project orders) (except (project orders_2) (project prices)))"),
        (f"SELECT k FROM {B} UNION ALL SELECT k FROM {A} INTERSECT SELECT k FROM {B}",
         "(union (project prices) (except (project orders) (except (project orders_2) (project prices_2))))"),
        (f"SELECT n FROM (SELECT k AS n FROM {A}) z", "(project (project orders))"),
        (f"SELECT n FROM ((SELECT k AS n FROM {A} EXCEPT SELECT k FROM {B})) z",
         "(project (except (project orders) (project prices)))"),
        (f"SELECT y.k FROM ((SELECT k FROM {A}) z JOIN {B} y ON z.k = y.k)", "(project (join (project orders) y))"),
        (f"SELECT k FROM (SELECT DISTINCT k FROM {A}) WHERE k > 1", "(project (select (distinct (project orders))))"),
        (f"SELECT k FROM {A} WHERE NOT EXISTS (SELECT 1 FROM {B} p WHERE p.k = orders.k)",
         "(project (anti orders p))"),
        (f"SELECT k FROM {A} o ANTI JOIN {B} p ON p.k = o.k WHERE x = 1", "(project (anti (select o) p))"),
        (f"SELECT o.k FROM {A} o LEFT ANTI JOIN (SELECT k FROM {B}) p ON p.k = o.k, {C} s",
         "(project (anti (join o s) (project prices)))"),
        (f"SELECT COUNT(*) FROM {A}", "(project (group orders))"),
        (f"SELECT k FROM {A} GROUP BY k HAVING SUM(x) > 1", "(project (select (group orders)))"),
        (f"SELECT DISTINCT MAX(k) FROM {A} o JOIN {B} p USING (k) WHERE x = 1 GROUP BY s",
         "(distinct (project (group (join (select o) p))))"),
        (f"SELECT k FROM {A} WHERE 1 > 2", "(project (select orders))"),
    ],
)  # fmt: skip
def test_shapes(text: str, expected: str) -> None:
    assert tree(text) == expected


def test_conditions_stand_as_low_as_they_can() -> None:
    text = f"""
        SELECT o.k + 1 AS next, p.* FROM {A} o, {B} p JOIN {C} s ON s.k = o.x
        WHERE o.k = p.k AND p.price > 3 AND (NOT (o.open OR o.x <= 2) AND (1 < 2)) AND s.k + p.k > o.k AND p.price > 3
    """
    assert (
        written(text)
        == """\
project "#1".next = (o.k + 1), "#1".ts = p.ts, "#1".k = p.k, "#1".price = p.price, "#1".Unit = p.Unit
  select (1 < 2)
    join (s.k = o.x), ((CAST(s.k AS BIGINT) + p.k) > o.k)
      join (o.k = p.k)
        select (NOT o.open), (o.x > 2)
          scan orders [RANGE 10 SECONDS] o: k, x, open
        select (p.price > 3.0)
          scan prices [ROWS 5] p: ts, k, price, Unit
      scan stock [ROWS 3 PARTITION BY k] s: k"""
    )


def test_not_exists_reads_the_query_around_it() -> None:
    text = f"""
        SELECT k FROM {A} WHERE open AND NOT EXISTS (
            SELECT *, 'x' FROM {A}, {B} p
            WHERE orders.k = p.k AND price > 1 AND p.k = x AND NOT EXISTS (SELECT 1 FROM {C} s WHERE s.k = p.k)
        ) AND NOT (EXISTS (SELECT 1 FROM {C} t WHERE t.k = orders.k OR x > 5)) AND (1 = 2)
    """
    assert (
        written(text)
        == """\
project "#1".k = orders.k
  select (1 = 2)
    anti ((CAST(t.k AS BIGINT) = orders.k) OR (orders.x > 5))
      anti
        select orders.open
          scan orders [RANGE 10 SECONDS]: k, x, open
        anti (CAST(s.k AS BIGINT) = p.k)
          join (orders_2.k = p.k), (p.k = CAST(orders_2.x AS BIGINT))
            scan orders [RANGE 10 SECONDS] orders_2: k, x
            select (p.price > 1.0)
              scan prices [ROWS 5] p: k, price
          scan stock [ROWS 3 PARTITION BY k] s: k
      scan stock [ROWS 3 PARTITION BY k] t: k"""
    )


def test_not_exists_takes_names_from_inside_first_and_conditions_anywhere() -> None:
    text = f"""
        SELECT p.k FROM {B} p WHERE NOT EXISTS (
            SELECT 1 FROM {C} p JOIN {A} o ON o.k = price AND o.x > 1 WHERE p.qty = 7 AND Unit = 'kg' AND 1 = 1
        )
    """
    assert (
        written(text)
        == """\
project "#1".k = p.k
  anti (CAST(o.k AS DOUBLE) = p.price), (p.Unit = 'kg')
    scan prices [ROWS 5] p: k, price, Unit
    select (1 = 1)
      join
        select (p_2.qty = 7)
          scan stock [ROWS 3 PARTITION BY k] p_2: qty
        select (o.x > 1)
          scan orders [RANGE 10 SECONDS] o: k, x"""
    )


def test_groups() -> None:
    text = f"""
        SELECT s AS name, SUM(x) / COUNT(*) + k AS v, COUNT(DISTINCT p.price) FROM {A} JOIN {B} p USING (k)
        WHERE open GROUP BY name, k HAVING COUNT(*) > 1 AND MEDIAN(price) < 5 AND v > 0
    """
    assert (
        written(text)
        == """\
project "#2".name = "#1".key0, "#2".v = ((CAST("#1".agg0 AS DOUBLE) / CAST("#1".agg1 AS DOUBLE)) + \
CAST("#1".key1 AS DOUBLE)), "#2"."COUNT(DISTINCT p.price)" = "#1".agg2
  select ("#1".agg1 > 1), ("#1".agg3 < 5.0), (((CAST("#1".agg0 AS DOUBLE) / CAST("#1".agg1 AS DOUBLE)) + \
CAST("#1".key1 AS DOUBLE)) > 0.0)
    group #1: orders.s, orders.k; SUM(orders.x), COUNT(*), COUNT(DISTINCT p.price), MEDIAN(p.price)
      join (orders.k = p.k)
        select orders.open
          scan orders [RANGE 10 SECONDS]: k, x, s, open
        scan prices [ROWS 5] p: k, price"""
    )


def test_a_key_may_be_part_of_another() -> None:
    query = f"SELECT k, k + x AS sum_of, k + x + k AS more FROM {A} GROUP BY k + x, k"
    top = '"#2".k = "#1".key1, "#2".sum_of = "#1".key0, "#2".more = ("#1".key0 + "#1".key1)'
    assert written(query).splitlines()[0] == f"project {top}"


def test_groups_of_groups_and_no_rows_read() -> None:
    text = f"SELECT MAX(n) AS most FROM (SELECT k, COUNT(*) AS n FROM {A} GROUP BY k) z"
    assert (
        written(text)
        == """\
project "#3".most = "#2".agg0
  group #2: ; MAX(z.n)
    project z.k = "#1".key0, z.n = "#1".agg0
      group #1: orders.k; COUNT(*)
        scan orders [RANGE 10 SECONDS]: k"""
    )
    assert written(f"SELECT COUNT(*) AS n FROM {A}").endswith("scan orders [RANGE 10 SECONDS]: ts")
    assert written(f"SELECT 1 AS one FROM {C}").endswith("scan stock [ROWS 3 PARTITION BY k]: ts")


def test_aggregates_of_the_user() -> None:
    p90 = UserAggregate("p90", lambda values: None, pa.float64())
    query = parse_query(f"SELECT P90(x) AS high FROM {A} HOP BY 5 SECONDS", CATALOG, {"p90": p90})
    assert query.hop_us is not None
    assert query.schema == pa.schema([("high", pa.float64())])


def test_aliases_are_distinct_all_through_the_tree() -> None:
    text = f"SELECT g.k FROM {A} g EXCEPT SELECT G.k FROM {B} g EXCEPT SELECT g.k FROM {C} g, stock [ROWS 1] g_2"
    assert tree(text.replace("G.", "g.")) == "(except (except (project g) (project g_3)) (project (join g_4 g_2)))"
    text = f"SELECT g.k FROM (SELECT g.k FROM (SELECT g.k FROM {A} g) g) g"
    assert (
        written(text)
        == """\
project "#1".k = g_3.k
  project g_3.k = g_2.k
    project g_2.k = g.k
      scan orders [RANGE 10 SECONDS] g: k"""
    )
    assert tree(f'SELECT k FROM {A} "#1" EXCEPT SELECT k FROM {A} "#1"') == '(except (project "#1") (project "#1_2"))'
    assert parse(f'SELECT k FROM {A} "#1"').root.columns[0].alias == "#2"


def test_partitions_have_the_alias_of_their_stream() -> None:
    query = parse("SELECT k FROM stock [ROWS 3 PARTITION BY K] EXCEPT SELECT k FROM stock [ROWS 4 PARTITION BY k, qty]")
    assert [str(s) for s in query.sources] == [
        "stock [ROWS 3 PARTITION BY k]",
        "stock [ROWS 4 PARTITION BY k, qty] stock_2",
    ]
    window = query.sources[1].window
    assert isinstance(window, RowsWindow)
    assert [str(c) for c in window.partition_by] == ["stock_2.k", "stock_2.qty"]
    assert query.columns_of("stock_2") == ("k", "qty"), "a partition is read, though nothing computes with it"


def test_windows_of_different_sizes() -> None:
    query = parse("SELECT k FROM orders [RANGE 1 MINUTE] EXCEPT SELECT k FROM prices q [RANGE 250 ms]")
    assert [(s.alias, s.position, s.window) for s in query.sources] == [
        ("orders", 0, RangeWindow(60 * SECOND)),
        ("q", 1, RangeWindow(SECOND // 4)),
    ]


def test_set_operations_have_the_names_of_the_left() -> None:
    text = f"SELECT k AS a, s FROM {A} UNION ALL SELECT k, Unit FROM {B} EXCEPT SELECT k, 'x' AS y FROM {C}"
    assert (
        written(text)
        == """\
except "#3".a, "#3".s
  union "#3".a, "#3".s
    project "#1".a = orders.k, "#1".s = orders.s
      scan orders [RANGE 10 SECONDS]: k, s
    project "#2".a = prices.k, "#2".s = prices.Unit
      scan prices [ROWS 5]: k, Unit
  project "#4".a = CAST(stock.k AS BIGINT), "#4".s = 'x'
    scan stock [ROWS 3 PARTITION BY k]: k"""
    )
    top, difference, union, left = lines(parse(f"SELECT z.a FROM ({text}) z").root)[:4]
    assert (top, difference, union) == ('project "#4".a = z.a', "  except z.a, z.s", "    union z.a, z.s")
    assert left == '      project "#1".a = orders.k, "#1".s = orders.s', "the union has the name, not its left side"


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
        ("MAX(x)", "price", pa.float64()),
    ],
)
@pytest.mark.parametrize("word", ["EXCEPT", "EXCEPT ALL", "UNION", "UNION ALL", "INTERSECT"])
def test_columns_get_the_type_they_are_compared_in(first: str, second: str, common: pa.DataType, word: str) -> None:
    query = parse(f"SELECT {first} AS v FROM {A} {word} SELECT {second} FROM {B}")
    assert query.schema == pa.schema([("v", common)])


def test_a_cast_of_what_is_a_set_stands_above_it() -> None:
    text = f"SELECT DISTINCT k FROM {A} UNION ALL SELECT price FROM {B}"
    assert tree(text) == "(union (project (distinct (project orders))) (project prices))"
    text = f"(SELECT k FROM {A} EXCEPT SELECT k FROM {A}) EXCEPT SELECT price FROM {B}"
    assert tree(text) == "(except (project (except (project orders) (project orders_2))) (project prices))"
    assert tree(f"SELECT DISTINCT 1 FROM {A} UNION ALL SELECT price FROM {B}").startswith("(union (distinct (project")


def test_intersections_in_a_row_read_each_stream_twice_at_most() -> None:
    query = parse(" INTERSECT ".join(f"SELECT k FROM {A} o{n}" for n in range(20)))
    assert len(query.sources) == 39
    assert query.schema.names == ["k"]


def test_long_chains() -> None:
    assert len(parse(" EXCEPT ".join([f"SELECT k FROM {A}"] * 100)).sources) == 100
    with pytest.raises(SqlError, match="nested too deeply"):
        parse(" EXCEPT ".join([f"SELECT k FROM {A}"] * 3000))


def test_the_examples_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs/sql.md").read_text(encoding="utf-8")
    columns = [*((n, pa.int64()) for n in ("ts", "k", "qty")), ("price", pa.float64()), ("label", pa.string())]
    catalog = [StreamSchema(stream, pa.schema(columns), "ts") for stream in ("orders", "prices", "stock")]
    examples = re.findall(r"^```sql hopping\n(.*?)^```", page, re.M | re.S)
    assert len(examples) == 3
    assert all(parse_query(example, catalog).when == "hop" for example in examples)


WORDS = (
    "SELECT DISTINCT FROM WHERE k x s o 'x' orders stock [ ] ROWS 1 , ( ) EXCEPT ALL UNION INTERSECT * NULL . ; = < AND"
    " NOT EXISTS GROUP BY HAVING COUNT(*) JOIN ANTI ON USING HOP EMIT DELTA 5 SECONDS OR IN"
)
SENTENCE = (
    "( SELECT k , s FROM orders [ ROWS 1 ] o WHERE NOT EXISTS ( SELECT 1 FROM stock [ ROWS 1 ] t WHERE t.k = o.k ) )"
    " EXCEPT SELECT k , MAX(s) FROM orders [ ROWS 1 ] o GROUP BY k HOP BY 5 SECONDS EMIT DELTA"
)


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
    if query.hop_us is not None:
        assert parse_query(query.text, CATALOG) == query
