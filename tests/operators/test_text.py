"""Text functions whose parameters are other in every row: against DuckDB, and without a loop over rows."""

import datetime as dt
import random
import sys
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operators.test_evaluate import CASTS, differences

from midstream.model.types import TIMESTAMP
from midstream.operators.expression.evaluate import evaluate
from midstream.plan.coerce import cast, castable, literal
from midstream.plan.expr import Column, Expr
from midstream.plan.functions import FUNCTIONS, resolve

S, W, V = (Column("r", name, pa.string()) for name in "swv")
N, J = (Column("r", name, pa.int64()) for name in "ij")
WIDE = pa.decimal128(38, 10)
LETTERS = ["a", "b", "A", "B", "é", "É", "ß", "中", "𝄞", " ", "%", "_", "!", ","]
CALLS: dict[str, list[list[Expr]]] = {
    "like": [[S, W], [S, W, literal("!")], [literal("abé"), W], [S, W, V]],
    "ilike": [[S, W], [S, W, literal("!")]],
    "trim": [[S], [S, W]],
    "ltrim": [[S], [S, W]],
    "rtrim": [[S], [S, W]],
    "substring": [[S, N], [S, N, J], [S, literal(2), J], [literal("bé𝄞x"), N, J]],
    "left": [[S, N]],
    "right": [[S, N]],
    "replace": [[S, W, V], [S, literal("a"), V], [S, W, literal("中")]],
    "split_part": [[S, W, N], [S, literal(","), N], [S, literal("ab"), literal(2)]],
    "starts_with": [[S, W], [S, literal("é")]],
    "ends_with": [[S, W], [S, literal("é")]],
    "contains": [[S, W], [S, literal("é")]],
    "strpos": [[S, W], [S, literal("é")], [literal("é中a"), W]],
    "lpad": [[S, N, W], [S, literal(5), W]],
    "rpad": [[S, N, W], [S, literal(5), W]],
}


def words(rng: random.Random, count: int, longest: int) -> pa.Array:
    letters = rng.sample(LETTERS, rng.randint(2, 6))
    drawn = ["".join(rng.choices(letters, k=rng.randint(0, longest))) for _ in range(count)]
    return pa.array([None if rng.random() < 0.05 else word for word in drawn], pa.string())


def table(rng: random.Random, rows: int) -> pa.Table:
    """Draw texts, parts of them, and places in them."""
    subjects = words(rng, rows, 12)
    parts = words(rng, rows, 3).to_pylist()
    for i, text in enumerate(subjects.to_pylist()):
        if text and rng.random() < 0.5:
            start = rng.randrange(len(text))
            parts[i] = text[start : start + rng.randint(1, 3)]
    small = [pa.array([rng.choice([None, *range(low, 9)]) for _ in range(rows)], pa.int64()) for low in (-8, 0)]
    # One character each: what DuckDB takes as an escape. The escape of nothing at the end is an error there.
    return pa.table(
        {"s": subjects, "w": pa.array(parts, pa.string()), "v": words(rng, rows, 2), "i": small[0], "j": small[1]}
    )


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False))
def test_parameters_of_every_row(rng: random.Random) -> None:
    rows = table(rng, 80)
    exprs = [
        resolve(name, args) for name, lists in CALLS.items() for args in lists if V not in args or name == "replace"
    ]
    keeps = [not (w or "").endswith("!") for w in rows.column("w").to_pylist()]
    found = list(differences(exprs, rows.filter(pa.array(keeps)).slice(rng.randrange(5))))
    assert not "\n".join(found)


def test_an_escape_of_every_row() -> None:
    rows = {
        "s": ["a%", "ab", "a!", "é%é", "x"],
        "w": ["a!%", "a!%", "a!", "éé%éé", "%x"],
        "v": ["!x", "", "!", "é", "%"],
    }
    columns = {name: pa.array(values) for name, values in rows.items()}
    found = evaluate(resolve("like", [S, W, V]), 5, lambda c: columns[c.name])
    assert found.to_pylist() == [True, False, True, True, True]


