"""Queries: a sqlglot tree and what is declared to a validated query.

SELECT           -> a block: rows, and the entries of its select list
set operations   -> all sides of one type, column by column -> EXCEPT, UNION of their columns
the whole        -> every scan reads only what is used -> when it answers and what it emits -> Query
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import TokenType, exp

from midstream.lang.bind.clauses import refuse_clauses, unwrapped
from midstream.lang.bind.names import Names
from midstream.lang.bind.select import Block, SelectBinder
from midstream.lang.bind.select_list import Item
from midstream.lang.bind.statement import Statement
from midstream.lang.syntax.dialect import HOP_CLAUSE, keyword_before
from midstream.lang.syntax.place import error_at, errors_at, offset_of
from midstream.model.errors import PlanError, SqlError
from midstream.model.stream import StreamSchema
from midstream.model.types import type_name
from midstream.plan.aggregates import UserAggregate
from midstream.plan.algebra import Distinct, Except, Project, Rel, Union, read_only_used
from midstream.plan.coerce import settle, unify
from midstream.plan.expr import Column, Expr, Literal, cast_to
from midstream.plan.query import Query, row_query

OPERATORS = (TokenType.EXCEPT, TokenType.UNION, TokenType.INTERSECT)
"""The tokens that stand between the sides of set operations."""


def bind(
    tree: exp.Expr,
    catalog: Sequence[StreamSchema],
    text: str = "",
    aggregates: Mapping[str, UserAggregate] | None = None,
) -> Query:
    """Return the query a tree asks, over the declared streams; `text` is what it was parsed from."""
    clause = tree.meta.get(HOP_CLAUSE)
    own = {name.lower(): a for name, a in (aggregates or {}).items()}
    statement = Statement(catalog, text, own, hops=clause is not None)
    try:
        binder = _QueryBinder(statement, Names(tree, catalog))
        root = read_only_used(binder.relation(unwrapped(tree, text), ""))
        return row_query(root, text) if clause is None else clause.query(root, text)
    except PlanError as error:
        raise SqlError(str(error)) from None


class _QueryBinder:
    """A query with all of its subqueries on its way from tree to algebra."""

    def __init__(self, statement: Statement, names: Names) -> None:
        self.statement = statement
        self.text = statement.text
        self.names = names

    def relation(self, tree: exp.Expr, alias: str) -> Rel:
        """Return what a query gives, its columns under an alias like the given one."""
        block = self.block(tree, alias)
        return self.finished(block, [settle(i.expr) for i in block.items], alias)

    def block(self, tree: exp.Expr, alias: str, compared: bool = False) -> Block:
        """Return what a query computes before its columns are made; `compared` is for a side of a set operation."""
        if isinstance(tree, exp.SetOperation):
            return self.set_operation(tree, alias)
        if not isinstance(tree, exp.Select):
            raise error_at(f"a query is a SELECT, but here is {tree.key.upper()}", self.text, offset_of(tree))
        return SelectBinder(self.statement, self.names, self.relation).block(tree, compared)

    def set_operation(self, tree: exp.SetOperation, alias: str) -> Block:
        """Return what UNION, EXCEPT or INTERSECT make of queries."""
        if not self.statement.hops:
            return self.together(tree, [self.block(side, "", True) for side in self.chain(tree)], alias)
        refuse_clauses(tree, ("this", "expression", "distinct"), self.text)
        left, right = unwrapped(tree.this, self.text), unwrapped(tree.expression, self.text)
        if isinstance(tree, exp.Intersect):
            return self.intersect(tree, left, right, alias)
        first = self.block(left, "" if isinstance(tree, exp.Union) else alias)
        return self.together(tree, [first, self.block(right, "")], alias)

    def chain(self, tree: exp.SetOperation) -> list[exp.Expr]:
        """Return the sides of a chain of differences from left to right, refusing other set operations."""
        sides: list[exp.Expr] = []
        rest: exp.Expr = tree
        while isinstance(rest, exp.SetOperation):
            right = unwrapped(rest.expression, self.text)
            self.check_row_by_row(rest, right)
            sides.append(right)
            rest = unwrapped(rest.this, self.text)
        return [rest, *reversed(sides)]

    def check_row_by_row(self, tree: exp.SetOperation, right: exp.Expr) -> None:
        """Refuse a set operation that cannot answer row by row."""
        place = keyword_before(self.text, OPERATORS, right)
        if not isinstance(tree, exp.Except):
            self.statement.check("operator", place, word=tree.key.upper())
        if _keeps_all(tree):
            self.statement.check("EXCEPT ALL", place)
        refuse_clauses(tree, ("this", "expression", "distinct"), self.text)
        if isinstance(right, exp.SetOperation):
            self.check_row_by_row(right, unwrapped(right.expression, self.text))
            self.statement.check("nested EXCEPT", place)

    def intersect(self, tree: exp.SetOperation, left: exp.Expr, right: exp.Expr, alias: str) -> Block:
        """Return `left EXCEPT (left EXCEPT right)`, which has the rows of both sides once."""
        if _keeps_all(tree):
            self.statement.check("INTERSECT ALL", self.place(tree))
        while isinstance(left, exp.Intersect) and not _keeps_all(left):
            # (a INTERSECT b) INTERSECT c is a INTERSECT (b INTERSECT c), which reads fewer streams twice.
            refuse_clauses(left, ("this", "expression", "distinct"), self.text)
            right = exp.Intersect(this=left.expression, expression=right, distinct=True)
            left = unwrapped(left.this, self.text)
        first = self.block(left, alias)
        less = self.together(tree, [self.block(left, ""), self.block(right, "")], "")
        return self.together(tree, [first, less], alias)

    def together(self, tree: exp.SetOperation, blocks: Sequence[Block], alias: str) -> Block:
        """Return what a set operation makes of blocks, each column in a type that all of them have."""
        first, *others = blocks
        for other in others:
            if len(first.items) != len(other.items):
                message = f"both sides of {tree.key.upper()} select as many columns, but the left selects"
                place = offset_of(other.items[0].node) or self.place(tree)
                raise error_at(f"{message} {len(first.items)} and the right {len(other.items)}", self.text, place)
        columns = [self.unified(tree, number, [b.items[number] for b in blocks]) for number in range(len(first.items))]
        union = isinstance(tree, exp.Union)
        rel = self.finished(first, [c[0] for c in columns], "" if union else alias)
        for k, other in enumerate(others, 1):
            # The first side names the columns.
            named = [replace(i, name=f.name) for i, f in zip(other.items, first.items, strict=True)]
            right = self.finished(replace(other, items=tuple(named)), [c[k] for c in columns], "")
            if union:
                called = self.names.take(alias)
                rel = Union(rel, right, tuple(replace(c, alias=called) for c in rel.columns))
                rel = rel if _keeps_all(tree) else Distinct(rel)
            else:
                rel = Except(rel, right, _keeps_all(tree))
        items = [Item(c.name, c, i.node) for c, i in zip(rel.columns, first.items, strict=True)]
        return Block(rel, tuple(items), made=True)

    def unified(self, tree: exp.SetOperation, number: int, items: Sequence[Item]) -> tuple[Expr, ...]:
        """Give a column one type on all sides, the one in which its values are compared."""
        exprs = [i.expr for i in items]
        for k in range(2, len(items) + 1):
            place = offset_of(items[k - 1].node) or self.place(tree)
            with errors_at(self.text, place):
                found = unify(exprs[:k])
            if found is None:
                is_, on_left = type_name(exprs[k - 1].type), type_name(exprs[0].type)
                of = f"column {number + 1} on the right of {tree.key.upper()}"
                unlike = f"is {is_}, which cannot be compared with {on_left} on the left; cast one of them"
                raise error_at(f"{of} {unlike}", self.text, place)
        assert found is not None, "a set operation has two sides at least"
        return found

    def place(self, tree: exp.SetOperation) -> int | None:
        """Return where the word of a set operation stands."""
        return keyword_before(self.text, OPERATORS, tree.expression)

    def finished(self, block: Block, exprs: Sequence[Expr], alias: str) -> Rel:
        """Return a block with its columns made, of the types that the expressions have."""
        if block.made and tuple(exprs) == block.child.columns:
            return block.child
        before = [settle(i.expr) for i in block.items]
        if block.distinct and any(
            b.type != e.type and not isinstance(b, Literal) for b, e in zip(before, exprs, strict=True)
        ):
            # Values that differ may be equal in another type, so what is distinct is decided in their own.
            own = self.finished(block, before, alias)
            exprs = [cast_to(c, e.type) for c, e in zip(own.columns, exprs, strict=True)]
            return self.finished(Block(own, block.items), exprs, "")
        called = self.names.take(alias)
        outputs = zip((i.name for i in block.items), exprs, strict=True)
        rel: Rel = Project(block.child, tuple((Column(called, name, e.type), e) for name, e in outputs))
        return Distinct(rel) if block.distinct else rel


def _keeps_all(tree: exp.SetOperation) -> bool:
    """Tell whether a set operation counts how often a row comes: ALL."""
    return tree.args.get("distinct") is False
