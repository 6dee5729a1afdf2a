"""Expressions: a sqlglot tree with names to a typed expression of the plan."""

import decimal
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NoReturn

import pyarrow as pa
from sqlglot import TokenType, exp

from midstream.lang.bind.scope import Scope
from midstream.lang.bind.statement import Statement
from midstream.lang.syntax.dialect import keyword_before
from midstream.lang.syntax.place import errors_at
from midstream.lang.syntax.types import read_interval, read_type
from midstream.model.errors import PlanError
from midstream.model.types import type_name
from midstream.plan.aggregates import AGGREGATES
from midstream.plan.capabilities import cannot
from midstream.plan.coerce import cast, convert, literal
from midstream.plan.expr import Expr, Literal
from midstream.plan.functions import FUNCTIONS, SYNONYMS, between, case, case_of, closest, is_function, resolve
from midstream.plan.logic import conjuncts

OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "//", exp.Mod: "%",
    exp.DPipe: "||", exp.Pow: "power", exp.NullSafeNEQ: "is distinct from",
    exp.Not: "not", exp.Neg: "negate",
}  # fmt: skip


class ExpressionBinder:
    """Turn expressions into typed ones, with names looked up in a scope; errors point into the text."""

    def __init__(self, scope: Scope, statement: Statement) -> None:
        self.scope = scope
        self.statement = statement
        self.text = statement.text
        self.clause = "here"
        """Where the expression stands, for what does not belong there."""

    def at(self, node: exp.Expr | None) -> AbstractContextManager[None]:
        """Give the place of a node to errors raised inside; a node without one leaves it to the nodes around it."""
        return errors_at(self.text, node)

    def refuse(self, what: str, node: exp.Expr | None) -> NoReturn:
        """Refuse what the language does not have."""
        with self.at(node):
            raise PlanError(what)

    def bind(self, node: exp.Expr) -> Expr:
        """Return the typed expression a tree means."""
        with self.at(node):
            return self._bind(node)

    def bind_in(self, node: exp.Expr, clause: str) -> Expr:
        """Return the typed expression a tree means in a clause, which errors name."""
        before, self.clause = self.clause, clause
        try:
            return self.bind(node)
        finally:
            self.clause = before

    def condition(self, node: exp.Expr, clause: str) -> Expr:
        """Return the condition of a clause."""
        bound = self.whole(self.bind_in(node, f"in {clause}"), node)
        if not (pa.types.is_boolean(bound.type) or pa.types.is_null(bound.type)):
            self.refuse(f"{clause} needs a condition, but {bound} is {type_name(bound.type)}", node)
        return convert(bound, pa.bool_())

    def conjuncts(self, node: exp.Expr, clause: str) -> tuple[Expr, ...]:
        """Split the condition of a clause into conjuncts."""
        return conjuncts(self.condition(node, clause))

    def whole(self, expr: Expr, node: exp.Expr) -> Expr:
        """Return an entry of the select list, or a condition, that is bound; refuse what it may not read."""
        return expr

    def _bind(self, node: exp.Expr) -> Expr:
        operator = OPERATORS.get(type(node))
        if operator is not None:
            return resolve(operator, [self.bind(child) for child in node.iter_expressions()])
        special = _SPECIAL.get(type(node))
        if special is not None:
            return special(self, node)
        if isinstance(node, exp.Exists):
            self.statement.check("EXISTS", keyword_before(self.text, [TokenType.EXISTS], node))
        if isinstance(node, exp.Query | exp.Exists | exp.SubqueryPredicate):
            self.refuse(cannot("subquery as a condition"), node)
        self.refuse(f"this expression is not supported: {node.sql('duckdb')}", node)

    def equal(self, left: Expr, right: Expr) -> Expr:
        """Return the condition that two expressions are equal."""
        return resolve("=", [left, right])

    def column(self, node: exp.Expr) -> Expr:
        if not isinstance(node.this, exp.Identifier):
            self.refuse(f"{node.sql('duckdb')} is not a value", node)
        if node.args.get("db"):
            self.refuse(f"a column is written alias.column, but here is {node.sql('duckdb')}", node)
        return self.scope.column(node.name, node.text("table"))

    def literal(self, node: exp.Expr) -> Expr:
        if node.is_string:
            return literal(node.name)
        text = node.name
        try:
            number = float(text) if "e" in text.lower() else decimal.Decimal(text) if "." in text else int(text)
        except (ValueError, ArithmeticError):
            self.refuse(f"'{text[:40]}' is not a number", node)
        return literal(number)

    def connective(self, node: exp.Expr) -> Expr:
        assert isinstance(node, exp.Connector)
        return resolve(node.key, [self.bind(part) for part in node.flatten()])

    def same(self, node: exp.Expr) -> Expr:
        return resolve("not", [resolve("is distinct from", [self.bind(node.this), self.bind(node.expression)])])

    def is_(self, node: exp.Expr) -> Expr:
        value = self.bind(node.this)
        if isinstance(node.expression, exp.Null):
            return resolve("is null", [value])
        if isinstance(node.expression, exp.Boolean):
            differs = resolve("is distinct from", [value, self.bind(node.expression)])
            return resolve("not", [differs])
        self.refuse(f"this expression is not supported: {node.sql('duckdb')}", node)

    def between(self, node: exp.Expr) -> Expr:
        if node.args.get("symmetric"):
            self.refuse("BETWEEN SYMMETRIC is not supported", node)
        value = self.bind(node.this)
        low, high = self.bind(node.args["low"]), self.bind(node.args["high"])
        return between(value, low, high)

    def in_(self, node: exp.Expr) -> Expr:
        if not node.expressions:
            negated = "NOT " if isinstance(node.parent, exp.Not) else ""
            self.refuse(cannot(f"{negated}IN with a subquery"), node)
        return resolve("in", [self.bind(node.this), *(self.bind(e) for e in node.expressions)])

    def like(self, node: exp.Expr, escape: exp.Expr | None = None) -> Expr:
        parts = [node.this, node.expression, *([escape] if escape else [])]
        matched = resolve(node.key, [self.bind(p) for p in parts])
        return resolve("not", [matched]) if node.args.get("negate") else matched

    def escape(self, node: exp.Expr) -> Expr:
        if not isinstance(node.this, exp.Like | exp.ILike):
            self.refuse("ESCAPE belongs after LIKE or ILIKE", node)
        if (
            not (isinstance(node.expression, exp.Literal) and node.expression.is_string)
            or len(node.expression.this) != 1
        ):
            self.refuse("ESCAPE takes one character, such as ESCAPE '!'", node)
        return self.like(node.this, node.expression)

    def case(self, node: exp.Expr) -> Expr:
        subject = node.args.get("this")
        compared = self.bind(subject) if subject else None
        branches = [(self.bind(branch.this), self.bind(branch.args["true"])) for branch in node.args["ifs"]]
        default = node.args.get("default")
        otherwise = self.bind(default) if default else None
        return case(branches, otherwise) if compared is None else case_of(compared, branches, otherwise)

    def cast(self, node: exp.Expr) -> Expr:
        return cast(self.bind(node.this), read_type(node.args["to"]))

    def extract(self, node: exp.Expr) -> Expr:
        return resolve(node.name, [self.bind(node.expression)])

    def trim(self, node: exp.Expr) -> Expr:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
        return self.call(name, node.this, node.args.get("expression"))

    def substring(self, node: exp.Expr) -> Expr:
        return self.call("substring", node.this, node.args.get("start"), node.args.get("length"))

    def position(self, node: exp.Expr) -> Expr:
        return self.call("strpos", node.this, node.args["substr"])

    def call(self, name: str, *args: exp.Expr | None) -> Expr:
        return resolve(name, [self.bind(a) for a in args if a is not None])

    def function(self, node: exp.Expr) -> Expr:
        name = node.name
        if self.statement.is_aggregate(name):
            return self.aggregate(node)
        if not is_function(name):
            own = list(self.statement.aggregates)
            near = closest(name, [*FUNCTIONS, *SYNONYMS, *AGGREGATES, *own])
            message = near or (f"; the aggregates registered are {', '.join(own)}" if own else "")
            self.refuse(f"there is no function '{name}'{message}", node)
        return self.call(name, *node.expressions)

    def aggregate(self, node: exp.Expr) -> Expr:
        instead = "; HAVING takes conditions on them" if self.clause == "in WHERE" else ""
        self.refuse(f"aggregates such as {node.name.upper()} do not belong {self.clause}{instead}", node)