def test_a_function_for_every_case() -> None:
    one_argument = {"lower", "upper", "length", "reverse"}
    takes_text = {name for name, f in FUNCTIONS.items() if "text" in f.takes.split()}
    assert set(CALLS) == takes_text - one_argument - {"date_trunc"}


def steps(expr: Expr, columns: dict[str, pa.Array], rows: int) -> int:
    """Count the instructions of Python's that it takes to evaluate an expression."""
    evaluate(expr, rows, lambda c: columns[c.name])
    count = 0

    def tell(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return tell

    before = sys.gettrace()
    sys.settrace(tell)
    try:
        evaluate(expr, rows, lambda c: columns[c.name])
    finally:
        sys.settrace(before)
    return count


KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "any": (pa.int64(), lambda i: i),
    "number": (pa.decimal128(30, 4), lambda i: Decimal(i + 1) / 16),
    "double": (pa.float64(), lambda i: i / 8 + 0.5),
    "integer": (pa.int64(), lambda i: i),
    "text": (pa.string(), lambda i: f"{i}a"),
    "shown": (pa.string(), lambda i: f"{i}b"),
    "condition": (pa.bool_(), lambda i: i % 3 == 0),
    "instant": (TIMESTAMP, lambda i: dt.datetime(2024, 1, 1) + dt.timedelta(days=i)),
}


def call(name: str) -> Expr:
    """Call a function with a column for every argument, each of the kind that it takes."""
    function = FUNCTIONS[name]
    count = max(n for n in (1, 2, 3) if function.kinds(n))
    kinds: Sequence[str] = function.kinds(count) or ()
    args: list[Expr] = [Column("r", f"{kind}{k}", KINDS[kind][0]) for k, kind in enumerate(kinds)]
    return resolve(name, [literal("day"), *args[1:]] if name == "date_trunc" else args)


def grows(expr: Expr) -> bool:
    """Tell whether an expression takes more steps over more rows."""
    counted = []
    for rows in (200, 1000):
        columns = {
            f"{kind}{k}": pa.array([value(i * (k + 1)) for i in range(rows)], t)
            for kind, (t, value) in KINDS.items()
            for k in range(3)
        }
        counted.append(steps(expr, columns, rows))
    return counted[1] > 1.2 * counted[0] + 100


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_no_function_goes_row_by_row(name: str) -> None:
    assert not grows(call(name))


def test_no_cast_goes_row_by_row() -> None:
    given = [Column("r", f"{kind}0", t) for kind, (t, _) in KINDS.items()]
    tiny = cast(resolve("/", [Column("r", "double0", pa.float64()), literal(1e12)]), pa.decimal128(38, 20))
    for column in [*given, tiny]:
        for wanted in CASTS:
            assert not castable(column.type, wanted) or not grows(cast(column, wanted)), (column, wanted)


def test_decimals_are_written_out() -> None:
    small = pa.array(
        [Decimal(x) for x in ("0.00000001", "-0.00000123", "0E-10", "1.5", "-12.0000000001")] + [None], WIDE
    )
    found = evaluate(cast(Column("r", "d", WIDE), pa.string()), 6, lambda _: small).to_pylist()
    assert found == ["0.0000000100", "-0.0000012300", "0.0000000000", "1.5000000000", "-12.0000000001", None]


def test_remainders_of_long_decimals() -> None:
    rng = random.Random(3)
    drawn = [[rng.randrange(-(10**k), 10**k + 1) for k in rng.choices(range(38), k=400)] for _ in range(2)]
    a, b = ([Decimal(x).scaleb(-10) for x in numbers] for numbers in drawn)
    with localcontext(prec=80):
        expected = [x % y if y else None for x, y in zip(a, b, strict=True)]
    d, e = (Column("r", name, WIDE) for name in "de")
    columns = {"d": pa.array(a, WIDE), "e": pa.array(b, WIDE)}
    assert evaluate(resolve("%", [d, e]), 400, lambda c: columns[c.name]).to_pylist() == expected
