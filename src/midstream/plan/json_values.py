"""Types, schemas and expressions as plain values that JSON can hold, and back: exactly the same ones."""

import base64
import datetime as dt
import decimal
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.plan.expr import Call, Case, Cast, Column, Expr, Literal, Value

Written = dict[str, Any]

_MICROSECOND = dt.timedelta(microseconds=1)
_TO_TEXT: dict[type, tuple[str, Callable[[Any], Any]]] = {
    bool: ("bool", bool),
    int: ("int", int),
    float: ("float", repr),
    str: ("str", str),
    decimal.Decimal: ("decimal", str),
    dt.date: ("date", dt.date.isoformat),
    dt.datetime: ("datetime", dt.datetime.isoformat),
    dt.timedelta: ("timedelta", lambda d: d // _MICROSECOND),
}
"""How a Python value is written: what it is called, and its text."""
_FROM_TEXT: dict[str, Callable[[Any], Value]] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "decimal": decimal.Decimal,
    "date": dt.date.fromisoformat,
    "datetime": dt.datetime.fromisoformat,
    "timedelta": lambda us: us * _MICROSECOND,
}


def write_type(t: pa.DataType) -> str:
    """Write a type as text."""
    return str(t)


def read_type(text: str) -> pa.DataType:
    """Read a type.

    >>> [str(read_type(write_type(t))) for t in (pa.int64(), pa.decimal128(10, 2), pa.timestamp("us", "UTC"))]
    ['int64', 'decimal128(10, 2)', 'timestamp[us, tz=UTC]']
    """
    if found := re.fullmatch(r"decimal128\((\d+), (-?\d+)\)", text):
        return pa.decimal128(int(found[1]), int(found[2]))
    if found := re.fullmatch(r"timestamp\[us, tz=(.+)\]", text):
        return pa.timestamp("us", found[1])
    try:
        return pa.type_for_alias(text)
    except ValueError:
        raise PlanError(f"there is no type '{text}'") from None


def write_schema(schema: pa.Schema) -> list[list[Any]]:
    """Write the columns of a stream: name, type and whether it may be NULL.

    A type that queries cannot use is written as Arrow writes it.
    """
    return [[field.name, _write_any_type(field), field.nullable] for field in schema]


def _write_any_type(field: pa.Field) -> str | Written:
    try:
        if read_type(write_type(field.type)) == field.type:
            return write_type(field.type)
    except PlanError:
        pass
    return {"arrow": base64.b64encode(pa.schema([field]).serialize()).decode()}


def read_schema(written: list[list[Any]]) -> pa.Schema:
    """Read the columns of a stream.

    >>> columns = pa.schema([("k", pa.int64()), ("tags", pa.list_(pa.string()))])
    >>> read_schema(write_schema(columns)) == columns
    True
    """
    return pa.schema([pa.field(name, _read_any_type(t), nullable) for name, t, nullable in written])


def _read_any_type(written: str | Written) -> pa.DataType:
    if isinstance(written, str):
        return read_type(written)
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(written["arrow"]))).field(0).type


def write_column(column: Column) -> list[str]:
    """Write a column: alias, name, type."""
    return [column.alias, column.name, write_type(column.type)]


def read_column(written: list[str]) -> Column:
    """Read a column."""
    alias, name, t = written
    return Column(alias, name, read_type(t))


def write_expr(expr: Expr) -> Written:
    """Write an expression.

    >>> write_expr(Call("<", (Column("a", "k", pa.int64()), Literal(5, pa.int64())), pa.bool_()))["args"][1]
    {'literal': ['int', 5], 'type': 'int64'}
    """
    match expr:
        case Column():
            return {"column": write_column(expr)}
        case Literal(value, t):
            return {"literal": _write_value(value), "type": write_type(t)}
        case Call(function, args, t):
            return {"call": function, "args": [write_expr(a) for a in args], "type": write_type(t)}
        case Cast(arg, t):
            return {"cast": write_expr(arg), "type": write_type(t)}
        case Case(branches, otherwise, t):
            pairs = [[write_expr(c), write_expr(v)] for c, v in branches]
            return {"case": pairs, "else": write_expr(otherwise), "type": write_type(t)}


def read_expr(written: Written) -> Expr:
    """Read an expression."""
    match written:
        case {"column": column}:
            return read_column(column)
        case {"literal": value, "type": t}:
            return Literal(_read_value(value), read_type(t))
        case {"call": function, "args": args, "type": t}:
            return Call(function, tuple(map(read_expr, args)), read_type(t))
        case {"cast": arg, "type": t}:
            return Cast(read_expr(arg), read_type(t))
        case {"case": branches, "else": otherwise, "type": t}:
            pairs = tuple((read_expr(c), read_expr(v)) for c, v in branches)
            return Case(pairs, read_expr(otherwise), read_type(t))
        case _:
            raise PlanError(f"this is no expression: {written}")


def _write_value(value: Value) -> list[Any] | None:
    if value is None:
        return None
    name, text = _TO_TEXT[type(value)]
    return [name, text(value)]


def _read_value(written: list[Any] | None) -> Value:
    if written is None:
        return None
    name, text = written
    return _FROM_TEXT[name](text)
