"""A stage: a window over the results below it, and the aggregates of each of its instances.

    results of the joins, or of a stage -> window instances -> WHERE -> GROUP BY -> aggregates -> HAVING -> outputs

A row of a stage's input is read under the stage's alias. What GROUP BY and the aggregates give is read under GROUPS:
`key0`, `key1`, ... and `agg0`, `agg1`, ...
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from midstream.plan.expr import Column, Expr, columns, quoted
from midstream.plan.window import Instances, PredicateWindow, RowsInstances

GROUPS = "#"
"""The alias under which HAVING and the outputs of a stage read keys and aggregates."""

COUNT, SUM, AVG, MIN, MAX, STDDEV, MEDIAN = "count", "sum", "avg", "min", "max", "stddev", "median"


@dataclass(frozen=True)
class UserAggregate:
    """An aggregate written in Python: called with the values of an instance that are not null, as an Arrow array."""

    name: str
    function: Callable[[pa.Array], Any]
    type: pa.DataType


@dataclass(frozen=True)
class Aggregate:
    """One call of an aggregate function; no argument: COUNT(*)."""

    function: str
    argument: Expr | None
    type: pa.DataType
    distinct: bool = False
    user: UserAggregate | None = None

    @property
    def exact(self) -> bool:
        """Tell whether what was added can be taken off exactly: counts, and sums of whole numbers and decimals."""
        if self.user is not None or self.distinct:
            return False
        if self.function == COUNT:
            return True
        t = self.type if self.argument is None else self.argument.type
        return self.function in (SUM, AVG) and (pa.types.is_integer(t) or pa.types.is_decimal(t))

    def __str__(self) -> str:
        what = "*" if self.argument is None else f"{'DISTINCT ' if self.distinct else ''}{self.argument}"
        return f"{self.function.upper()}({what})"


@dataclass(frozen=True)
class StageOutput:
    """One entry of a stage's select list."""

    name: str
    expr: Expr


@dataclass(frozen=True)
class Stage:
    """Aggregates over the instances of a window.

    Invariant: `conjuncts`, `keys` and arguments read columns of `alias`; `having` and `outputs` columns of GROUPS.
    Without keys every instance gives one row, also when the conjuncts leave none of its rows.
    """

    alias: str
    window: Instances
    conjuncts: tuple[Expr, ...]
    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]
    having: tuple[Expr, ...]
    outputs: tuple[StageOutput, ...]

    @property
    def schema(self) -> pa.Schema:
        """Return the select list as an Arrow schema."""
        return pa.schema([pa.field(o.name, o.expr.type) for o in self.outputs])

    def reads(self) -> list[Column]:
        """Return the columns of the input that the stage reads."""
        exprs = [*self.conjuncts, *self.keys, *(a.argument for a in self.aggregates if a.argument is not None)]
        if isinstance(self.window, PredicateWindow):
            exprs += [self.window.start, self.window.end]
        if isinstance(self.window, RowsInstances):
            exprs += self.window.partition_by
        return [c for e in exprs for c in columns(e)]

    def __str__(self) -> str:
        parts = [f"{self.window} of {quoted(self.alias)}"]
        if self.conjuncts:
            parts.append("where " + " AND ".join(map(str, self.conjuncts)))
        if self.keys:
            parts.append("group by " + ", ".join(map(str, self.keys)))
        parts.append("aggregate " + ", ".join(map(str, self.aggregates)))
        if self.having:
            parts.append("having " + " AND ".join(map(str, self.having)))
        return " ".join(parts)
