"""What is known about the rows of a hopping query; what is not known is guessed in one place, here."""

import re
from dataclasses import dataclass, field

from midstream.optimize.guesses import COMPARED, DISTINCT, ROWS_PER_S
from midstream.plan.algebra import Scan
from midstream.plan.expr import Call, Cast, Column, Expr, Literal, columns, replace_columns
from midstream.plan.window import RangeWindow, RowsWindow

Name = tuple[str, str]
"""A column by alias and name."""
Values = dict[Name, float]
"""How many different values columns have."""


@dataclass(frozen=True)
class Measured:
    """What an operator was seen to give: the size of its answer, and per hop what came, was taken back, and ended."""

    complete: float
    positive: float
    negative: float
    matured: float
    hop_us: int | None = None
    """The hop it was seen with; None: the one it is asked for."""


@dataclass(frozen=True)
class HopStatistics:
    """The rows of each scan by alias, the conditions by their text, and operators that were measured.

    A scan that the optimizer has copied (`s_2` of `s`) is known by the alias it was copied from.
    """

    rows_per_s: dict[str, float] = field(default_factory=dict)
    window_rows: dict[str, float] = field(default_factory=dict)
    distinct: Values = field(default_factory=dict)
    """Different values that a column has in its stream, not only in a window, by alias and name."""
    selectivity: dict[str, float] = field(default_factory=dict)
    """The part of the rows, or of all pairs, that pass a condition, by `str(conjunct)`."""
    measured: dict[str, Measured] = field(default_factory=dict)
    """By `signature(rel)`, which does not depend on join order and on where differences stand."""

    def rate(self, scan: Scan) -> float:
        """Return how many rows a stream has in a second."""
        alias, window = self.known_as(scan.source.alias), scan.source.window
        if alias in self.rows_per_s:
            return self.rows_per_s[alias]
        if alias in self.window_rows and isinstance(window, RangeWindow) and window.width_us:
            return self.window_rows[alias] * 1e6 / window.width_us
        return ROWS_PER_S

    def rows(self, scan: Scan) -> float:
        """Return how many rows are in a scan's window."""
        alias, window = self.known_as(scan.source.alias), scan.source.window
        if alias in self.window_rows:
            return self.window_rows[alias]
        if isinstance(window, RowsWindow):
            partitions = 1.0
            for column in window.partition_by:
                partitions *= self.values(column)
            return window.count * partitions
        assert window is not None, "a scan has a window"
        return self.rate(scan) * window.width_us / 1e6

    def values(self, column: Column) -> float:
        """Return how many different values a stream's column has."""
        return max(1.0, self.distinct.get((self.known_as(column.alias), column.name), DISTINCT))

    def known_as(self, alias: str) -> str:
        """Return the alias under which something is known: its own, or the one it was copied from.

        >>> HopStatistics(rows_per_s={"s": 5.0}).known_as("s_2"), HopStatistics().known_as("s_2")
        ('s', 's_2')
        """
        base = re.sub(r"_\d+$", "", alias)
        return base if not self._mentions(alias) and self._mentions(base) else alias

    def _mentions(self, alias: str) -> bool:
        return alias in self.rows_per_s or alias in self.window_rows or any(a == alias for a, _ in self.distinct)

    def passing(self, conjunct: Expr, values: Values) -> float:
        """Return the part of rows, or of all pairs of rows, for which a condition is true."""
        if self.selectivity:
            own = self.selectivity.get(str(conjunct))
            if own is None:
                first = replace_columns(conjunct, lambda c: Column(self.known_as(c.alias), c.name, c.type))
                own = self.selectivity.get(str(first))
            if own is not None:
                return own
        return _guess(conjunct, values)


def values_of(expr: Expr, values: Values) -> float:
    """Return how many different values an expression has, no more than its columns together."""
    if isinstance(expr, Literal):
        return 1.0
    if isinstance(expr, Cast):
        return values_of(expr.arg, values)
    found = 1.0
    for name in {(c.alias, c.name) for c in columns(expr)}:
        found *= values.get(name, DISTINCT)
    return found


def _guess(expr: Expr, values: Values) -> float:
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
            return 1 / max(values_of(left, values), values_of(right, values), 1.0)
        case "<>", (left, right):
            return 1 - 1 / max(values_of(left, values), values_of(right, values), 2.0)
        case "in", (left, *others):
            return min(1.0, len(others) / max(values_of(left, values), 1.0))
        case "not", (inner,):
            return 1 - _guess(inner, values)
        case "and", parts:
            passed = 1.0
            for part in parts:
                passed *= _guess(part, values)
            return passed
        case "or", parts:
            return min(1.0, sum(_guess(part, values) for part in parts))
    return COMPARED
