"""Typed expressions: what a query computes from the columns of its rows.

Every node is a frozen value that knows its Arrow type, prints itself as SQL and compares by content.
Three-valued logic as in SQL; an undefined number (division by zero, overflow) is NULL.
"""

import datetime as dt
import decimal
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.model.time import format_duration
from midstream.model.types import type_name

Value = bool | int | float | str | decimal.Decimal | dt.date | dt.datetime | dt.timedelta | None

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The comparison that holds when its sides are exchanged."""
NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The comparison that holds when the given one is false (and is NULL when it is NULL)."""

INFIX = (*COMPARISONS, "+", "-", "*", "/", "%", "//", "||", "and", "or", "like", "ilike", "is distinct from")

BETWEEN = "between"
"""The function of a BETWEEN whose value is computed: the value and its bounds."""
CASE_OF = "case"
"""The function of a CASE with a subject: the subject, each WHEN with its value, and the value of ELSE."""

RESERVED = frozenset({
    "all", "and", "any", "as", "asc", "between", "both", "by", "case", "cast", "cross", "desc", "distinct", "else",
    "end", "except", "exists", "extract", "false", "for", "from", "full", "group", "having", "ilike", "in", "inner",
    "intersect", "interval", "into", "is", "join", "lateral", "leading", "left", "like", "limit", "natural", "not",
    "null", "offset", "on", "or", "order", "outer", "over", "partition", "position", "range", "right", "rows",
    "select", "substring", "table", "then", "to", "trailing", "trim", "true", "try_cast", "union", "using", "values",
    "when", "where", "window", "with",
})  # fmt: skip
"""Words that are names only in quotes."""


def quoted(name: str) -> str:
    """Write a name as SQL reads it back.

    >>> quoted("price"), quoted("unit price"), quoted("order")
    ('price', '"unit price"', '"order"')
    """
    plain = name.isidentifier() and name.isascii() and name.lower() not in RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Column:
    """A column of the row an alias contributes."""

    alias: str
    name: str
    type: pa.DataType

    def __str__(self) -> str:
        return f"{quoted(self.alias)}.{quoted(self.name)}"


@dataclass(frozen=True)
class Shown(Column):
    """A column that prints as what it stands for."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Literal:
    """A constant; `value` is the Python form of its type."""

    value: Value
    type: pa.DataType

    def __str__(self) -> str:
        v = self.value
        if v is None:
            return "NULL"
        if isinstance(v, bool):
            return "TRUE" if v else "FALSE"
        if isinstance(v, str):
            return "'" + v.replace("'", "''") + "'"
        if isinstance(v, dt.timedelta):
            return f"INTERVAL {format_duration(v // dt.timedelta(microseconds=1))}"
        if isinstance(v, dt.datetime):
            return f"TIMESTAMP '{v}'"
        if isinstance(v, dt.date):
            return f"DATE '{v}'"
        return str(v)


@dataclass(frozen=True)
class Call:
    """An operator or scalar function applied to arguments, by the name in the function table."""

    function: str
    args: tuple["Expr", ...]
    type: pa.DataType

    def __str__(self) -> str:
        a = [str(x) for x in self.args]
        if self.function in ("like", "ilike") and len(a) == 3:
            return f"({a[0]} {self.function.upper()} {a[1]} ESCAPE {a[2]})"
        if self.function in INFIX and len(a) >= 2:
            return f"({f' {self.function.upper()} '.join(a)})"
        if self.function == "not":
            return f"(NOT {a[0]})"
        if self.function == "negate":
            return f"(-{a[0]})"
        if self.function == "is null":
            return f"({a[0]} IS NULL)"
        if self.function == CASE_OF:
            whens = " ".join(f"WHEN {a[k]} THEN {a[k + 1]}" for k in range(1, len(a) - 1, 2))
            return f"CASE {a[0]} {whens} ELSE {a[-1]} END"
        if self.function == BETWEEN:
            return f"({a[0]} BETWEEN {a[1]} AND {a[2]})"
        if self.function == "in":
            return f"({a[0]} IN ({', '.join(a[1:])}))"
        return f"{self.function.upper()}({', '.join(a)})"


@dataclass(frozen=True)
class Cast:
    """A value converted to another type."""

    arg: "Expr"
    type: pa.DataType

    def __str__(self) -> str:
        return f"CAST({self.arg} AS {type_name(self.type)})"


@dataclass(frozen=True)
class Case:
    """The value of the first branch whose condition is true, else `otherwise`."""

    branches: tuple[tuple["Expr", "Expr"], ...]
    otherwise: "Expr"
    type: pa.DataType

    def __post_init__(self) -> None:
        if not self.branches:
            raise PlanError("CASE needs at least one WHEN")

    def __str__(self) -> str:
        whens = " ".join(f"WHEN {c} THEN {v}" for c, v in self.branches)
        return f"CASE {whens} ELSE {self.otherwise} END"


Expr = Column | Literal | Call | Cast | Case


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions directly inside an expression."""
    match expr:
        case Call(args=args):
            return args
        case Cast(arg=arg):
            return (arg,)
        case Case(branches=branches, otherwise=otherwise):
            return (*(e for pair in branches for e in pair), otherwise)
        case _:
            return ()


def columns(expr: Expr) -> Iterator[Column]:
    """Yield every column mentioned, in reading order, repeats included."""
    if isinstance(expr, Column):
        yield expr
    for child in children(expr):
        yield from columns(child)


def aliases(expr: Expr) -> frozenset[str]:
    """Return the aliases whose rows an expression reads."""
    return frozenset(c.alias for c in columns(expr))


def replace_columns(expr: Expr, by: Callable[[Column], Expr]) -> Expr:
    """Put an expression in the place of every column.

    >>> k = Column("a", "k", pa.int64())
    >>> print(replace_columns(Call("+", (k, k), pa.int64()), lambda c: Column("b", c.name, c.type)))
    (b.k + b.k)
    """
    match expr:
        case Column():
            return by(expr)
        case Call(function, args, t):
            return Call(function, tuple(replace_columns(a, by) for a in args), t)
        case Cast(arg, t):
            return Cast(replace_columns(arg, by), t)
        case Case(branches, otherwise, t):
            pairs = tuple((replace_columns(c, by), replace_columns(v, by)) for c, v in branches)
            return Case(pairs, replace_columns(otherwise, by), t)
        case _:
            return expr


def cast_to(expr: Expr, wanted: pa.DataType) -> Expr:
    """Wrap an expression so that it has the wanted type; leave it alone when it has."""
    if expr.type == wanted:
        return expr
    if isinstance(expr, Literal) and expr.value is None:
        return Literal(None, wanted)
    return Cast(expr, wanted)
