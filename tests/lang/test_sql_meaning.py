"""The same expression text, asked of us and of DuckDB over the same rows."""

import datetime as dt
import decimal
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from midstream.lang.sql import parse_query
from midstream.model.stream import StreamSchema
from midstream.operators.expression.evaluate import evaluate

ROWS = pa.table(
    {
        "ts": pa.array([0, 1, 2, 3, 4, 5]),
        "i": pa.array([1, -7, 0, 100, None, 5]),
        "j": pa.array([2, 3, -3, None, 1, 5], pa.int32()),
        "f": pa.array([1.5, -2.5, float("nan"), float("inf"), None, -0.0]),
        "m": pa.array([Decimal(x) if x else None for x in ("1.50", "-2.55", "0.00", "99.99", None, "10.50")],
                      pa.decimal128(10, 2)),
        "b": pa.array([True, False, None, True, False, None]),
        "s": pa.array(["abc", "Hello World", "", None, "50% off", "a_b"]),
        "n": pa.array(["12", " -3 ", "x", "1e3", None, "7.5"]),
        "d": pa.array([dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(2000, 1, 1), None, dt.date(1900, 3, 1),
                       dt.date(2024, 12, 30)]),
        "t": pa.array([dt.datetime(2024, 2, 29, 12, 30, 15, 250000), dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
                       dt.datetime(2000, 1, 1), None, dt.datetime(1900, 3, 1, 6), dt.datetime(2024, 12, 30, 1)],
                      pa.timestamp("us")),
    }
)  # fmt: skip
STREAM = StreamSchema("r", ROWS.schema, "ts")

