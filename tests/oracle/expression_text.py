"""Typed expressions as DuckDB SQL, with our documented differences written out.

Ours: an undefined value is NULL (DuckDB raises, or answers NaN and infinities); casts are TRY_CAST; every node is cast
to the type our plan gave it, so that one difference does not hide behind another.
"""

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa

from midstream.model.types import INTERVAL, type_name
from midstream.plan.expr import COMPARISONS, Call, Case, Cast, Column, Expr, Literal

_INFIX = (*COMPARISONS, "||", "is distinct from")


def duckdb_text(expr: Expr) -> str:
    """Write an expression so that DuckDB computes what we mean by it."""
    match expr:
        case Column(name=name):
            return f'"{name}"'
        case Literal(value=value, type=t):
            return literal_text(value, t)
        case Cast(arg=arg, type=t):
            return f"TRY_CAST({duckdb_text(arg)} AS {type_name(t)})"
        case Case(branches=branches, otherwise=otherwise, type=t):
            whens = " ".join(f"WHEN {duckdb_text(c)} THEN {duckdb_text(v)}" for c, v in branches)
            return f"CASE {whens} ELSE {duckdb_text(otherwise)} END"
        case Call(function=function, args=args, type=t):
            text = call_text(function, [duckdb_text(a) for a in args], [a.type for a in args])
            return (
                text
                if t == INTERVAL or pa.types.is_null(t) or function in _INFIX
                else f"CAST({text} AS {type_name(t)})"
            )
    raise AssertionError(expr)


def literal_text(value: Any, t: pa.DataType) -> str:
    if value is None:
        return f"CAST(NULL AS {type_name(t) if not pa.types.is_null(t) else 'INTEGER'})"
    if isinstance(value, dt.timedelta):
        return f"to_microseconds({value // dt.timedelta(microseconds=1)})"
    if isinstance(value, str | dt.date | decimal.Decimal | float):
        text = str(value).replace("'", "''")
        return f"CAST('{text}' AS {type_name(t)})"
    return f"CAST({value} AS {type_name(t)})"


def call_text(function: str, a: list[str], types: list[pa.DataType]) -> str:
    """Write one call, given its arguments as text."""
    match function, a:
        case ("and" | "or") as word, parts:
            return "(" + f" {word} ".join(parts) + ")"
        case "not", [x]:
            return f"(NOT {x})"
        case "is null", [x]:
            return f"({x} IS NULL)"
        case "negate", [x]:
            return f"TRY(-{x})"
        case "in", [x, *members]:
            return f"({x} IN ({', '.join(members)}))"
        case ("like" | "ilike") as word, [x, p]:
            return f"({x} {word} {p})"
        case ("like" | "ilike") as word, [x, p, e]:
            return f"({x} {word} {p} ESCAPE {e})"
        case "/", [x, y]:
            return f"({x} / NULLIF({y}, 0))"
        case "%", [x, y]:
            return f"TRY({x} % NULLIF({y}, 0))"
        case "//", [x, y]:
            return f"TRY({x} // NULLIF({y}, 0))"
        case "sqrt", [x]:
            return f"CASE WHEN {x} >= 0 THEN sqrt({x}) END"
        case ("ln" | "log2") as name, [x]:
            return f"CASE WHEN {x} > 0 THEN {name}({x}) END"
        case "log", [x]:
            return f"CASE WHEN {x} > 0 THEN log10({x}) END"
        case "log", [b, x]:
            return f"CASE WHEN {x} > 0 AND {b} > 0 AND {b} <> 1 THEN log10({x}) / log10({b}) END"
        case "power", [x, y]:
            bad = f"(isnan(power({x}, {y})) AND NOT isnan({x}) AND NOT isnan({y})) OR ({x} = 0 AND {y} < 0)"
            return f"CASE WHEN {bad} THEN NULL ELSE power({x}, {y}) END"
        case (("floor" | "ceil"), [x]) if pa.types.is_integer(types[0]):
            return x  # DuckDB goes through DOUBLE
        case "round", [x, n]:
            return f"TRY(round({x}, CAST({n} AS INTEGER)))"
        case ("lpad" | "rpad") as name, [x, n, p]:
            return f"TRY({name}({x}, CAST({n} AS INTEGER), {p}))"
        case ("+" | "-") as op, [x, y] if pa.types.is_date(types[0]) and pa.types.is_integer(types[1]):
            return f"TRY({x} {op} TRY_CAST({y} AS INTEGER))"
        case ("+" | "-" | "*") as op, [x, y] if INTERVAL not in types:
            return f"TRY({x} {op} {y})"
        case op, [x, y] if op in _INFIX or op in ("+", "-", "*"):
            return f"({x} {op} {y})"
        case "to_timestamp", [x]:
            return f"TRY(make_timestamp(CAST(round_even({x} * 1e6, 0) AS BIGINT)))"
    return f"TRY({function}({', '.join(a)}))"
