"""Builder expressions: Python operators and functions that build the trees SQL text parses to.

    col("a.x") + 1 > fn.length(col("b.s"))        when(col("a.x") > 0, "up").otherwise("down")

Every step returns a new object; names and types are checked when the query is bound.
"""

import datetime as dt
import decimal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from midstream.lang.syntax.dialect import Midstream
from midstream.model.errors import MidstreamError

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


Operator = Callable[["Expression", Any], "Expression"]


def _operator(kind: type[exp.Expr]) -> Operator:
    """Make the method of a Python operator."""
    return lambda self, other: self._binary(kind, other)


def _reversed(kind: type[exp.Expr]) -> Operator:
    """Make the method of a Python operator whose left side is a constant."""
    return lambda self, other: lit(other)._binary(kind, self)


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

    __eq__ = _operator(exp.EQ)  # type: ignore[assignment]
    __ne__ = _operator(exp.NEQ)  # type: ignore[assignment]
    __lt__, __le__ = _operator(exp.LT), _operator(exp.LTE)
    __gt__, __ge__ = _operator(exp.GT), _operator(exp.GTE)
    __add__, __radd__ = _operator(exp.Add), _reversed(exp.Add)
    __sub__, __rsub__ = _operator(exp.Sub), _reversed(exp.Sub)
    __mul__, __rmul__ = _operator(exp.Mul), _reversed(exp.Mul)
    __truediv__, __rtruediv__ = _operator(exp.Div), _reversed(exp.Div)
    __floordiv__, __mod__ = _operator(exp.IntDiv), _operator(exp.Mod)
    __and__, __or__ = _operator(exp.And), _operator(exp.Or)

    def __neg__(self) -> "Expression":
        return Expression(exp.Neg(this=self._inside(exp.Neg, right=True)))

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

    def distinct(self) -> "Expression":
        """Take each value once, as the argument of an aggregate."""
        return Expression(exp.Distinct(expressions=[self.tree()]))

    def as_(self, name: str) -> "Expression":
        """Name an entry of the select list."""
        return Expression(exp.Alias(this=self.tree(), alias=identifier(name)))


def identifier(name: str) -> exp.Identifier:
    """Make a name, quoted in text when it needs to be."""
    return exp.to_identifier(checked_name(name))


def checked_name(name: Any) -> str:
    """Return a name, if it is one."""
    if not isinstance(name, str):
        raise MidstreamError(f"a name is text, not {name!r}")
    return name


def checked_condition(found: Any) -> Expression:
    """Return a condition, if it is one."""
    if not isinstance(found, Expression):
        raise MidstreamError(f"a condition is an expression such as col('k') > 5, not {found!r}")
    return found


def checked_column(found: Any) -> Expression:
    """Return a column, or what is computed of columns: strings are names of columns."""
    if not isinstance(found, str | Expression):
        raise MidstreamError(f"a column is a name or an expression such as col('k') + 1, not {found!r}")
    return col(found) if isinstance(found, str) else found


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
    alias, dot, own = checked_name(name).partition(".")
    if not dot:
        return Expression(exp.Column(this=exp.Star() if name == "*" else identifier(name)))
    this = exp.Star() if own == "*" else identifier(own)
    return Expression(exp.Column(this=this, table=identifier(alias)))


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
    """Scalar functions and aggregates: `fn.lower(x)` or `fn("lower", x)`, `fn.count()` for COUNT(*)."""

    def __call__(self, name: str, *args: Any) -> Expression:
        """Call a function by name; strings are texts, columns are written `col(...)`."""
        arguments = [lit(a).tree() for a in args]
        if name.lower() == "count" and not args:
            arguments = [exp.Star()]
        return Expression(exp.Anonymous(this=name, expressions=arguments))

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
        return When((*self.branches, (checked_condition(condition), lit(value))))

    def otherwise(self, value: Any) -> Expression:
        """End with the value when no condition is true."""
        ifs = [exp.If(this=c.tree(), true=v.tree()) for c, v in self.branches]
        return Expression(exp.Case(ifs=ifs, default=lit(value).tree()))

    def end(self) -> Expression:
        """End with NULL when no condition is true."""
        return Expression(exp.Case(ifs=[exp.If(this=c.tree(), true=v.tree()) for c, v in self.branches]))


def when(condition: Expression, value: Any) -> When:
    """Start a CASE."""
    return When(((checked_condition(condition), lit(value)),))