_SPECIAL: dict[type[exp.Expr], Callable[[ExpressionBinder, exp.Expr], Expr]] = {
    exp.Column: lambda binder, node: binder.column(node),
    exp.Literal: ExpressionBinder.literal,
    exp.Boolean: lambda binder, node: literal(bool(node.this)),
    exp.Null: lambda binder, node: Literal(None, pa.null()),
    exp.Interval: lambda binder, node: literal(read_interval(node)),
    exp.Paren: lambda binder, node: binder.bind(node.this),
    exp.And: ExpressionBinder.connective,
    exp.Or: ExpressionBinder.connective,
    exp.NullSafeEQ: ExpressionBinder.same,
    exp.Is: ExpressionBinder.is_,
    exp.Between: ExpressionBinder.between,
    exp.In: ExpressionBinder.in_,
    exp.Like: ExpressionBinder.like,
    exp.ILike: ExpressionBinder.like,
    exp.Escape: ExpressionBinder.escape,
    exp.Case: ExpressionBinder.case,
    exp.Cast: ExpressionBinder.cast,
    exp.TryCast: ExpressionBinder.cast,
    exp.Extract: ExpressionBinder.extract,
    exp.Trim: ExpressionBinder.trim,
    exp.Substring: ExpressionBinder.substring,
    exp.StrPosition: ExpressionBinder.position,
    exp.Anonymous: ExpressionBinder.function,
    exp.Window: lambda binder, node: binder.refuse("window functions (OVER) are not supported", node),
    exp.Filter: lambda binder, node: binder.refuse("aggregates with FILTER are not supported yet", node),
    exp.Placeholder: lambda binder, node: binder.refuse("query parameters are not supported", node),
}
