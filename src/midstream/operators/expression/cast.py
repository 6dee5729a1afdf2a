"""Casts between value types: an impossible value becomes NULL, a number that loses digits is rounded.

Rounding: half to even from FLOAT and DOUBLE, half away from zero from DECIMAL. Text is trimmed; a timestamp with a
zone is turned into UTC.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.kernels.arrays import Matrix
from midstream.model.types import MAX_DECIMAL_DIGITS, TIMESTAMP
from midstream.operators.expression.arrays import array_of, numpy_values, validity
from midstream.operators.expression.datum import Datum, null_mask, null_where, or_null, rebuild, spread, values

_INTEGER = r"^[+-]?\d+$"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_SPECIAL = r"(?i)^[+-]?(nan|inf|infinity)$"
_INSTANT = r"^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?$"
_ZONED = r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)$"
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


def cast(datum: Datum, wanted: pa.DataType, rows: int) -> pa.Array:
    """Convert a datum to a type.

    >>> cast(pa.array(["12", " -3 ", "x", None]), pa.int32(), 4).to_pylist()
    [12, -3, None, None]
    >>> cast(pa.array([2.5, 3.5, float("nan"), 1e30]), pa.int64(), 4).to_pylist()
    [2, 4, None, None]
    """
    array = spread(datum, rows)
    given = array.type
    if given == wanted:
        return array
    if pa.types.is_null(given):
        return pa.nulls(rows, wanted)
    if pa.types.is_string(given):
        return _from_text(array, wanted)
    if pa.types.is_string(wanted):
        return _to_text(array)
    if pa.types.is_decimal(given):
        return _from_decimal(array, wanted)
    if pa.types.is_decimal(wanted):
        return _to_decimal(array, wanted)
    if pa.types.is_integer(wanted) and not pa.types.is_boolean(given):
        return _to_integer(array, wanted)
    if pa.types.is_float32(wanted) and pa.types.is_floating(given):
        narrow = pc.cast(array, wanted)
        return null_where(pc.and_(pc.is_inf(narrow), pc.is_finite(array)), narrow)
    if pa.types.is_date(wanted):
        array = array.cast(TIMESTAMP)  # a zone would make it the local day
    return or_null(lambda a: pc.cast(a, wanted, safe=False), wanted, rows, array)


def _to_integer(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_floating(array.type):
        array = pc.round(array.cast(pa.float64()), round_mode="half_to_even")
        inside = pc.and_(pc.greater_equal(array, -(2.0**63)), pc.less(array, 2.0**63))
        array = pc.cast(null_where(pc.invert(inside), array), pa.int64(), safe=False)
    if wanted == pa.int64():
        return array.cast(wanted)
    limits = np.iinfo(wanted.to_pandas_dtype())
    array = array.cast(pa.int64())
    outside = pc.or_(pc.less(array, int(limits.min)), pc.greater(array, int(limits.max)))
    return pc.cast(null_where(outside, array), wanted)


def unscaled(array: pa.Array) -> pa.Array:
    """Return the digits of a decimal array of at most 18 digits as integers.

    >>> import decimal
    >>> unscaled(pa.array([decimal.Decimal("1.25"), None], pa.decimal128(5, 2))).to_pylist()
    [125, None]
    """
    return rebuild(_words(array)[0], pa.int64(), null_mask(array))


def _words(array: pa.Array) -> Matrix:
    """Return the low and the high 64 bits of the digits of a decimal array."""
    return np.ascontiguousarray(numpy_values(array).T)


def scaled(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Read integers as the digits of a decimal of at most 18 digits, the reverse of `unscaled`."""
    low = values(array)
    return array_of(wanted, np.stack([low, low >> 63], axis=1), validity(array))


