"""Coercion: how expressions of different types come to share one, and how literals take the type of their company.

A number written with a point is a DECIMAL next to a decimal column and a DOUBLE anywhere else; a string next to a date
or timestamp is read as one; an integer takes the integer type of the column it meets, so that the column is not cast.
"""

import datetime as dt
import decimal
from collections.abc import Sequence
from functools import reduce

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.model.types import (
    INTERVAL,
    MAX_DECIMAL_DIGITS,
    TIMESTAMP,
    common_type,
    is_number,
    is_temporal,
    type_name,
)
from midstream.plan.expr import Expr, Literal, Value, cast_to

INT64_RANGE = range(-(2**63), 2**63)


def literal(value: Value) -> Literal:
    """Make a literal of the natural type of a Python value; a `Decimal` stands for a number written with a point.

    >>> literal(5).type, literal(decimal.Decimal("10.5")).type, literal("x").type
    (DataType(int64), Decimal128Type(decimal128(3, 1)), DataType(string))
    """
    match value:
        case None:
            return Literal(None, pa.null())
        case bool():
            return Literal(value, pa.bool_())
        case int():
            return Literal(value, pa.int64()) if value in INT64_RANGE else literal(decimal.Decimal(value))
        case float():
            return Literal(value, pa.float64())
        case str():
            return Literal(value, pa.string())
        case decimal.Decimal():
            return _decimal_literal(value)
        case dt.datetime():
            naive = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
            return Literal(naive, TIMESTAMP)
        case dt.date():
            return Literal(value, pa.date32())
        case dt.timedelta():
            return Literal(value, INTERVAL)
        case _:
            raise PlanError(f"a query cannot hold the Python value {value!r}")


def _decimal_literal(value: decimal.Decimal) -> Literal:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):  # NaN and the infinities
        return Literal(float(value), pa.float64())
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > MAX_DECIMAL_DIGITS:
        return Literal(float(value), pa.float64())
    plain = decimal.Decimal((sign, digits + (0,) * max(exponent, 0), -scale))
    return Literal(plain, pa.decimal128(precision, scale))


def settle(expr: Expr) -> Expr:
    """Give a number written with a point its type when no decimal column is near: DOUBLE.

    >>> settle(literal(decimal.Decimal("10.5")))
    Literal(value=10.5, type=DataType(double))
    """
    if isinstance(expr, Literal) and isinstance(expr.value, decimal.Decimal):
        return Literal(float(expr.value), pa.float64())
    return expr


def unify(args: Sequence[Expr]) -> tuple[Expr, ...] | None:
    """Give all arguments one type, or return None when they have none in common.

    >>> from midstream.plan.expr import Cast
    >>> [str(e) for e in unify([Cast(literal(1), pa.decimal128(5, 2)), literal(decimal.Decimal("10.5")), literal(3)])]
    ['CAST(1 AS DECIMAL(5, 2))', '10.50', '3.00']
    """
    args = _adapt_literals(args)
    if len({a.type for a in args}) == 1:
        return tuple(args)
    wanted = reduce(lambda t, a: t if t is None else common_type(t, a.type), args, pa.null())
    return None if wanted is None else tuple(convert(a, wanted) for a in args)


def _adapt_literals(args: Sequence[Expr]) -> list[Expr]:
    firm = [a.type for a in args if not isinstance(a, Literal)]
    company = firm or [a.type for a in args if not isinstance(a.type, pa.Decimal128Type)]
    near_decimal = any(pa.types.is_decimal(t) for t in firm) and not any(pa.types.is_floating(t) for t in firm)
    integers = {t for t in firm if pa.types.is_integer(t)}
    alone = integers.pop() if len(integers) == 1 and len(set(firm)) == 1 else None
    return [_adapt(a, company, near_decimal, alone) if isinstance(a, Literal) else a for a in args]


def _adapt(
    given: Literal, company: Sequence[pa.DataType], near_decimal: bool, integer: pa.DataType | None
) -> Literal | Expr:
    value = given.value
    if isinstance(value, str) and any(is_temporal(t) for t in company):
        return read_instant(value, date_only=all(pa.types.is_date(t) for t in company if is_temporal(t)))
    if isinstance(value, decimal.Decimal):
        return given if near_decimal else settle(given)
    if isinstance(value, int) and not isinstance(value, bool):
        if near_decimal:
            return literal(decimal.Decimal(value))
        if integer is not None and fits(value, integer):
            return Literal(value, integer)
    return given


