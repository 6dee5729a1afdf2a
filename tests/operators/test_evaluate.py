"""Expressions over arrays, against DuckDB and against what the language promises."""

import datetime as dt
import decimal
import math
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.expression_text import duckdb_text

from midstream.model.errors import PlanError
from midstream.model.types import INTERVAL, is_number, is_temporal
from midstream.operators.evaluate import evaluate, truth
from midstream.plan.coerce import cast, castable, literal
from midstream.plan.expr import COMPARISONS, Call, Column, Expr, Literal
from midstream.plan.expr import columns as used
from midstream.plan.functions import FUNCTIONS, case, resolve

NAN, INF = float("nan"), float("inf")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [0, 1, -1, 7, -7, 10, 2**31, 2**62, 2**63 - 1, -(2**63)]),
    "j": (pa.int32(), [0, 1, -3, 12, 2**31 - 1, -(2**31)]),
    "u": (pa.uint8(), [0, 1, 255]),
    "f": (pa.float64(), [0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 1e10, 1e300, -1e300, NAN, INF, -INF, 9.3e18]),
    "g": (pa.float32(), [0.0, 0.5, -1.25, NAN, INF]),
    "m": (pa.decimal128(10, 2), [Decimal(x) for x in ("0.00", "0.01", "1.50", "-2.55", "99999999.99", "10.50")]),
    "n": (pa.decimal128(25, 5), [Decimal(x) for x in ("0.00000", "1.50000", "-2.00001", "12345678901234567890.12345")]),
    "b": (pa.bool_(), [True, False]),
    "s": (pa.string(), ["", "a", "A", "abc", "aXbX", "héllo", " x ", "50%", "a_b", "12", "-3.5", "x\ny", "2024-02-29", "t"]),
    "w": (pa.string(), ["", "a", "b", "X", "%", "a%", "%b%", "_", "h_l%", "\\", "abc", "é"]),
    "d": (pa.date32(), [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(1600, 1, 1)]),
    "t": (
        pa.timestamp("us"),
        [
            dt.datetime(1970, 1, 1),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
            dt.datetime(2024, 2, 29, 12, 34, 56, 120000),
            dt.datetime(2023, 1, 1, 5),
            dt.datetime(1700, 7, 4),
        ],
    ),
}  # fmt: skip
COLUMNS = [Column("r", name, t) for name, (t, _) in VALUES.items()]
LITERALS: list[Expr] = [
    literal(v)
    for v in (0, 1, -2, 3, 100, 0.5, -1.5, "a", "a%", "_b%", "", "X", True, None, Decimal("1.5"), Decimal("0.25"))
] + [
    literal(dt.date(2024, 2, 28)),
    literal(dt.datetime(2024, 2, 29, 12)),
    literal(dt.timedelta(days=1, microseconds=5)),
]

# Not fed into others: results may differ in the last bit, or leave the years that people use.
LAST = {
    "exp", "ln", "log", "log2", "power", "sqrt", "round", "make_timestamp", "to_timestamp", "epoch", "lpad", "rpad",
}  # fmt: skip
CASTS = [
    pa.int64(), pa.int8(), pa.uint32(), pa.float64(), pa.decimal128(12, 3), pa.decimal128(5, 1), pa.decimal128(38, 10),
    pa.bool_(), pa.string(), pa.date32(), pa.timestamp("us"),
]  # fmt: skip


def fits_kind(kind: str, t: pa.DataType) -> bool:
    if pa.types.is_null(t):
        return True
    return {
        "number": is_number(t),
        "double": is_number(t),
        "integer": pa.types.is_integer(t),
        "text": pa.types.is_string(t),
        "condition": pa.types.is_boolean(t),
        "instant": is_temporal(t),
        "shown": t != INTERVAL and not pa.types.is_floating(t),
    }.get(kind, True)


def fixed_table() -> pa.Table:
    """Make rows in which every value, NULL included, meets many others."""
    rng = random.Random(7)
    return pa.table({name: pa.array(rng.choices([None, *vs], k=60), t) for name, (t, vs) in VALUES.items()})


TABLE = fixed_table()