EXPRESSIONS = """
i + j    i - j * 2    i * j    -i    +i    i / 2    i // 3    i % 3    (i + 1) * (j - 1)    i + f    m + 1    m * m
m - 0.25    m * 1.1    m / 4    m % 2    -m    f * 2 - 1    i + 1.5    2 ** 3    i ^ 2    mod(i, 3)    j::double / 3
i = j    i <> j    i != 5    i < j    i <= 1.5    f > 1    f = f    f < 'nan'::double    m >= 10.5    m = 1.5    m > i
s = 'abc'    s < 'b'    b = true    b    not b    b and i > 0    b or i > 0    not (b and i > 0)
i between 0 and 5    i not between j and 5    i in (1, 5, 7)    i not in (1, 5)    i in (1, null)    s in ('abc', 'x')
m in (1.5, 99.99)    f in (1.5, 0)    s is null    s is not null    b is true    b is not true    b is false
b is not false    i is distinct from j    i is not distinct from j    null is null    i = null    null and false
s like 'a%'    s like '%o%'    s like '%d'    s like 'a_c'    s not like 'a%'    s ilike 'hello%'    s like 'abc'
s like '%!%%' escape '!'    s like 'a!_b' escape '!'    s like ''    s like '%'    s like s    s ilike '_B_'
case when i > 0 then 'pos' when i < 0 then 'neg' else 'zero' end    case i when 1 then 'one' when 5 then 'five' end
case when b then 1 else 2.5 end    case when i > 0 then m else 0 end    case when b then i end    if(b, i, j)
coalesce(i, j, 0)    coalesce(s, 'none')    ifnull(m, 0)    nullif(i, 5)    nullif(s, '')    nullif(m, 1.5)
nullif(i + 1, 1.5)    nullif(i, f)    nullif(m * 2, i)    nullif(f, f)    nullif(d, t)    nullif(nullif(i, 1), j)
case abs(i) when 1 then 'one' when 1.5 then 'more' when j then 'j' else 'none' end
case i + 1 when 2 then 3 when j then m end
i + 1 between j and 5.5    i + 1 not between j and null    upper(s) between s and 'z'    nullif(i, 1) between 1 and 5
case upper(s) when 'ABC' then i when s then f when null then 1 end    case 1 + 1 when 2 then i when j then 3 end
least(i, j)    greatest(i, j, 3)    greatest(f, 1.0)    least(f, 1.0)    greatest(s, 'b')    least(d, t)
abs(i)    abs(m)    abs(f)    sign(i)    sign(m)    round(f)    round(m, 1)    round(m)    round(i, -1)    floor(f)
ceil(m)    ceiling(f)    floor(m)    sqrt(abs(i))    exp(j)    power(j, 2)    pow(2, j)    ln(abs(j))    log10(abs(j))
log2(abs(j))    log(100)    log(2, 8)
lower(s)    upper(s)    length(s)    trim('  a ')    ltrim('  a ')    rtrim('  a ')    trim(s, 'a')
trim(both 'a' from s)    trim(leading 'a' from s)    trim(trailing 'c' from s)    substring(s, 2, 3)    substr(s, 2)
substring(s from 2 for 3)    substring(s, -3)    substring(s, -3, 2)    left(s, 2)    right(s, 2)    left(s, -1)
right(s, -1)    replace(s, 'b', 'X')    concat(s, '-', i)    s || '-' || i    s || null    starts_with(s, 'a')
ends_with(s, 'c')    contains(s, 'b')    strpos(s, 'b')    instr(s, 'o')    position('o' in s)    reverse(s)
lpad(s, 5, '*')    rpad(s, 5, 'xy')
year(d)    month(t)    day(t)    hour(t)    minute(t)    second(t)    quarter(d)    dayofweek(d)    isodow(d)
dayofyear(d)    week(d)    extract(year from t)    extract(dow from d)    extract(epoch from t)
extract(millisecond from t)    date_trunc('month', d)    date_trunc('hour', t)    date_trunc('week', t)
epoch_us(t)    make_timestamp(1000000)    d = '2024-02-29'    t > '2000-01-01'    t >= d    d + 1    d - 1    d - d
d + interval 1 day    t - interval '90' minute    t + interval '1 day 2 hours'    t - t < interval 1 second
t - d > interval 12 hours    date '2024-01-01' < d    timestamp '2024-01-01 00:00:00' < t    interval 1 day + t
cast(i as double)    cast(f as varchar)    cast(m as varchar)    cast(b as varchar)    cast(d as varchar)
cast(t as varchar)    cast(i as varchar)    cast(m as int)    cast(m as decimal(5, 1))    cast(i as decimal(10, 2))
cast(b as int)    cast(i as bool)    cast(d as timestamp)    cast(t as date)    try_cast(f as bigint)
try_cast(f as decimal(6, 2))    try_cast(i as tinyint)    try_cast(n as double)    try_cast(n as decimal(6, 1))
try_cast(s as int)    try_cast('2024-02-30' as varchar)    try_cast(s as date)    i::varchar || 'x'
'2024-02-29'::date    '12'::int + 1    10.5 + 1    1e3    .5    1_000    'it''s'    true    null
"""


def texts() -> list[str]:
    return [part.strip() for line in EXPRESSIONS.splitlines() for part in line.split("    ") if part.strip()]


def same(ours: Any, theirs: Any) -> bool:
    if ours is None or theirs is None or isinstance(ours, str | bool | dt.date):
        return bool(ours == theirs)
    if isinstance(ours, decimal.Decimal) and isinstance(theirs, decimal.Decimal):
        return ours == theirs
    a, b = float(ours), float(theirs)
    return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-12)


@pytest.fixture(scope="module")
def theirs() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1; SET error_on_division_by_zero = false")
        connection.register("r", ROWS)
        yield connection


@pytest.mark.parametrize("text", texts())
def test_text_means_the_same(text: str, theirs: duckdb.DuckDBPyConnection) -> None:
    query = parse_query(f"SELECT {text} AS v FROM r", [STREAM])
    expr = query.parts.first.outputs[0].expr
    ours = evaluate(expr, ROWS.num_rows, lambda c: ROWS.column(c.name).combine_chunks())
    assert ours.type == expr.type
    expected = [row[0] for row in theirs.execute(f"SELECT {text} AS v FROM r").fetchall()]
    pairs = list(zip(ours.to_pylist(), expected, strict=True))
    assert all(same(a, b) for a, b in pairs), pairs
    assert parse_query(str(query), [STREAM]) == query
