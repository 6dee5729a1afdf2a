"""Evaluate typed expressions over Arrow arrays, a batch at a time.

    Column -> the array itself    Literal -> a scalar    Call -> a vectorized function    Cast, Case -> their own

Nothing in the data can stop a query: an undefined value (division by zero, overflow, an impossible cast) is NULL.
No state.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.kernels.arrays import Mask
from midstream.operators.expression.cast import cast
from midstream.operators.expression.compare import COMPARE, distinct, is_in
from midstream.operators.expression.datum import Datum, is_scalar, spread
from midstream.operators.expression.scalar import SCALAR
from midstream.plan.expr import Call, Case, Cast, Column, Expr, Literal

ColumnOf = Callable[[Column], pa.Array]


def evaluate(expr: Expr, rows: int, column: ColumnOf) -> pa.Array:
    """Compute an expression for `rows` rows whose columns `column` returns.

    >>> from midstream.plan.functions import resolve
    >>> x = Column("a", "x", pa.int64())
    >>> double = resolve("+", [x, x])
    >>> evaluate(double, 3, lambda _: pa.array([1, None, 2**62])).to_pylist()
    [2, None, None]
    """
    return spread(_evaluate(expr, rows, column), rows)


def truth(expr: Expr, rows: int, column: ColumnOf) -> Mask:
    """Tell for which rows a condition is true; NULL counts as false."""
    result = _evaluate(expr, rows, column)
    if is_scalar(result):
        return np.full(rows, result.as_py() is True)
    filled = pc.fill_null(result, False) if result.null_count else result
    return filled.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _evaluate(expr: Expr, rows: int, column: ColumnOf) -> Datum:
    match expr:
        case Column():
            return column(expr)
        case Literal(value=value, type=t):
            return pa.scalar(value, t)
        case Cast(arg=arg, type=t):
            return _apply(lambda a, n: cast(a, t, n), [_evaluate(arg, rows, column)], rows)
        case Case():
            return _case(expr, rows, column)
        case Call(function=name, args=args, type=t):
            return _call(name, t, [_evaluate(a, rows, column) for a in args], rows)


def _apply(function: Callable[..., Datum], args: list[Datum], rows: int) -> Datum:
    """Call a function of data and their number of rows; constants give a constant."""
    if all(is_scalar(a) for a in args):
        result = function(*(spread(a, 1) for a in args), 1)
        return result if is_scalar(result) else result[0]
    return function(*args, rows)


def _case(expr: Case, rows: int, column: ColumnOf) -> Datum:
    result = _evaluate(expr.otherwise, rows, column)
    for condition, value in reversed(expr.branches):
        chosen = pc.fill_null(_evaluate(condition, rows, column), False)
        result = pc.if_else(chosen, _evaluate(value, rows, column), result)
    return result


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
        case _:
            return _apply(lambda *given: SCALAR[name](t, given[-1], *given[:-1]), args, rows)


_LOGIC = {"and": pc.and_kleene, "or": pc.or_kleene}
