"""Expressions over arrays, against DuckDB and against what the language promises."""

import datetime as dt
import decimal
import math
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.model.errors import PlanError
from midstream.model.types import INTERVAL, is_number, is_temporal
from midstream.operators.expression.evaluate import evaluate, truth
from midstream.plan.coerce import cast, castable, literal
from midstream.plan.expr import COMPARISONS, Column, Expr, Literal
from midstream.plan.expr import columns as used
from midstream.plan.functions import FUNCTIONS, case, resolve
from oracle.expression_text import duckdb_text

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
    "s": (pa.string(), ["", "a", "A", "abc", "aXbX", "héllo", " x ", "50%", "a_b", "12", "-3.5", "x\ny", "2024-02-29"]),
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
        return cast(subject, rng.choice([t for t in CASTS if comparable_cast(subject, t)]))
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
    if name == "split_part":
        args[2] = literal(rng.randint(-4, 4))
    if name in ("lpad", "rpad", "round", "substring", "left", "right") and count > 1:
        # Small counts; how DuckDB reads a negative length is its own.
        args[1] = literal(rng.randint(-6, 9))
        if name == "substring" and count == 3:
            args[2] = literal(rng.randint(0, 9))
    if name in ("make_timestamp", "to_timestamp"):
        args = [COLUMNS[1]]  # within the years DuckDB knows
    if name in ("+", "-") and any(pa.types.is_date(a.type) for a in args):
        args = [literal(rng.randint(-9, 9)) if pa.types.is_integer(a.type) else a for a in args]
    if name == "*" and pa.types.is_decimal(resolve(name, args).type):
        raise PlanError("DuckDB counts the digits of a product otherwise")
    if name in ("like", "ilike") and count == 3:
        args[2] = literal("!")
    return resolve(name, args)


def comparable_cast(subject: Expr, wanted: pa.DataType) -> bool:
    """Leave out casts in which DuckDB reads or writes text in its own way."""
    given = subject.type
    if not castable(given, wanted):
        return False
    if pa.types.is_string(given):
        return wanted == pa.string() or (isinstance(subject, Column) and wanted in (pa.date32(), pa.float64()))
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


def check_drawn_expressions(rng: random.Random, start: int) -> None:
    exprs = grow_expressions(rng, 12)
    if exprs:
        assert not "\n".join(differences(exprs, TABLE.slice(start)))


DRAWN = st.randoms(use_true_random=False), st.integers(0, 60)
test_a_few_expressions_mean_what_duckdb_means = settings(max_examples=6, deadline=None)(
    given(*DRAWN)(check_drawn_expressions)
)
test_expressions_mean_what_duckdb_means = pytest.mark.slow(
    settings(max_examples=120, deadline=None)(given(*DRAWN)(check_drawn_expressions))
)


def over(expr: Expr, **arrays: Any) -> list[Any]:
    """Evaluate an expression over arrays by column name."""
    given_arrays = {name: a if isinstance(a, pa.Array) else pa.array(a) for name, a in arrays.items()}
    rows = len(next(iter(given_arrays.values())))
    return evaluate(expr, rows, lambda c: given_arrays[c.name]).to_pylist()  # type: ignore[no-any-return]


K, J = Column("r", "i", pa.int64()), Column("r", "j", pa.int64())
F, G = Column("r", "f", pa.float64()), Column("r", "g", pa.float64())
S, W = Column("r", "s", pa.string()), Column("r", "w", pa.string())
BIG, SMALL = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("function", "i", "j", "expected"),
    [
        ("+", [BIG, SMALL, 1], [1, -1, 2], [None, None, 3]),
        ("-", [SMALL, BIG, 1], [1, -1, 2], [None, None, -1]),
        ("*", [BIG, 2**32, 3], [2, 2**31, -3], [None, None, -9]),
        ("//", [SMALL, 7, -7], [-1, 0, 2], [None, None, -3]),
        ("%", [SMALL, 7, -7], [-1, 0, 2], [0, None, -1]),
        ("/", [1, 0, -7], [0, 0, 2], [None, None, -3.5]),
    ],
)
def test_undefined_integers_are_null(function: str, i: list[int], j: list[int], expected: list[Any]) -> None:
    assert over(resolve(function, [K, J]), i=i, j=j) == expected


