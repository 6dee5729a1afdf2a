"""Scalar functions over arrays and scalars: arithmetic, numbers, choice, time. Text lives in `text`.

Each takes the result type, the number of rows and the arguments, of which at least one is an array.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.kernels.wide import remainders
from midstream.model.types import INTERVAL, TIMESTAMP
from midstream.operators.expression.arrays import array_of, numpy_values
from midstream.operators.expression.cast import round_decimal, scaled, unscaled
from midstream.operators.expression.compare import less
from midstream.operators.expression.datum import (
    Datum,
    null_mask,
    null_where,
    or_null,
    per_constant,
    rebuild,
    spread,
    values,
)
from midstream.operators.expression.text import TEXT

Scalar = Callable[..., Any]


def _sum(checked: Callable[[Datum, Datum], Datum]) -> Scalar:
    def compute(t: pa.DataType, rows: int, a: Datum, b: Datum) -> Datum:
        if pa.types.is_date(a.type):
            return _days(checked, t, rows, a, b)
        return or_null(checked, t, rows, a, b)

    return compute


def _days(checked: Callable[[Datum, Datum], Datum], t: pa.DataType, rows: int, a: Datum, b: Datum) -> Datum:
    """Add or subtract whole days; the difference of two dates is a number."""

    def days(datum: Datum) -> Datum:
        return datum.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date(datum.type) else datum

    def compute(x: Datum, y: Datum) -> Datum:
        number = checked(days(x), days(y))
        return number if t == pa.int64() else number.cast(pa.int32()).cast(t)

    return or_null(compute, t, rows, a, b)


def _product(t: pa.DataType, rows: int, a: Datum, b: Datum) -> Datum:
    if t == INTERVAL:
        return or_null(pc.multiply_checked, pa.int64(), rows, a.cast(pa.int64()), b).cast(INTERVAL)
    return or_null(pc.multiply_checked, t, rows, a, b)


def _quotient(t: pa.DataType, rows: int, a: Datum, b: Datum) -> Datum:
    return pc.divide(a, null_where(pc.equal(b, 0.0), b))


def _whole_quotient(t: pa.DataType, rows: int, a: Datum, b: Datum) -> Datum:
    return or_null(pc.divide_checked, t, rows, a, null_where(pc.equal(b, 0), b))


def _remainder(t: pa.DataType, rows: int, a: Datum, b: Datum) -> Datum:
    if not pa.types.is_decimal(t):
        x, y = values(a), values(b)
        zero = y == 0
        with np.errstate(invalid="ignore"):
            result = np.broadcast_to(np.fmod(x, np.where(zero, y.dtype.type(1), y)), (rows,))
        return rebuild(result, t, null_mask(a, b) | zero)
    a, b = spread(a, rows), spread(b, rows)
    if t.precision <= 18:
        return scaled(_remainder(pa.int64(), rows, unscaled(a), unscaled(b)), t)
    x, y = (np.ascontiguousarray(numpy_values(d)) for d in (a, b))
    defined = (y != 0).any(axis=1) & ~null_mask(a, b)
    return array_of(t, remainders(x, y), None if defined.all() else defined)


def _round(t: pa.DataType, rows: int, a: Datum, digits: Datum | None = None) -> Datum:
    # More digits than the type can have change nothing: few different numbers of them are left.
    least, most = -_whole_digits(t) - 1, t.scale if pa.types.is_decimal(t) else 309
    digits = pa.scalar(0, pa.int64()) if digits is None else digits
    digits = pc.min_element_wise(pc.max_element_wise(digits, least, skip_nulls=False), most, skip_nulls=False)

    def to_digits(part: pa.Array, n: int) -> pa.Array:
        if n < -_whole_digits(t):
            return pc.if_else(pc.is_valid(part), pa.scalar(0, t), pa.scalar(None, t))
        if pa.types.is_decimal(t):
            return round_decimal(part, n, t)
        if pa.types.is_integer(t) and n >= 0:
            return part
        # From 2^53 on doubles have no digits after the point, and scaling them up would overflow.
        kept = pc.and_(pc.greater_equal(pc.abs(part), 2.0**53), n > 0) if pa.types.is_floating(t) else pa.scalar(False)
        rounded = or_null(_half_up(min(n, 300)), t, len(part), null_where(kept, part))
        return pc.if_else(kept, part, rounded)

    return per_constant(to_digits, t, rows, a, [digits])


def _half_up(digits: int) -> Callable[[Datum], Datum]:
    return lambda x: pc.round(x, ndigits=digits, round_mode="half_towards_infinity")


def _whole_digits(t: pa.DataType) -> int:
    """Return how many digits a number may have before the point."""
    if pa.types.is_decimal(t):
        return int(t.precision - t.scale)
    return 19 if pa.types.is_integer(t) else 309


def _whole(kernel: Callable[[Datum], Datum], mode: str) -> Scalar:
    def compute(t: pa.DataType, rows: int, a: Datum) -> Datum:
        if pa.types.is_decimal(t):
            return round_decimal(a, 0, t, mode)
        return a if pa.types.is_integer(t) else kernel(a)

    return compute


def _sign(t: pa.DataType, rows: int, a: Datum) -> Datum:
    if pa.types.is_floating(a.type):  # NaN has none: 0
        return pc.subtract(pc.greater(a, 0.0).cast(t), pc.less(a, 0.0).cast(t))
    return pc.sign(a).cast(t)


def _defined(kernel: Callable[[Datum], Datum], undefined: Callable[[Datum], Datum]) -> Scalar:
    """Make a function that is NULL outside its domain."""
    return lambda t, rows, a: null_where(undefined(a), kernel(a))


def _not_positive(a: Datum) -> Datum:
    return pc.less_equal(a, 0.0)


def _log(t: pa.DataType, rows: int, a: Datum, b: Datum | None = None) -> Datum:
    if b is None:
        return null_where(_not_positive(a), pc.log10(a))
    base = null_where(pc.or_(_not_positive(a), pc.equal(a, 1.0)), a)
    return null_where(_not_positive(b), pc.divide(pc.log10(b), pc.log10(base)))


def _power(t: pa.DataType, rows: int, a: Datum, b: Datum) -> Datum:
    result = pc.power(a, b)
    invented = pc.and_(pc.is_nan(result), pc.invert(pc.or_(pc.is_nan(a), pc.is_nan(b))))
    divided = pc.and_(pc.equal(a, 0.0), pc.less(b, 0.0))
    return null_where(pc.or_(invented, divided), result)


def _extreme(wins: Callable[[Datum, Datum], Datum]) -> Scalar:
    """Make LEAST or GREATEST: the first value unless a later one wins; NULLs are passed over."""

    def compute(t: pa.DataType, rows: int, *args: Datum) -> Datum:
        best = spread(args[0], rows)
        for arg in args[1:]:
            better = pc.or_kleene(pc.is_null(best), wins(arg, best))
            best = pc.if_else(pc.and_(pc.fill_null(better, False), pc.is_valid(arg)), arg, best)
        return best

    return compute


def _field(kernel: Callable[[Datum], Datum]) -> Scalar:
    return lambda t, rows, a: kernel(a).cast(t)


def _second_part(scale: int) -> Callable[[Datum], Datum]:
    """Make the whole second in smaller units: 12.5 s is 12500 ms."""

    def compute(a: Datum) -> Datum:
        minute_us = 60_000_000
        parts = np.mod(values(a.cast(pa.int64())), minute_us) // (1_000_000 // scale)
        return rebuild(parts, pa.int64(), null_mask(a))

    return compute


def _to_timestamp(t: pa.DataType, rows: int, a: Datum) -> Datum:
    micros = pc.round(pc.multiply(a, 1e6), round_mode="half_to_even")
    inside = pc.less(pc.abs(micros), 2.0**63)
    return pc.cast(null_where(pc.invert(inside), micros), pa.int64(), safe=False).cast(t)


def _date_trunc(t: pa.DataType, rows: int, unit: Datum, a: Datum) -> Datum:
    return per_constant(lambda part, word: pc.floor_temporal(part, unit=word), t, rows, a, [unit])


SCALAR: dict[str, Scalar] = {
    "+": _sum(pc.add_checked),
    "-": _sum(pc.subtract_checked),
    "*": _product,
    "/": _quotient,
    "//": _whole_quotient,
    "%": _remainder,
    "negate": lambda t, rows, a: or_null(pc.negate_checked, t, rows, a),
    "abs": lambda t, rows, a: or_null(pc.abs_checked, t, rows, a),
    "sign": _sign,
    "round": _round,
    "floor": _whole(pc.floor, "down"),
    "ceil": _whole(pc.ceil, "up"),
    "sqrt": _defined(pc.sqrt, lambda a: pc.less(a, 0.0)),
    "exp": lambda t, rows, a: pc.exp(a),
    "ln": _defined(pc.ln, _not_positive),
    "log2": _defined(pc.log2, _not_positive),
    "log": _log,
    "power": _power,
    "least": _extreme(less),
    "greatest": _extreme(lambda a, b: less(b, a)),
    "year": _field(pc.year),
    "quarter": _field(pc.quarter),
    "month": _field(pc.month),
    "week": _field(pc.iso_week),
    "day": _field(pc.day),
    "dayofyear": _field(pc.day_of_year),
    "dayofweek": _field(lambda a: pc.day_of_week(a, count_from_zero=True, week_start=7)),  # Sunday is 0
    "isodow": _field(lambda a: pc.day_of_week(a, count_from_zero=False, week_start=1)),  # Monday is 1
    "hour": _field(pc.hour),
    "minute": _field(pc.minute),
    "second": _field(pc.second),
    "millisecond": _field(_second_part(1_000)),
    "microsecond": _field(_second_part(1_000_000)),
    "epoch_us": _field(lambda a: a),
    "epoch": lambda t, rows, a: pc.divide(a.cast(pa.int64()).cast(t, safe=False), 1e6),
    "date_trunc": _date_trunc,
    "make_timestamp": lambda t, rows, a: a.cast(TIMESTAMP),
    "to_timestamp": _to_timestamp,
    **TEXT,
}