def _from_decimal(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    given = array.type
    if pa.types.is_floating(wanted):
        return _to_float(array).cast(wanted)
    if pa.types.is_boolean(wanted):
        return pc.not_equal(array, pa.scalar(0, given))
    if pa.types.is_decimal(wanted):
        return round_decimal(array, wanted.scale, wanted)
    return _to_integer(round_decimal(array, 0, pa.int64()), wanted)


def round_decimal(array: pa.Array, digits: int, wanted: pa.DataType, mode: str = "half_towards_infinity") -> pa.Array:
    """Round decimals to digits after the point, as another type; what does not fit becomes NULL.

    >>> import decimal
    >>> round_decimal(pa.array([decimal.Decimal("9.95")], pa.decimal128(3, 2)), 1, pa.decimal128(3, 1)).to_pylist()
    [Decimal('10.0')]
    """
    given = array.type
    # Rounding up may take one more digit, and Arrow does not notice when it is not there.
    wide = (pa.decimal128 if given.precision < MAX_DECIMAL_DIGITS else pa.decimal256)(given.precision + 1, given.scale)

    def rescale(part: pa.Array) -> pa.Array:
        if given.scale > digits:
            part = pc.round(part.cast(wide), ndigits=digits, round_mode=mode)
        return part.cast(wanted)

    return or_null(rescale, wanted, len(array), array)


def _to_float(array: pa.Array) -> pa.Array:
    """Return the nearest doubles: Arrow's own cast is off by a unit in the last place."""
    low, high = _words(array)
    exact = (high == low >> 63) & (np.abs(low) <= 2**53) if array.type.scale <= 22 else np.zeros(len(low), bool)
    result = rebuild(low.astype(np.float64) / 10.0**array.type.scale, pa.float64(), null_mask(array))
    if exact.all():  # one division of exact numbers
        return result
    return pc.if_else(pa.array(exact), result, array.cast(pa.string()).cast(pa.float64()))


def _to_decimal(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    whole_digits = wanted.precision - wanted.scale
    if pa.types.is_floating(array.type):
        array = array.cast(pa.float64())
        inside = pc.less(pc.abs(array), 10.0**whole_digits)  # false for NaN
        array = null_where(pc.invert(inside), array)
    else:
        array = array.cast(pa.int64())
        if whole_digits < 19:
            array = null_where(pc.greater_equal(pc.abs(array), 10**whole_digits), array)
            array = null_where(pc.equal(array, -(2**63)), array)
        if wanted.scale > MAX_DECIMAL_DIGITS - 19:
            return or_null(lambda a: a.cast(pa.string()).cast(wanted), wanted, len(array), array)
        array = array.cast(pa.decimal128(19 + wanted.scale, wanted.scale))
    return or_null(lambda a: pc.cast(a, wanted), wanted, len(array), array)


def _to_text(array: pa.Array) -> pa.Array:
    t = array.type
    if pa.types.is_timestamp(t):
        text = array.cast(TIMESTAMP).cast(pa.string())
        return pc.replace_substring_regex(text, r"\.?0*$", "") if len(text) else text
    text = array.cast(pa.string())
    if pa.types.is_decimal(t) and t.scale > 6:
        return _without_exponent(array, text)
    if pa.types.is_floating(t):
        text = pc.replace_substring_regex(text, r"^(-?\d+)$", r"\1.0")
        text = pc.replace_substring_regex(text, r"e([+-])(\d)$", r"e\10\2")
    return text


def _without_exponent(array: pa.Array, text: pa.Array) -> pa.Array:
    """Write out decimals below 0.000001, which Arrow shows as 1E-7."""
    short = pc.match_substring(text, "E")
    if not pc.any(short).as_py():
        return text
    scale = array.type.scale
    size = pc.abs(array)
    whole = pa.Array.from_buffers(pa.decimal128(MAX_DECIMAL_DIGITS, 0), len(size), size.buffers(), offset=size.offset)
    digits = pc.utf8_lpad(whole.cast(pa.string()), scale, padding="0")
    sign = pc.if_else(pc.less(array, pa.scalar(0, array.type)), "-0.", "0.")
    return pc.if_else(short, pc.binary_join_element_wise(sign, digits, ""), text)


def _from_text(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    text = pc.utf8_trim_whitespace(array)
    rows = len(text)
    if pa.types.is_boolean(wanted):
        word = pc.utf8_lower(text)
        truth = pc.is_in(word, value_set=pa.array(_TRUE))
        return null_where(pc.invert(pc.or_(truth, pc.is_in(word, value_set=pa.array(_FALSE)))), truth)
    if pa.types.is_timestamp(wanted) or pa.types.is_date(wanted):
        return cast(_instant(text), wanted, rows)
    if pa.types.is_integer(wanted):
        return or_null(lambda a: a.cast(wanted), wanted, rows, _unsigned(_only(text, _INTEGER)))
    if pa.types.is_floating(wanted):
        shaped = _unsigned(_only(text, f"{_NUMBER}|{_SPECIAL}"))
        return cast(or_null(lambda a: a.cast(pa.float64()), pa.float64(), rows, shaped), wanted, rows)
    room = MAX_DECIMAL_DIGITS - (wanted.precision - wanted.scale) - 1  # one digit may be carried over
    wide = pa.decimal128(MAX_DECIMAL_DIGITS, max(room, wanted.scale))
    return cast(or_null(lambda a: a.cast(wide), wide, rows, _unsigned(_only(text, _NUMBER))), wanted, rows)


def _instant(text: pa.Array) -> pa.Array:
    plain = or_null(lambda a: a.cast(TIMESTAMP), TIMESTAMP, len(text), _only(text, _INSTANT))
    zoned = _only(text, _ZONED)
    if zoned.null_count == len(zoned):
        return plain
    utc = pa.timestamp("us", "UTC")
    return pc.coalesce(plain, or_null(lambda a: a.cast(utc), utc, len(text), zoned).cast(TIMESTAMP))


def _only(text: pa.Array, pattern: str) -> pa.Array:
    """Keep the text that matches a pattern, NULL for the rest."""
    return null_where(pc.invert(pc.match_substring_regex(text, pattern)), text)


def _unsigned(text: pa.Array) -> pa.Array:
    """Drop a leading plus, which Arrow does not read."""
    return pc.utf8_ltrim(text, characters="+")