def grow_expressions(rng: random.Random, steps: int) -> list[Expr]:
    """Grow expressions from columns and literals, each step applying a function to earlier ones."""
    pool: list[Expr] = [*COLUMNS, *LITERALS]
    grown: list[Expr] = []
    for _ in range(steps):
        name = rng.choice([*FUNCTIONS, *COMPARISONS, "case", "cast", "cast"])
        try:
            expr = grow(rng, name, pool)
        except PlanError:
            continue
        grown.append(expr)
        if name not in LAST and not pa.types.is_floating(expr.type):
            pool += [expr] * 3
    return [e for e in grown if e.type != INTERVAL]


def grow(rng: random.Random, name: str, pool: list[Expr]) -> Expr:
    def pick(kind: str) -> Expr:
        return rng.choice([e for e in pool if fits_kind(kind, e.type)])

    if name == "cast":
        subject = rng.choice([c for c in pool if c.type != INTERVAL and not isinstance(c, Literal)])
        return cast(subject, rng.choice([t for t in CASTS if comparable_cast(subject.type, t)]))
    if name == "case":
        return case([(pick("condition"), pick("any"))], pick("any"))
    function = FUNCTIONS[name]
    count = rng.choice([n for n in (1, 2, 3) if function.kinds(n)])
    if name == "date_trunc":
        unit = rng.choice(["second", "minute", "hour", "day", "week", "month", "quarter", "year"])
        return resolve(name, [literal(unit), pick("instant")])
    if name == "in":
        subject = pick("any")
        members = [e for e in LITERALS if e.type == subject.type or pa.types.is_null(e.type)] or [subject]
        return resolve(name, [subject, *rng.choices(members, k=rng.randint(1, 3))])
    args = [pick(kind) for kind in function.kinds(count) or ()]
    if name in ("lpad", "rpad", "round", "substring", "left", "right") and count > 1:
        # Small counts; how DuckDB reads a negative length is its own.
        args[1] = literal(rng.randint(-6, 9))
        if name == "substring" and count == 3:
            args[2] = literal(rng.randint(0, 9))
    if name in ("make_timestamp", "to_timestamp"):
        args = [COLUMNS[1]]  # within the years DuckDB knows
    if name in ("+", "-") and any(pa.types.is_date(a.type) for a in args):
        args = [literal(rng.randint(-9, 9)) if pa.types.is_integer(a.type) else a for a in args]
    if name == "*" and all(pa.types.is_decimal(a.type) for a in args):
        raise PlanError("DuckDB counts the digits of a product otherwise")
    if name in ("like", "ilike") and count == 3:
        args[2] = literal("!")
    return resolve(name, args)


def comparable_cast(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Leave out casts in which DuckDB reads or writes text in its own way."""
    if not castable(given, wanted):
        return False
    if pa.types.is_string(given):
        return wanted in (pa.string(), pa.date32(), pa.float64())
    if pa.types.is_floating(given):
        return wanted not in (pa.string(),) and not pa.types.is_decimal(wanted)
    return True


def same(ours: Any, theirs: Any) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        return ours == theirs or math.isclose(ours, theirs, rel_tol=1e-12, abs_tol=0.0)
    return bool(ours == theirs)


def plain_values(array: Any) -> list[Any]:
    """Return Python values; instants as numbers, since Python's own end with the year 9999."""
    if pa.types.is_date(array.type):
        return array.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    return array.to_pylist()  # type: ignore[no-any-return]


def differences(exprs: Sequence[Expr], table: pa.Table) -> Iterator[str]:
    """Say where our values are not DuckDB's."""
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    text = ", ".join(f"{duckdb_text(e)} AS c{i}" for i, e in enumerate(exprs))
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("r", table)
        expected = connection.sql(f"SELECT {text} FROM r").to_arrow_table()
    for index, expr in enumerate(exprs):
        result = evaluate(expr, table.num_rows, lambda c: columns[c.name])
        assert result.type == expr.type
        ours, theirs = plain_values(result), plain_values(expected.column(index))
        assert len(ours) == table.num_rows
        for row, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            if not same(mine, other):
                values = {c.name: columns[c.name][row].as_py() for c in used(expr)}
                yield f"{expr}\n  DuckDB: {duckdb_text(expr)}\n  {values}: {mine!r}, DuckDB {other!r}"
                break


@settings(max_examples=120, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 60))
def test_expressions_mean_what_duckdb_means(rng: random.Random, start: int) -> None:
    exprs = grow_expressions(rng, 12)
    if exprs:
        assert not "\n".join(differences(exprs, TABLE.slice(start)))