def test_undefined_functions_are_null() -> None:
    assert over(resolve("sqrt", [F]), f=[-1.0, 4.0]) == [None, 2.0]
    assert over(resolve("ln", [F]), f=[0.0, -1.0, 1.0]) == [None, None, 0.0]
    assert over(resolve("log", [G, F]), g=[1.0, -2.0, 10.0], f=[5.0, 5.0, 100.0]) == [None, None, 2.0]
    assert over(resolve("power", [F, G]), f=[-8.0, 0.0, 2.0], g=[0.5, -1.0, 3.0]) == [None, None, 8.0]
    assert over(resolve("negate", [K]), i=[SMALL, 1]) == [None, -1]
    assert over(resolve("abs", [K]), i=[SMALL, -1]) == [None, 1]
    assert over(resolve("lpad", [S, K, W]), s=["a", "a", "a"], i=[3, 10**9, 0], w=["", "x", "x"]) == [None, None, ""]


def test_undefined_instants_are_null() -> None:
    t = Column("r", "t", pa.timestamp("us"))
    late = pa.array([BIG - 5, 0]).cast(pa.timestamp("us"))
    later = evaluate(resolve("+", [t, literal(dt.timedelta(seconds=1))]), 2, lambda _: late)
    assert later.cast(pa.int64()).to_pylist() == [None, 1_000_000]
    assert over(resolve("to_timestamp", [F]), f=[1e300, 1.5]) == [None, dt.datetime(1970, 1, 1, 0, 0, 1, 500000)]


@pytest.mark.parametrize(
    ("given", "wanted", "values", "expected"),
    [
        (pa.string(), pa.int64(), ["1", " +2 ", "-3", "4.0", "1e3", "x", "", str(2**63), None],
         [1, 2, -3, None, None, None, None, None, None]),
        (pa.string(), pa.uint8(), ["255", "256", "-1"], [255, None, None]),
        (pa.string(), pa.float64(), ["1", "+.5", "5.", "-1e-3", "inf", "x", "1 2", "0x1F"],
         [1.0, 0.5, 5.0, -0.001, INF, None, None, None]),
        (pa.string(), pa.decimal128(5, 2), ["1.235", "-1.235", "999.994", "999.995", "1e2", "x"],
         [Decimal("1.24"), Decimal("-1.24"), Decimal("999.99"), None, Decimal("100.00"), None]),
        (pa.string(), pa.bool_(), ["true", " T ", "NO", "1", "0", "maybe"], [True, True, False, True, False, None]),
        (pa.string(), pa.date32(), ["2024-02-29", "2023-02-29", "2024-02-29 23:59:59", "soon"],
         [dt.date(2024, 2, 29), None, dt.date(2024, 2, 29), None]),
        (pa.string(), pa.timestamp("us"), ["2024-02-29", "2024-02-29T12:30", "2024-02-29 12:30:00.5Z",
                                           "2024-02-29 12:30:00+02:00", "2024-02-29 25:00"],
         [dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30), dt.datetime(2024, 2, 29, 12, 30, 0, 500000),
          dt.datetime(2024, 2, 29, 10, 30), None]),
        (pa.float64(), pa.int64(), [2.5, 3.5, -0.4, NAN, INF, 1e19], [2, 4, 0, None, None, None]),
        (pa.float64(), pa.decimal128(5, 2), [1.5, NAN, -INF, 999.99, 1000.0, 999.999],
         [Decimal("1.50"), None, None, Decimal("999.99"), None, None]),
        (pa.float64(), pa.float32(), [1e300, INF, 1.5], [None, INF, 1.5]),
        (pa.float64(), pa.string(), [1.0, -0.0, 1e-7, 1e20, 0.1, NAN, -INF],
         ["1.0", "-0.0", "1e-07", "1e+20", "0.1", "nan", "-inf"]),
        (pa.int64(), pa.int8(), [127, 128, -128, -129], [127, None, -128, None]),
        (pa.int64(), pa.decimal128(5, 2), [999, 1000, -999, SMALL], [Decimal(999), None, Decimal(-999), None]),
        (pa.int64(), pa.decimal128(38, 30), [5, 10**9], [Decimal(5), None]),
        (pa.decimal128(5, 2), pa.int64(), [Decimal("2.50"), Decimal("-2.50"), Decimal("999.99")], [3, -3, 1000]),
        (pa.decimal128(5, 2), pa.decimal128(3, 1), [Decimal("1.25"), Decimal("-1.25"), Decimal("100.00")],
         [Decimal("1.3"), Decimal("-1.3"), None]),
        (pa.decimal128(38, 10), pa.string(), [Decimal(0), Decimal("1e-10")], ["0.0000000000", "0.0000000001"]),
        (pa.timestamp("us"), pa.string(), [dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 1, 2, 3, 120000)],
         ["2024-02-29 00:00:00", "2024-02-29 01:02:03.12"]),
        (pa.timestamp("us", "Asia/Tokyo"), pa.date32(), [dt.datetime(2024, 2, 28, 23, tzinfo=dt.UTC)],
         [dt.date(2024, 2, 28)]),
    ],
)  # fmt: skip
def test_casts(given: pa.DataType, wanted: pa.DataType, values: list[Any], expected: list[Any]) -> None:
    assert over(cast(Column("r", "v", given), wanted), v=pa.array(values, given)) == expected


