"""Evaluate typed expressions over Arrow arrays, a batch at a time.

    expressions ──▶ steps, equal ones once ──▶ arrays and scalars, each released after its last use

    Column -> the array itself    Literal -> a scalar    Call -> a vectorized function    Cast, Case -> their own

Nothing in the data can stop a query: an undefined value (division by zero, overflow, an impossible cast) is NULL.
No state.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.kernels.arrays import Mask
from midstream.model.errors import MemoryLimitError
from midstream.operators.expression.arrays import as_strings, concatenated, is_text
from midstream.operators.expression.cast import cast
from midstream.operators.expression.compare import COMPARE, distinct, is_in
from midstream.operators.expression.datum import Datum, is_scalar, spread
from midstream.operators.expression.scalar import SCALAR
from midstream.plan.expr import Call, Case, Cast, Column, Expr, Literal, children, columns

ColumnOf = Callable[[Column], pa.Array]


def evaluate(expr: Expr, rows: int, column: ColumnOf) -> pa.Array:
    """Compute an expression for `rows` rows whose columns `column` returns.

    >>> from midstream.plan.functions import resolve
    >>> x = Column("a", "x", pa.int64())
    >>> double = resolve("+", [x, x])
    >>> evaluate(double, 3, lambda _: pa.array([1, None, 2**62])).to_pylist()
    [2, None, None]
    """
    return evaluate_all([expr], rows, column)[0]


def evaluate_all(exprs: Sequence[Expr], rows: int, column: ColumnOf, large: bool = False) -> list[pa.Array]:
    """Compute expressions over the same rows; what they have in common is computed once.

    Where texts get too long for one array, rows are halved. Results that are too long are refused, or with `large` are
    large strings.
    """
    try:
        return [spread(datum, rows) for datum in _compute(exprs, rows, column)]
    except pa.ArrowCapacityError:
        halves = [evaluate_all(exprs, *half, large=True) for half in _halved(rows, column)]
    whole = [concatenated(parts) for parts in zip(*halves, strict=True)]
    return whole if large else [as_strings(array) for array in whole]


def truth(expr: Expr, rows: int, column: ColumnOf) -> Mask:
    """Tell for which rows a condition is true; NULL counts as false."""
    return truth_of_all([expr], rows, column)


def truth_of_all(exprs: Sequence[Expr], rows: int, column: ColumnOf) -> Mask:
    """Tell for which rows all conditions are true."""
    passed = np.ones(rows, np.bool_)
    try:
        results = _compute(exprs, rows, column)
    except pa.ArrowCapacityError:
        return np.concatenate([truth_of_all(exprs, *half) for half in _halved(rows, column)])
    for result in results:
        if is_scalar(result):
            passed &= result.as_py() is True
        else:
            filled = pc.fill_null(result, False) if result.null_count else result
            passed &= filled.to_numpy(zero_copy_only=False)
    return passed


def _halved(rows: int, column: ColumnOf) -> Iterator[tuple[int, ColumnOf]]:
    """Yield the number and the columns of either half of some rows; a row alone cannot be halved, and is refused."""
    if rows < 2:
        raise MemoryLimitError("a text that is computed is longer than 2 GiB, more than there can be in one value")
    for start, stop in ((0, rows // 2), (rows // 2, rows)):
        yield stop - start, partial(_part, column, start, stop)


def _part(column: ColumnOf, start: int, stop: int, c: Column) -> pa.Array:
    return column(c).slice(start, stop - start)


def read_texts(exprs: Iterable[Expr]) -> list[Column]:
    """Return the columns of strings that expressions read."""
    return [c for c in dict.fromkeys(c for e in exprs for c in columns(e)) if is_text(c.type)]


def _compute(exprs: Sequence[Expr], rows: int, column: ColumnOf) -> list[Datum]:
    if all(isinstance(expr, Column) for expr in exprs):
        return [column(expr) for expr in exprs]  # type: ignore[arg-type]
    steps = _Steps()
    asked = [steps.number(expr) for expr in exprs]
    uses = Counter([*asked, *(arg for _, args in steps.steps for arg in args)])
    found: dict[int, Datum] = {}
    for number, (expr, args) in enumerate(steps.steps):
        found[number] = _step(expr, [found[arg] for arg in args], rows, column)
        for arg in args:
            uses[arg] -= 1
            if not uses[arg]:
                del found[arg]
    return [found[number] for number in asked]


class _Steps:
    """Expressions as numbered steps, arguments first; what is computed in the same way is one step."""

    def __init__(self) -> None:
        self.steps: list[tuple[Expr, tuple[int, ...]]] = []
        self._of_expr: dict[int, int] = {}
        self._of_key: dict[Any, int] = {}

    def number(self, expr: Expr) -> int:
        """Return the number of an expression's step. The expression must live as long as the steps."""
        # By identity first: an expression may hold another one in so many places that it cannot be read as a tree.
        found = self._of_expr.get(id(expr))
        if found is None:
            args = tuple(self.number(child) for child in children(expr))
            found = self._of_expr[id(expr)] = self._of_key.setdefault(_key(expr, args), len(self.steps))
            if found == len(self.steps):
                self.steps.append((expr, args))
        return found


