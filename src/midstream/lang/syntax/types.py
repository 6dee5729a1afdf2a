"""SQL's type names and INTERVAL literals, read as Arrow types and Python durations."""

import datetime as dt
import re
from fractions import Fraction

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from midstream.model.errors import PlanError, SqlError
from midstream.model.time import unit_us
from midstream.model.types import MAX_DECIMAL_DIGITS, TIMESTAMP

_TYPES: dict[exp.DType, pa.DataType] = {
    exp.DType.TINYINT: pa.int8(),
    exp.DType.SMALLINT: pa.int16(),
    exp.DType.INT: pa.int32(),
    exp.DType.BIGINT: pa.int64(),
    exp.DType.UTINYINT: pa.uint8(),
    exp.DType.USMALLINT: pa.uint16(),
    exp.DType.UINT: pa.uint32(),
    exp.DType.FLOAT: pa.float32(),
    exp.DType.DOUBLE: pa.float64(),
    exp.DType.BOOLEAN: pa.bool_(),
    exp.DType.TEXT: pa.string(),
    exp.DType.VARCHAR: pa.string(),
    exp.DType.CHAR: pa.string(),
    exp.DType.DATE: pa.date32(),
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: TIMESTAMP,
    exp.DType.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
}
LONGEST_INTERVAL = 1000
"""Characters: no number that is a duration has so many."""


def read_type(node: exp.DataType) -> pa.DataType:
    """Return the Arrow type that a SQL type names.

    >>> read_type(exp.DataType.build("DECIMAL(10, 2)"))
    Decimal128Type(decimal128(10, 2))
    """
    if node.this == exp.DType.DECIMAL:
        words = [p.name for p in node.expressions] or ["18", "3"]
        if not all(word.isdecimal() and len(word) < 4 for word in words):
            raise PlanError(
                f"DECIMAL takes how many digits it has, and how many of them after the point: {node.sql('duckdb')}"
            )
        precision, scale = (*map(int, words), 0, 0)[:2]
        if not (0 < precision <= MAX_DECIMAL_DIGITS and 0 <= scale <= precision):
            raise PlanError(f"DECIMAL({precision}, {scale}) does not exist; it has 1 to {MAX_DECIMAL_DIGITS} digits")
        return pa.decimal128(precision, scale)
    found = _TYPES.get(node.this)
    if found is None:
        raise PlanError(f"there is no type {node.sql('duckdb')} in queries")
    return found


def read_interval(node: exp.Expr) -> dt.timedelta:
    """Return the duration of an INTERVAL literal.

    >>> read_interval(exp.Interval(this=exp.Literal.string("1 day 2 hours")))
    datetime.timedelta(days=1, seconds=7200)
    """
    amount, unit = node.this, node.args.get("unit")
    sign = 1
    if isinstance(amount, exp.Neg):
        sign, amount = -1, amount.this
    if not isinstance(amount, exp.Literal) or not (unit is None or isinstance(unit, exp.Var)):
        raise PlanError("INTERVAL takes a constant and one unit, for example INTERVAL 10 SECONDS")
    text = f"{amount.name} {unit.name if unit else ''}".strip()
    parts = re.findall(r"([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", text)
    if "".join(a + u for a, u in parts) != re.sub(r"\s", "", text) or not parts:
        raise PlanError(f"INTERVAL '{text}' cannot be read; write for example INTERVAL 10 SECONDS")
    if len(text) > LONGEST_INTERVAL:
        raise PlanError("INTERVAL is too long")
    total = Fraction(0)
    for number, word in parts:
        scale = unit_us(word)
        if scale is None:
            raise PlanError(
                f"INTERVAL cannot count in {word.upper()}; use a unit of fixed length such as SECONDS or DAYS"
            )
        total += Fraction(number) * scale
    try:
        return dt.timedelta(microseconds=sign * round(total))
    except OverflowError:
        raise PlanError(f"INTERVAL '{text}' is too long") from None


def type_named(text: str) -> pa.DataType:
    """Return the type an SQL name stands for.

    >>> type_named("BIGINT"), type_named("decimal(10, 2)")
    (DataType(int64), Decimal128Type(decimal128(10, 2)))
    """
    try:
        node = exp.DataType.build(text, dialect="duckdb")
    except SqlglotError:
        raise SqlError(f"'{text}' is not a type") from None
    return read_type(node)
