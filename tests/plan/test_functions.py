"""The function table: types of results, implicit casts, refusals."""

import decimal

import pyarrow as pa
import pytest

from midstream.model.errors import PlanError
from midstream.plan.coerce import literal
from midstream.plan.expr import Column, Expr
from midstream.plan.functions import FUNCTIONS, SYNONYMS, case, resolve

COLUMNS: dict[str, Expr] = {
    name: Column("r", name, t)
    for name, t in {
        "i8": pa.int8(), "i32": pa.int32(), "i64": pa.int64(), "f32": pa.float32(), "f64": pa.float64(),
        "m": pa.decimal128(10, 2), "n": pa.decimal128(38, 10), "b": pa.bool_(), "s": pa.string(), "d": pa.date32(),
        "t": pa.timestamp("us"), "z": pa.timestamp("us", "UTC"),
    }.items()
}  # fmt: skip
POINT = literal(decimal.Decimal("10.5"))


@pytest.mark.parametrize(
    ("function", "args", "text", "result"),
    [
        ("=", ["i32", "i32"], "(r.i32 = r.i32)", "bool"),
        ("=", ["i32", "i64"], "(CAST(r.i32 AS BIGINT) = r.i64)", "bool"),
        ("=", ["i8", 5], "(r.i8 = 5)", "bool"),
        ("=", ["i8", 500], "(CAST(r.i8 AS BIGINT) = 500)", "bool"),
        ("=", ["t", "z"], "(r.t = CAST(r.z AS TIMESTAMP))", "bool"),
        ("<", ["d", "t"], "(CAST(r.d AS TIMESTAMP) < r.t)", "bool"),
        ("<", ["m", "f64"], "(CAST(r.m AS DOUBLE) < r.f64)", "bool"),
        ("<", ["i64", None], "(r.i64 < NULL)", "bool"),
        ("<", [POINT, "m"], "(10.50 < r.m)", "bool"),
        ("<", [POINT, "i64"], "(10.5 < CAST(r.i64 AS DOUBLE))", "bool"),
        ("+", ["i8", "i32"], "(CAST(r.i8 AS BIGINT) + CAST(r.i32 AS BIGINT))", "int64"),
        ("+", ["f32", "f32"], "(CAST(r.f32 AS DOUBLE) + CAST(r.f32 AS DOUBLE))", "double"),
        ("+", ["m", 1], "(r.m + 1)", "decimal128(11, 2)"),
        ("*", ["m", POINT], "(r.m * 10.5)", "decimal128(14, 3)"),
        ("*", ["m", "i64"], "(r.m * CAST(r.i64 AS DECIMAL(19, 0)))", "decimal128(30, 2)"),
        ("*", ["n", "m"], "(CAST(r.n AS DOUBLE) * CAST(r.m AS DOUBLE))", "double"),
        ("/", ["i64", 2], "(CAST(r.i64 AS DOUBLE) / 2.0)", "double"),
        ("%", ["i32", 2], "(CAST(r.i32 AS BIGINT) % 2)", "int64"),
        ("-", ["t", "t"], "(r.t - r.t)", "duration[us]"),
        ("-", ["d", "d"], "(r.d - r.d)", "int64"),
        ("round", ["m", 1], "ROUND(r.m, 1)", "decimal128(11, 2)"),
        ("coalesce", ["i32", "f64"], "COALESCE(CAST(r.i32 AS DOUBLE), r.f64)", "double"),
        ("nvl", ["m", 0], "COALESCE(r.m, 0.00)", "decimal128(10, 2)"),
        ("iif", ["b", 1, 2], "CASE WHEN r.b THEN 1 ELSE 2 END", "int64"),
        ("||", ["s", "i64"], "(r.s || CAST(r.i64 AS VARCHAR))", "string"),
        ("year", ["d"], "YEAR(CAST(r.d AS TIMESTAMP))", "int64"),
        ("not", ["b"], "(NOT r.b)", "bool"),
    ],
)
def test_resolve(function: str, args: list[object], text: str, result: str) -> None:
    given = [COLUMNS[a] if a in COLUMNS else literal(a) if not hasattr(a, "type") else a for a in args]  # type: ignore
    expr = resolve(function, given)
    assert (str(expr), str(expr.type)) == (text, result)


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        ("=", ["s", "i64"], "cannot compare VARCHAR with BIGINT: r.s = r.i64"),
        ("=", ["b", "i64"], "cannot compare BOOLEAN with BIGINT: r.b = r.i64"),
        ("<", ["t", "i64"], "cannot compare TIMESTAMP with BIGINT: r.t < r.i64"),
        ("+", ["t", "t"], "cannot compute TIMESTAMP + TIMESTAMP: r.t + r.t"),
        ("*", ["s", "i64"], "cannot compute VARCHAR * BIGINT: r.s * r.i64"),
        ("negate", ["s"], "- takes a number, but r.s is VARCHAR"),
        ("and", ["b", "i64"], "AND takes a condition, but r.i64 is BIGINT"),
        ("lower", ["i64"], "LOWER takes VARCHAR, but r.i64 is BIGINT"),
        ("substring", ["s", "f64"], "SUBSTRING takes an integer, but r.f64 is DOUBLE"),
        ("year", ["i64"], "YEAR takes a date or timestamp, but r.i64 is BIGINT"),
        ("substring", ["s"], "SUBSTRING takes 2 or 3 arguments, not 1"),
        ("power", ["i64"], "POWER takes 2 arguments, not 1"),
        ("greatest", ["i64", "s"], "GREATEST needs values of one type, not BIGINT with VARCHAR"),
        ("uper", ["s"], "there is no function 'uper'; did you mean 'upper'?"),
    ],
)
def test_refusals(function: str, args: list[str], message: str) -> None:
    with pytest.raises(PlanError) as error:
        resolve(function, [COLUMNS[a] for a in args])
    assert str(error.value) == message


def test_synonyms_name_functions() -> None:
    assert set(SYNONYMS.values()) <= set(FUNCTIONS)
    assert not set(SYNONYMS) & set(FUNCTIONS)


def test_case_without_else_is_null() -> None:
    expr = case([(COLUMNS["b"], COLUMNS["m"])])
    assert str(expr) == "CASE WHEN r.b THEN r.m ELSE NULL END"
    assert expr.type == pa.decimal128(10, 2)


def test_largest_negative_integer_is_one() -> None:
    expr = resolve("negate", [literal(2**63)])
    assert (str(expr), str(expr.type)) == (str(-(2**63)), "int64")
