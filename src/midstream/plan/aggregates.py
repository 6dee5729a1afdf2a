"""The aggregate table: every aggregate function a query may call, what it takes and what it gives.

    aggregate(name, argument) -> look up -> adapt the argument -> type of the result -> Aggregate

An aggregate passes over NULL; of no values it is NULL, but COUNT is 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.model.names import is_text
from midstream.model.types import INTERVAL, MAX_DECIMAL_DIGITS, is_number, type_name
from midstream.plan.coerce import convert, settle
from midstream.plan.expr import RESERVED, Expr
from midstream.plan.functions import is_function

COUNT, SUM, AVG, MIN, MAX, STDDEV, MEDIAN = "count", "sum", "avg", "min", "max", "stddev", "median"
AGGREGATES = (COUNT, SUM, AVG, MIN, MAX, STDDEV, MEDIAN)
AGGREGATE_SYNONYMS = {"mean": AVG, "stddev_samp": STDDEV}
OTHER_AGGREGATES = (
    "mode", "stddev_pop", "variance", "var_pop", "var_samp", "first", "last", "any_value", "arg_min", "arg_max",
    "min_by", "max_by", "string_agg", "array_agg", "list", "bool_and", "bool_or", "count_if", "approx_count_distinct",
    "quantile", "corr", "grouping",
)  # fmt: skip
"""What other systems call an aggregate: refused as one, and free for aggregates of the user."""


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
        """Tell whether what was added can be taken off exactly: counts, and sums of numbers."""
        if self.user is not None or self.distinct:
            return False
        if self.function == COUNT:
            return True
        t = self.type if self.argument is None else self.argument.type
        return self.function in (SUM, AVG) and (
            pa.types.is_integer(t) or pa.types.is_decimal(t) or pa.types.is_floating(t)
        )

    def __str__(self) -> str:
        what = "*" if self.argument is None else f"{'DISTINCT ' if self.distinct else ''}{self.argument}"
        return f"{self.function.upper()}({what})"


def find_aggregate(name: str, own: Mapping[str, UserAggregate] | None = None) -> str | UserAggregate:
    """Return the aggregate that is called by a name: a function of the table, or one of the user."""
    user = (own or {}).get(name.lower())
    if user is not None:
        return user
    function = AGGREGATE_SYNONYMS.get(name.lower(), name.lower())
    if function not in AGGREGATES:
        known = ", ".join(a.upper() for a in (*AGGREGATES, *(own or {})))
        raise PlanError(f"there is no aggregate {name.upper()}; the aggregates are {known}")
    return function


def aggregate(
    name: str, argument: Expr | None, distinct: bool = False, own: Mapping[str, UserAggregate] | None = None
) -> Aggregate:
    """Apply an aggregate function to an argument, with the cast it needs; no argument is `*`.

    `own` are the aggregates of the user, by their names in lower case.

    >>> from midstream.plan.expr import Column
    >>> aggregate("Sum", Column("t", "x", pa.int32())).type
    DataType(int64)
    >>> print(aggregate("avg", Column("t", "m", pa.decimal128(10, 2)), distinct=True))
    AVG(DISTINCT CAST(t.m AS DOUBLE))
    """
    found = find_aggregate(name, own)
    user, function = (found, found.name) if isinstance(found, UserAggregate) else (None, found)
    if argument is None:
        if user is not None or function != COUNT or distinct:
            raise PlanError(f"{name.upper()} takes a value, not *")
        return Aggregate(COUNT, None, pa.int64())
    argument = settle(argument)
    if argument.type == INTERVAL:
        raise PlanError(f"{name.upper()} does not take an INTERVAL: {argument}")
    if pa.types.is_null(argument.type):
        argument = convert(argument, pa.int64())
    if user is not None:
        return Aggregate(function, argument, user.type, distinct, user)
    if function in (SUM, AVG, STDDEV, MEDIAN) and not is_number(argument.type):
        raise PlanError(f"{name.upper()} takes a number, but {argument} is {type_name(argument.type)}")
    if function in (AVG, STDDEV, MEDIAN) and pa.types.is_decimal(argument.type):
        argument = convert(argument, pa.float64())
    # The smallest and the largest value are the same among distinct values.
    return Aggregate(function, argument, _result(function, argument.type), distinct and function not in (MIN, MAX))


def _result(function: str, t: pa.DataType) -> pa.DataType:
    if function == COUNT:
        return pa.int64()
    if function in (MIN, MAX):
        return t
    if function == SUM and pa.types.is_integer(t):
        return pa.int64()
    if function == SUM and pa.types.is_decimal(t):
        return pa.decimal128(MAX_DECIMAL_DIGITS, t.scale)
    return pa.float64()


def check_aggregate_name(name: str) -> None:
    """Refuse a name that an aggregate of the user cannot have.

    >>> check_aggregate_name("p90")
    """
    if not (is_text(name) and name.isidentifier() and name.isascii()):
        raise PlanError(f"an aggregate is called by a plain name such as p90, not {name!r}")
    key = name.lower()
    if key in RESERVED or key in _GRAMMAR:
        raise PlanError(f"'{name}' is a word of the language; give the aggregate another name")
    if is_function(name):
        raise PlanError(f"there is a function '{name}' already; give the aggregate another name")
    if key in AGGREGATES or key in AGGREGATE_SYNONYMS:
        raise PlanError(f"there is an aggregate '{name}' already; give this one another name")


_GRAMMAR = frozenset({"array", "columns", "filter", "lambda", "map", "row", "some", "struct", "unnest"})
"""Names that SQL reads in a way of its own when parentheses follow."""
