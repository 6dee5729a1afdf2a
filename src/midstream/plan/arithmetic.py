"""Result types of arithmetic.

integer ∘ integer -> BIGINT          a DOUBLE or FLOAT on either side -> DOUBLE
decimal ∘ decimal -> DECIMAL wide enough for every result, DOUBLE when that takes more than 38 digits
timestamp ± interval -> TIMESTAMP    timestamp - timestamp -> INTERVAL
date ± integer -> DATE               date - date -> BIGINT (days)
"""

from collections.abc import Callable

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.model.types import (
    INTERVAL,
    MAX_DECIMAL_DIGITS,
    TIMESTAMP,
    decimal_of_integer,
    is_number,
    is_temporal,
    type_name,
)
from midstream.plan.coerce import convert, literal, settle, unify
from midstream.plan.expr import Call, Expr, Literal

BIGINT, DOUBLE = pa.int64(), pa.float64()

Width = Callable[[pa.DataType, pa.DataType], tuple[int, int]]


def add(name: str, args: tuple[Expr, ...]) -> Expr:
    """Type `a + b`."""
    a, b = _fill_null(args)
    if b.type == INTERVAL and is_temporal(a.type):
        return Call(name, (convert(a, TIMESTAMP), b), TIMESTAMP)
    if a.type == INTERVAL and (is_temporal(b.type) or b.type == INTERVAL):
        return Call(name, (b if b.type == INTERVAL else convert(b, TIMESTAMP), a), _sum_type(b.type))
    if pa.types.is_date(a.type) and pa.types.is_integer(b.type):
        return Call(name, (a, convert(b, BIGINT)), a.type)
    if pa.types.is_integer(a.type) and pa.types.is_date(b.type):
        return Call(name, (b, convert(a, BIGINT)), b.type)
    return _numbers(name, a, b, _sum_width)


def subtract(name: str, args: tuple[Expr, ...]) -> Expr:
    """Type `a - b`."""
    a, b = _fill_null(args)
    if b.type == INTERVAL and (is_temporal(a.type) or a.type == INTERVAL):
        return Call(name, (a if a.type == INTERVAL else convert(a, TIMESTAMP), b), _sum_type(a.type))
    if pa.types.is_date(a.type) and pa.types.is_date(b.type):
        return Call(name, (a, b), BIGINT)
    if is_temporal(a.type) and is_temporal(b.type):
        return Call(name, (convert(a, TIMESTAMP), convert(b, TIMESTAMP)), INTERVAL)
    if pa.types.is_date(a.type) and pa.types.is_integer(b.type):
        return Call(name, (a, convert(b, BIGINT)), a.type)
    return _numbers(name, a, b, _sum_width)


def multiply(name: str, args: tuple[Expr, ...]) -> Expr:
    """Type `a * b`."""
    a, b = _fill_null(args)
    if b.type == INTERVAL:
        a, b = b, a
    if a.type == INTERVAL and pa.types.is_integer(b.type):
        return Call(name, (a, convert(b, BIGINT)), INTERVAL)
    return _numbers(name, a, b, _product_width)


def remainder(name: str, args: tuple[Expr, ...]) -> Expr:
    """Type `a % b`: the remainder has the sign of `a`."""
    same = unify(args)
    assert same is not None, "numbers always have a common type"
    wanted = same[0].type if pa.types.is_decimal(same[0].type) else _plain_type(same[0].type)
    return Call(name, tuple(convert(a, wanted) for a in same), wanted)


def whole_quotient(name: str, args: tuple[Expr, ...]) -> Expr:
    """Type `a // b`: integer division that drops the fraction."""
    return Call(name, args, BIGINT)


def plain(name: str, args: tuple[Expr, ...]) -> Expr:
    """Type a function whose result is a number like its argument."""
    wanted = _plain_type(settle(args[0]).type)
    return Call(name, (convert(settle(args[0]), wanted),), wanted)


def rounded(name: str, args: tuple[Expr, ...]) -> Expr:
    """Type rounding: a decimal keeps its scale and gains the digit that rounding up may need."""
    value = settle(args[0])
    if pa.types.is_decimal(value.type):
        digits = min(value.type.precision + 1, MAX_DECIMAL_DIGITS)
        return Call(name, (value, *args[1:]), pa.decimal128(digits, value.type.scale))
    wanted = _plain_type(value.type)
    return Call(name, (convert(value, wanted), *args[1:]), wanted)


def negative(name: str, args: tuple[Expr, ...]) -> Expr:
    """Type `-a`; the negative of a literal is a literal."""
    (a,) = args
    if isinstance(a, Literal) and is_number(a.type):
        number = literal(-a.value)  # type: ignore[operator]
        whole = pa.types.is_decimal(number.type) and number.type.scale == 0
        return literal(int(number.value)) if whole else number  # type: ignore[arg-type]
    if a.type == INTERVAL:
        return Call(name, (a,), INTERVAL)
    if not (is_number(a.type) or pa.types.is_null(a.type)):
        raise PlanError(f"- takes a number, but {a} is {type_name(a.type)}")
    return plain(name, args)


def _plain_type(t: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(t):
        return t
    return DOUBLE if pa.types.is_floating(t) else BIGINT


def _sum_type(t: pa.DataType) -> pa.DataType:
    return INTERVAL if t == INTERVAL else TIMESTAMP


def _fill_null(args: tuple[Expr, ...]) -> tuple[Expr, Expr]:
    """Let a bare NULL take the type of the other side."""
    a, b = args
    if pa.types.is_null(a.type):
        a = convert(a, BIGINT if pa.types.is_null(b.type) else b.type)
    if pa.types.is_null(b.type):
        b = convert(b, a.type)
    return a, b


def _numbers(name: str, a: Expr, b: Expr, width: Width) -> Expr:
    if not (is_number(a.type) and is_number(b.type)):
        raise PlanError(f"cannot compute {type_name(a.type)} {name} {type_name(b.type)}: {a} {name} {b}")
    same = unify((a, b))
    assert same is not None, "numbers always have a common type"
    if not pa.types.is_decimal(same[0].type):
        wanted = _plain_type(same[0].type)
        return Call(name, tuple(convert(x, wanted) for x in same), wanted)
    # Not the common type: each side keeps its own digits, the result gets those it needs.
    left, right = _as_decimal(a), _as_decimal(b)
    precision, scale = width(left.type, right.type)
    if precision > MAX_DECIMAL_DIGITS:
        return Call(name, (convert(a, DOUBLE), convert(b, DOUBLE)), DOUBLE)
    return Call(name, (left, right), pa.decimal128(precision, scale))


def _as_decimal(expr: Expr) -> Expr:
    if not pa.types.is_integer(expr.type):
        return expr
    if isinstance(expr, Literal):
        value = expr.value
        assert isinstance(value, int)
        return convert(expr, pa.decimal128(len(str(abs(value))), 0))
    return convert(expr, decimal_of_integer(expr.type))


def _sum_width(a: pa.DataType, b: pa.DataType) -> tuple[int, int]:
    scale = max(a.scale, b.scale)
    return max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale


def _product_width(a: pa.DataType, b: pa.DataType) -> tuple[int, int]:
    return a.precision + b.precision + 1, a.scale + b.scale
