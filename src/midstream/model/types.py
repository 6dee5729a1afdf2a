"""Value types: Arrow's own types, narrowed to those a query can use, and how two of them meet."""

import pyarrow as pa

TIMESTAMP = pa.timestamp("us")
INTERVAL = pa.duration("us")
"""The type of an INTERVAL literal; it exists inside expressions only."""

MAX_DECIMAL_DIGITS = 38


def storage_type(declared: pa.DataType) -> pa.DataType | None:
    """Return the type a column is held in, or None when queries cannot use it.

    >>> storage_type(pa.large_string()), storage_type(pa.timestamp("ms")), storage_type(pa.list_(pa.int8()))
    (DataType(string), TimestampType(timestamp[us]), None)
    """
    t = declared
    if pa.types.is_dictionary(t):
        return storage_type(t.value_type)
    if pa.types.is_uint64(t):
        return pa.int64()
    if pa.types.is_integer(t) or pa.types.is_boolean(t) or pa.types.is_null(t):
        return t
    if pa.types.is_float16(t):
        return pa.float32()
    if pa.types.is_floating(t):
        return t
    if pa.types.is_decimal(t):
        return pa.decimal128(t.precision, t.scale) if t.precision <= MAX_DECIMAL_DIGITS else None
    if pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return pa.string()
    if pa.types.is_date(t):
        return pa.date32()
    if pa.types.is_timestamp(t):
        return pa.timestamp("us", t.tz)
    return None


def is_number(t: pa.DataType) -> bool:
    """Tell whether arithmetic applies to the type."""
    return bool(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t))


def is_temporal(t: pa.DataType) -> bool:
    """Tell whether the type is a date or a timestamp."""
    return bool(pa.types.is_date(t) or pa.types.is_timestamp(t))


def is_exact_code(t: pa.DataType) -> bool:
    """Tell whether values of the type map to 64-bit codes that keep equality and order."""
    if pa.types.is_decimal(t):
        return bool(t.precision <= 18)
    return bool(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_boolean(t) or is_temporal(t))


def decimal_of_integer(t: pa.DataType) -> pa.DataType:
    """Return the decimal type that holds every value of an integer type."""
    digits = {8: 3, 16: 5, 32: 10, 64: 19}[t.bit_width]
    return pa.decimal128(digits, 0)


def common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the type in which values of both types are compared, or None when they never are.

    >>> common_type(pa.int32(), pa.int64()), common_type(pa.int8(), pa.float32()), common_type(pa.int8(), pa.string())
    (DataType(int64), DataType(double), None)
    """
    if pa.types.is_null(a):
        return b
    if pa.types.is_null(b):
        return a
    if pa.types.is_boolean(a) and pa.types.is_boolean(b):
        return pa.bool_()
    if is_number(a) and is_number(b):
        return _common_number(a, b)
    if pa.types.is_string(a) and pa.types.is_string(b):
        return pa.string()
    if pa.types.is_date(a) and pa.types.is_date(b):
        return pa.date32()
    if is_temporal(a) and is_temporal(b):
        return TIMESTAMP
    if a == INTERVAL and b == INTERVAL:
        return INTERVAL
    return None


def _common_number(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(a) or pa.types.is_floating(b):
        return pa.float64()
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        return pa.int64()
    left = decimal_of_integer(a) if pa.types.is_integer(a) else a
    right = decimal_of_integer(b) if pa.types.is_integer(b) else b
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale) + scale
    return pa.decimal128(digits, scale) if digits <= MAX_DECIMAL_DIGITS else pa.float64()


def type_name(t: pa.DataType) -> str:
    """Name a type as SQL does.

    >>> type_name(pa.int64()), type_name(pa.decimal128(10, 2)), type_name(pa.timestamp("us"))
    ('BIGINT', 'DECIMAL(10, 2)', 'TIMESTAMP')
    """
    if pa.types.is_decimal(t):
        return f"DECIMAL({t.precision}, {t.scale})"
    if pa.types.is_timestamp(t):
        return "TIMESTAMP"
    names = {
        "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
        "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER",
        "float": "FLOAT", "double": "DOUBLE", "bool": "BOOLEAN", "string": "VARCHAR",
        "date32[day]": "DATE", "null": "NULL", "duration[us]": "INTERVAL",
    }  # fmt: skip
    return names.get(str(t), str(t).upper())