def test_rounding_up_the_longest_decimals() -> None:
    v, nines = Column("r", "v", pa.decimal128(38, 2)), Decimal("9" * 36 + ".99")
    for name in ("round", "ceil"):
        assert over(resolve(name, [v]), v=pa.array([nines, Decimal("1.50")], v.type)) == [None, Decimal(2)]
    assert over(cast(v, pa.decimal128(38, 1)), v=pa.array([nines], v.type)) == [Decimal("1" + "0" * 36)]
    assert over(cast(v, pa.int64()), v=pa.array([nines], v.type)) == [None]


def test_floats_have_a_total_order() -> None:
    f, g = [NAN, NAN, 1.0, -0.0, None], [NAN, 1.0, NAN, 0.0, NAN]
    expected = {
        "=": [True, False, False, True, None],
        "<>": [False, True, True, False, None],
        "<": [False, False, True, False, None],
        "<=": [True, False, True, True, None],
        ">": [False, True, False, False, None],
        ">=": [True, True, False, True, None],
    }
    for comparison, wanted in expected.items():
        assert over(resolve(comparison, [F, G]), f=f, g=g) == wanted
    assert over(resolve(">", [F, literal(1e308)]), f=[NAN, INF, 0.0]) == [True, True, False]
    assert over(resolve("<", [literal(1e308), F]), f=[NAN, INF, 0.0]) == [True, True, False]
    assert over(resolve("in", [F, literal(0.0), literal(2.0)]), f=[-0.0, 1.0, None]) == [True, False, None]


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_decimals_are_exact(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from([(5, 2), (10, 0), (18, 18), (25, 5), (12, 6)]), min_size=2, max_size=2))
    columns = [Column("r", name, pa.decimal128(*t)) for name, t in zip("xy", types, strict=True)]
    draws = [st.decimals(-(10 ** (p - s)) + 1, 10 ** (p - s) - 1, places=s) for p, s in types]
    x, y = (data.draw(st.lists(d, min_size=3, max_size=3)) for d in draws)
    for name, exact in (("+", lambda a, b: a + b), ("-", lambda a, b: a - b), ("*", lambda a, b: a * b)):
        expr = resolve(name, columns)
        if pa.types.is_decimal(expr.type):
            arrays = {c.name: pa.array(v, c.type) for c, v in zip(columns, (x, y), strict=True)}
            with decimal.localcontext(prec=80):
                assert over(expr, **arrays) == [exact(a, b) for a, b in zip(x, y, strict=True)]


def test_parameters_may_vary_by_row() -> None:
    rows = {"s": ["abc", "abc", None, "xyz"], "w": ["a%", "_", "%", None], "i": [1, 2, 3, None]}
    assert over(resolve("like", [S, W]), **rows) == [True, False, None, None]
    assert over(resolve("left", [S, K]), **rows) == ["a", "ab", None, None]
    assert over(resolve("replace", [S, W, S]), s=["a", "a"], w=["a", ""]) == ["a", "a"]
    assert over(resolve("like", [literal("abc"), W]), **rows) == [True, False, True, None]


def test_truth_counts_null_as_false() -> None:
    array = pa.array([True, None, False])
    b = Column("r", "b", pa.bool_())
    assert truth(b, 3, lambda _: array).tolist() == [True, False, False]
    assert truth(resolve("not", [b]), 3, lambda _: array).tolist() == [False, False, True]
    assert truth(literal(True), 2, lambda _: array).tolist() == [True, True]
    assert truth(literal(None), 2, lambda _: array).tolist() == [False, False]
    assert truth(b, 2, lambda _: array.slice(1)).tolist() == [False, False]


def test_a_column_is_not_copied() -> None:
    array = pa.array([1, 2, 3])
    assert evaluate(K, 3, lambda _: array) is array


def test_constants_fill_every_row() -> None:
    assert over(resolve("+", [literal(1), literal(2)]), i=[0, 0]) == [3, 3]
    assert over(resolve("concat", [literal("a"), literal(None)]), i=[0, 0]) == ["a", "a"]
    assert over(Literal(None, pa.decimal128(5, 2)), i=[0, 0]) == [None, None]
    assert over(case([(literal(True), literal("x"))]), i=[0]) == ["x"]
    assert over(literal(1), i=pa.array([], pa.int64())) == []


def test_overflow_in_every_row_is_only_slow() -> None:
    rows = 5000
    assert over(resolve("+", [K, literal(1)]), i=[BIG] * rows) == [None] * rows
