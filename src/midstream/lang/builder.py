"""A Python builder for queries: the same trees as SQL text, so the same plans.

    stream("orders", "a").range("10 seconds").join(...).where(...).select(...).bind(catalog)

Every step returns a new object.
"""

import datetime as dt
import decimal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from midstream.lang.bind import bind
from midstream.lang.dialect import WINDOW, Midstream
from midstream.lang.window_clause import WindowClause
from midstream.model.errors import MidstreamError
from midstream.model.stream import StreamSchema
from midstream.model.time import parse_duration
from midstream.plan.query import Query

# How tightly operators bind, loosest first; what binds looser than its surroundings gets parentheses.
_LEVELS: tuple[tuple[type[exp.Expr], ...], ...] = (
    (exp.Or,),
    (exp.And,),
    (exp.Not,),
    (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike),
    (exp.DPipe,),
    (exp.Add, exp.Sub),
    (exp.Mul, exp.Div, exp.IntDiv, exp.Mod),
    (exp.Neg,),
)


def _level(kind: type[exp.Expr]) -> int:
    return next((level for level, kinds in enumerate(_LEVELS) if issubclass(kind, kinds)), len(_LEVELS))


class Expression:
    """A value or condition in the making; operators build larger ones."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: exp.Expr) -> None:
        self._node = node

    def tree(self) -> exp.Expr:
        """Return a copy of the sqlglot tree."""
        return self._node.copy()

    def _inside(self, kind: type[exp.Expr], right: bool = False) -> exp.Expr:
        own, around = _level(type(self._node)), _level(kind)
        associative = kind in (exp.And, exp.Or)
        comparing = around == _level(exp.EQ)
        tight = own > around or (own == around and not comparing and (associative or not right))
        return self.tree() if tight else exp.Paren(this=self.tree())

    def _binary(self, kind: type[exp.Expr], other: Any) -> "Expression":
        return Expression(kind(this=self._inside(kind), expression=lit(other)._inside(kind, right=True)))

    def _reverse(self, kind: type[exp.Expr], other: Any) -> "Expression":
        return lit(other)._binary(kind, self)

    def __eq__(self, other: Any) -> "Expression":  # type: ignore[override]
        return self._binary(exp.EQ, other)

    def __ne__(self, other: Any) -> "Expression":  # type: ignore[override]
        return self._binary(exp.NEQ, other)

    def __lt__(self, other: Any) -> "Expression":
        return self._binary(exp.LT, other)

    def __le__(self, other: Any) -> "Expression":
        return self._binary(exp.LTE, other)

    def __gt__(self, other: Any) -> "Expression":
        return self._binary(exp.GT, other)

    def __ge__(self, other: Any) -> "Expression":
        return self._binary(exp.GTE, other)

    def __add__(self, other: Any) -> "Expression":
        return self._binary(exp.Add, other)

    def __radd__(self, other: Any) -> "Expression":
        return self._reverse(exp.Add, other)

    def __sub__(self, other: Any) -> "Expression":
        return self._binary(exp.Sub, other)

    def __rsub__(self, other: Any) -> "Expression":
        return self._reverse(exp.Sub, other)

    def __mul__(self, other: Any) -> "Expression":
        return self._binary(exp.Mul, other)

    def __rmul__(self, other: Any) -> "Expression":
        return self._reverse(exp.Mul, other)

    def __truediv__(self, other: Any) -> "Expression":
        return self._binary(exp.Div, other)

    def __rtruediv__(self, other: Any) -> "Expression":
        return self._reverse(exp.Div, other)

    def __floordiv__(self, other: Any) -> "Expression":
        return self._binary(exp.IntDiv, other)

    def __mod__(self, other: Any) -> "Expression":
        return self._binary(exp.Mod, other)

    def __neg__(self) -> "Expression":
        return Expression(exp.Neg(this=self._inside(exp.Neg, right=True)))

    def __and__(self, other: Any) -> "Expression":
        return self._binary(exp.And, other)

    def __or__(self, other: Any) -> "Expression":
        return self._binary(exp.Or, other)

    def __invert__(self) -> "Expression":
        return Expression(exp.Not(this=self._inside(exp.Not)))

    def __bool__(self) -> bool:
        raise MidstreamError("a condition of a query has no truth in Python; combine conditions with &, | and ~")

    def between(self, low: Any, high: Any) -> "Expression":
        """Tell whether the value lies between two others, both included."""
        ends = {"low": lit(low)._inside(exp.Between), "high": lit(high)._inside(exp.Between)}
        return Expression(exp.Between(this=self._inside(exp.Between), **ends))

    def isin(self, *members: Any) -> "Expression":
        """Tell whether the value is one of the given ones, or of one given list."""
        given = members[0] if len(members) == 1 and isinstance(members[0], list | tuple | set) else members
        return Expression(exp.In(this=self._inside(exp.In), expressions=[lit(m).tree() for m in given]))

    def is_null(self) -> "Expression":
        """Tell whether the value is NULL."""
        return Expression(exp.Is(this=self._inside(exp.Is), expression=exp.Null()))

    def is_not_null(self) -> "Expression":
        """Tell whether the value is not NULL."""
        return ~self.is_null()

    def like(self, pattern: Any) -> "Expression":
        """Match a pattern in which % is any text and _ any character."""
        return self._binary(exp.Like, pattern)

    def ilike(self, pattern: Any) -> "Expression":
        """Match a pattern without regard to case."""
        return self._binary(exp.ILike, pattern)

    def concat(self, other: Any) -> "Expression":
        """Join two texts, as || does."""
        return self._binary(exp.DPipe, other)

    def cast(self, type_name: str) -> "Expression":
        """Convert to a SQL type; an impossible value becomes NULL."""
        return Expression(exp.Cast(this=self.tree(), to=_parse_type(type_name)))

    def as_(self, name: str) -> "Expression":
        """Name an entry of the select list."""
        return Expression(exp.Alias(this=self.tree(), alias=_identifier(name)))


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name)


def _parse_type(name: str) -> exp.DataType:
    try:
        return exp.DataType.build(name, dialect=Midstream)
    except Exception:
        raise MidstreamError(f"there is no type '{name}'") from None


def col(name: str) -> Expression:
    """Name a column, with its alias when several streams have it.

    >>> print(col("a.k").tree())
    a.k
    """
    alias, dot, column = name.partition(".")
    if not dot:
        return Expression(exp.Column(this=exp.Star() if name == "*" else _identifier(name)))
    this = exp.Star() if column == "*" else _identifier(column)
    return Expression(exp.Column(this=this, table=_identifier(alias)))


def lit(value: Any) -> Expression:
    """Make a constant of a Python value; expressions stay what they are."""
    match value:
        case Expression():
            return value
        case None:
            return Expression(exp.Null())
        case bool():
            return Expression(exp.Boolean(this=value))
        case int() | float() | decimal.Decimal():
            return _number(value)
        case str():
            return Expression(exp.Literal.string(value))
        case dt.datetime():
            return _typed(value.isoformat(" "), "TIMESTAMP")
        case dt.date():
            return _typed(value.isoformat(), "DATE")
        case dt.timedelta():
            microseconds = exp.Literal.string(str(value // dt.timedelta(microseconds=1)))
            return Expression(exp.Interval(this=microseconds, unit=exp.Var(this="MICROSECONDS")))
        case _:
            raise MidstreamError(f"a query cannot hold the Python value {value!r}")


def _typed(text: str, type_name: str) -> Expression:
    return Expression(exp.Cast(this=exp.Literal.string(text), to=_parse_type(type_name)))


def _number(value: float | decimal.Decimal) -> Expression:
    if value != value or value in (float("inf"), float("-inf")):
        return _typed(str(float(value)), "DOUBLE")
    text = format(value, "f") if isinstance(value, decimal.Decimal) else repr(value)
    number = exp.Literal.number(text.lstrip("-"))
    return Expression(exp.Neg(this=number) if text.startswith("-") else number)


class Functions:
    """Scalar functions: `fn.lower(x)` or `fn("lower", x)`."""

    def __call__(self, name: str, *args: Any) -> Expression:
        """Call a function by name; strings are texts, columns are written `col(...)`."""
        return Expression(exp.Anonymous(this=name, expressions=[lit(a).tree() for a in args]))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args: self(name.rstrip("_"), *args)


fn = Functions()


@dataclass(frozen=True)
class When:
    """Branches of a CASE that may get more, and end with `otherwise`."""

    branches: tuple[tuple[Expression, Expression], ...]

    def when(self, condition: Expression, value: Any) -> "When":
        """Add a branch."""
        return When((*self.branches, (condition, lit(value))))

    def otherwise(self, value: Any) -> Expression:
        """End with the value when no condition is true."""
        ifs = [exp.If(this=c.tree(), true=v.tree()) for c, v in self.branches]
        return Expression(exp.Case(ifs=ifs, default=lit(value).tree()))

    def end(self) -> Expression:
        """End with NULL when no condition is true."""
        return Expression(exp.Case(ifs=[exp.If(this=c.tree(), true=v.tree()) for c, v in self.branches]))


def when(condition: Expression, value: Any) -> When:
    """Start a CASE."""
    return When(((condition, lit(value)),))


@dataclass(frozen=True)
class QueryBuilder:
    """Streams with windows, joined and filtered, and what to select from them."""

    tables: tuple[exp.Table, ...]
    conditions: tuple[Expression | None, ...]
    filters: tuple[Expression, ...] = ()
    outputs: tuple[Expression, ...] = ()

    def _last(self, table: exp.Table) -> "QueryBuilder":
        return replace(self, tables=(*self.tables[:-1], table))

    def alias(self, name: str) -> "QueryBuilder":
        """Name the stream that was added last."""
        table = self.tables[-1].copy()
        table.set("alias", exp.TableAlias(this=_identifier(name)))
        return self._last(table)

    def range(self, width: str | int | dt.timedelta) -> "QueryBuilder":
        """Give the stream that was added last a window in time."""
        width_us = width // dt.timedelta(microseconds=1) if isinstance(width, dt.timedelta) else parse_duration(width)
        return self._window(WindowClause(width_us=width_us))

    def rows(self, count: int, partition_by: Sequence[str] | str = ()) -> "QueryBuilder":
        """Give the stream that was added last a window of rows, of the stream or of each key."""
        by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        return self._window(WindowClause(rows=count, partition_by=by))

    def _window(self, clause: WindowClause) -> "QueryBuilder":
        table = self.tables[-1].copy()
        table.meta[WINDOW] = clause
        return self._last(table)

    def join(self, other: "QueryBuilder", on: Expression | None = None) -> "QueryBuilder":
        """Join the streams of another query, on a condition or, without one, all with all."""
        return QueryBuilder(
            (*self.tables, *other.tables),
            (*self.conditions, *other.conditions[:-1], on),
            (*self.filters, *other.filters),
            (*self.outputs, *other.outputs),
        )

    def where(self, *conditions: Expression) -> "QueryBuilder":
        """Keep results for which every condition is true."""
        return replace(self, filters=(*self.filters, *conditions))

    def select(self, *columns: str | Expression, **named: Any) -> "QueryBuilder":
        """Add to the select list: strings are column names, keywords are aliases."""
        plain = [col(c) if isinstance(c, str) else c for c in columns]
        aliased = [(col(v) if isinstance(v, str) else lit(v)).as_(k) for k, v in named.items()]
        return replace(self, outputs=(*self.outputs, *plain, *aliased))

    def tree(self) -> exp.Select:
        """Return the sqlglot tree that the same SQL text gives; without a select list, `*`."""
        first, *others = (t.copy() for t in self.tables)
        joins = [
            exp.Join(this=table, on=on.tree() if on is not None else None)
            for table, on in zip(others, self.conditions[1:], strict=True)
        ]
        select = exp.Select(
            expressions=[o.tree() for o in self.outputs] or [exp.Star()],
            from_=exp.From(this=first),
            joins=joins,
        )
        if self.filters:
            whole = self.filters[0]
            for condition in self.filters[1:]:
                whole = whole & condition
            select.set("where", exp.Where(this=whole.tree()))
        return select

    def bind(self, catalog: Sequence[StreamSchema]) -> Query:
        """Return the validated query over the declared streams."""
        return bind(self.tree(), catalog)


def stream(name: str, alias: str | None = None) -> QueryBuilder:
    """Start a query with a stream.

    >>> import pyarrow as pa
    >>> orders = StreamSchema("orders", pa.schema([("ts", pa.int64()), ("k", pa.int64())]), "ts")
    >>> print(stream("orders", "a").range("10 seconds").where(col("k") > 5).select("a.k").bind([orders]))
    SELECT a.k
    FROM orders [RANGE 10 SECONDS] a
    WHERE (a.k > 5)
    """
    table = exp.Table(this=_identifier(name))
    if alias is not None:
        table.set("alias", exp.TableAlias(this=_identifier(alias)))
    return QueryBuilder((table,), (None,))