def fits(value: int, t: pa.DataType) -> bool:
    """Tell whether an integer type holds a value.

    >>> fits(127, pa.int8()), fits(-1, pa.uint8())
    (True, False)
    """
    signed = pa.types.is_signed_integer(t)
    low, bits = (-(2 ** (t.bit_width - 1)), t.bit_width - 1) if signed else (0, t.bit_width)
    return bool(low <= value < 2**bits)


def read_instant(text: str, date_only: bool = False) -> Literal:
    """Read a date or a timestamp as people write it; a zone is turned into UTC.

    >>> str(read_instant("2024-02-03", date_only=True)), str(read_instant("2024-02-03 10:00"))
    ("DATE '2024-02-03'", "TIMESTAMP '2024-02-03 10:00:00'")
    """
    try:
        instant = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        raise PlanError(f"'{text}' is not a {'date' if date_only else 'timestamp'}") from None
    if date_only and instant.time() == dt.time() and len(text.strip()) <= len("2024-01-01"):
        return literal(instant.date())
    return literal(instant)


def convert(expr: Expr, wanted: pa.DataType) -> Expr:
    """Cast an expression, or the literal itself when that is exact.

    >>> convert(literal(3), pa.float64())
    Literal(value=3.0, type=DataType(double))
    """
    if expr.type == wanted:
        return expr
    if not isinstance(expr, Literal) or expr.value is None or not is_number(wanted):
        return _convert_instant(expr, wanted) or cast_to(expr, wanted)
    value = expr.value
    if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
        return cast_to(expr, wanted)
    if wanted == pa.float64():
        return Literal(float(value), wanted)
    if pa.types.is_decimal(wanted) and fits_decimal(decimal.Decimal(value), wanted):
        shown = decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-wanted.scale), context=_EXACT)
        return Literal(shown, wanted)
    if isinstance(value, int) and pa.types.is_integer(wanted) and fits(value, wanted):
        return Literal(value, wanted)
    return cast_to(expr, wanted)


_EXACT = decimal.Context(prec=2 * MAX_DECIMAL_DIGITS)


def _convert_instant(expr: Expr, wanted: pa.DataType) -> Expr | None:
    if isinstance(expr, Literal) and wanted == TIMESTAMP and pa.types.is_date(expr.type):
        day = expr.value
        assert isinstance(day, dt.date)
        return Literal(dt.datetime(day.year, day.month, day.day), TIMESTAMP)
    return None


def fits_decimal(value: decimal.Decimal, t: pa.DataType) -> bool:
    """Tell whether a decimal type holds a value exactly.

    >>> cents = pa.decimal128(3, 2)
    >>> fits_decimal(decimal.Decimal("1.25"), cents), fits_decimal(decimal.Decimal(10), cents)
    (True, False)
    """
    scaled = value.scaleb(t.scale, context=_EXACT)
    return bool(scaled == scaled.to_integral_value() and abs(scaled) < 10**t.precision)


def castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether CAST knows the way from a type to another.

    >>> castable(pa.string(), pa.int32()), castable(pa.timestamp("us"), pa.int64())
    (True, False)
    """
    if given == wanted or pa.types.is_null(given):
        return bool(wanted != INTERVAL)
    if INTERVAL in (given, wanted):
        return False
    if pa.types.is_string(given) or pa.types.is_string(wanted):
        return True
    if is_temporal(given) or is_temporal(wanted):
        return is_temporal(given) and is_temporal(wanted)
    return True


def cast(expr: Expr, wanted: pa.DataType) -> Expr:
    """Build what CAST and TRY_CAST mean: a value that cannot be converted becomes NULL."""
    if not castable(expr.type, wanted):
        raise PlanError(f"cannot cast {type_name(expr.type)} to {type_name(wanted)}: {expr}")
    if isinstance(expr, Literal) and isinstance(expr.value, str) and is_temporal(wanted):
        return convert(read_instant(expr.value, date_only=pa.types.is_date(wanted)), wanted)
    return convert(expr, wanted)