def _key(expr: Expr, args: tuple[int, ...]) -> Any:
    """Return what two expressions have in common when they are computed in the same way from the same arguments."""
    match expr:
        case Column():
            return expr
        case Literal(value=value, type=t):
            return repr(value), t  # 0.0 and -0.0 are equal, but not the same
        case Call(function=name, type=t):
            return name, args, t
        case Cast(type=t) | Case(type=t):
            return type(expr), args, t


def _step(expr: Expr, args: list[Datum], rows: int, column: ColumnOf) -> Datum:
    match expr:
        case Column():
            return column(expr)
        case Literal(value=value, type=t):
            return pa.scalar(value, t)
        case Cast(type=t):
            return _apply(lambda a, n: cast(a, t, n), args, rows)
        case Case():
            return _case(args)
        case Call(function=name, type=t):
            return _call(name, t, args, rows)


def _apply(function: Callable[..., Datum], args: list[Datum], rows: int) -> Datum:
    """Call a function of data and their number of rows; constants give a constant."""
    if all(is_scalar(a) for a in args):
        result = function(*(spread(a, 1) for a in args), 1)
        return result if is_scalar(result) else result[0]
    return function(*args, rows)


def _case(args: list[Datum]) -> Datum:
    """Choose by conditions, each followed by its value; the value of none of them is last."""
    result = args[-1]
    for k in range(len(args) - 3, -1, -2):
        result = pc.if_else(pc.fill_null(args[k], False), args[k + 1], result)
    return result


def _case_of(subject: Datum, *rest: Any) -> Datum:
    """Choose by what a subject equals: each value it is compared with, followed by its result; then number of rows."""
    *given, otherwise, rows = rest
    whens = [_compared("=", subject, when, rows) for when in given[::2]]
    return _case([*(datum for pair in zip(whens, given[1::2], strict=True) for datum in pair), otherwise])


def _between(value: Datum, low: Datum, high: Datum, rows: int) -> Datum:
    return pc.and_kleene(_compared(">=", value, low, rows), _compared("<=", value, high, rows))


def _compared(op: str, value: Datum, other: Datum, rows: int) -> Datum:
    """Compare a value, as one of the other's type, with the other."""
    return COMPARE[op](value if value.type == other.type else cast(value, other.type, rows), other)


def _call(name: str, t: pa.DataType, args: list[Datum], rows: int) -> Datum:
    if name in _LOGIC:
        result = args[0]
        for arg in args[1:]:
            result = _LOGIC[name](result, arg)
        return result
    if name in COMPARE:
        return _apply(lambda a, b, n: COMPARE[name](a, b), args, rows)
    match name:
        case "not":
            return pc.invert(args[0])
        case "is null":
            return pc.is_null(args[0])
        case "is distinct from":
            return _apply(lambda a, b, n: distinct(a, b), args, rows)
        case "in":
            return _apply(lambda a, *rest: is_in(a, rest[:-1], rest[-1]), args, rows)
        case "coalesce":
            return pc.coalesce(*args)
        case "between":
            return _apply(_between, args, rows)
        case "nullif":
            return _apply(lambda a, b, n: _case([_compared("=", a, b, n), pa.scalar(None, t), a]), args, rows)
        case "case":
            return _apply(_case_of, args, rows)
        case _:
            return _apply(lambda *given: SCALAR[name](t, given[-1], *given[:-1]), args, rows)


_LOGIC = {"and": pc.and_kleene, "or": pc.or_kleene}
