"""Numbers that plans are chosen by: what is known of rows and conditions, and a guess where nobody knows better."""

from math import prod

from midstream.model.statistics import ByColumn, Statistics
from midstream.plan.algebra import Scan
from midstream.plan.expr import Call, Cast, Column, Expr, Literal, columns, replace_columns
from midstream.plan.window import RangeWindow, RowsWindow

COMPARED = 1 / 3
"""The part of all rows or pairs that pass a condition which is not an equality."""
DISTINCT = 100.0
"""Different values of an expression."""
ROWS_PER_S = 1000.0
"""Rows of a stream in a second."""
EVALUATIONS_PER_S = 20e6
"""Predicate evaluations of sliding joins in a second, on the clock."""


def rows_per_s(known: Statistics, scan: Scan) -> float:
    """Return how many rows a stream has in a second."""
    alias, window = known.known_as(scan.source.alias), scan.source.window
    if alias in known.rows_per_s:
        return known.rows_per_s[alias]
    if alias in known.window_rows and isinstance(window, RangeWindow) and window.width_us:
        return known.window_rows[alias] * 1e6 / window.width_us
    return ROWS_PER_S


def window_rows(known: Statistics, scan: Scan) -> float:
    """Return how many rows are in a scan's window."""
    alias, window = known.known_as(scan.source.alias), scan.source.window
    if alias in known.window_rows:
        return known.window_rows[alias]
    if isinstance(window, RowsWindow):
        return window.count * prod(distinct_values(known, column) for column in window.partition_by)
    assert window is not None, "a scan has a window"
    return rows_per_s(known, scan) * window.width_us / 1e6


def distinct_values(known: Statistics, column: Column) -> float:
    """Return how many different values a stream's column has."""
    return max(1.0, known.distinct.get((known.known_as(column.alias), column.name), DISTINCT))


def passing(statistics: Statistics, conjunct: Expr, distinct: ByColumn) -> float:
    """Return the part of rows, or of all pairs of rows, for which a condition is true."""
    own = known(statistics, conjunct)
    return _guess(conjunct, distinct) if own is None else own


def known(statistics: Statistics, conjunct: Expr) -> float | None:
    """Return the part for which a condition is true, if that is known."""
    if not statistics.selectivity:
        return None
    own = statistics.selectivity.get(str(conjunct))
    if own is None:
        first = replace_columns(conjunct, lambda c: Column(statistics.known_as(c.alias), c.name, c.type))
        own = statistics.selectivity.get(str(first))
    return own


def values_of(expr: Expr, distinct: ByColumn) -> float:
    """Return how many different values an expression has, no more than its columns together."""
    if isinstance(expr, Literal):
        return 1.0
    if isinstance(expr, Cast):
        return values_of(expr.arg, distinct)
    return prod(distinct.get(name, DISTINCT) for name in {(c.alias, c.name) for c in columns(expr)})


def _guess(expr: Expr, distinct: ByColumn) -> float:
    """Guess which part passes a condition.

    >>> import pyarrow as pa
    >>> k, five = Column("a", "k", pa.int64()), Literal(5, pa.int64())
    >>> _guess(Call("=", (k, five), pa.bool_()), {("a", "k"): 20.0})
    0.05
    """
    if isinstance(expr, Literal):
        return 1.0 if expr.value is True else 0.0
    if not isinstance(expr, Call):
        return COMPARED
    match expr.function, expr.args:
        case "=", (left, right):
            return 1 / max(values_of(left, distinct), values_of(right, distinct), 1.0)
        case "<>", (left, right):
            return 1 - 1 / max(values_of(left, distinct), values_of(right, distinct), 2.0)
        case "in", (left, *others):
            return min(1.0, len(others) / max(values_of(left, distinct), 1.0))
        case "not", (inner,):
            return 1 - _guess(inner, distinct)
        case "and", parts:
            return prod(_guess(part, distinct) for part in parts)
        case "or", parts:
            return min(1.0, sum(_guess(part, distinct) for part in parts))
    return COMPARED
