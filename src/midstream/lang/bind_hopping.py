"""Hopping queries: a tree with HOP BY to the algebra of one hop.

SELECT           -> a block: rows, and the entries of its select list
set operations   -> both sides of one type, column by column -> EXCEPT, UNION of their columns
the whole        -> every scan reads only what is used -> HopQuery
"""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from midstream.lang.bind_block import Block, BlockBinder
from midstream.lang.bind_difference import OPERATORS
from midstream.lang.clauses import refuse_clauses, unwrapped
from midstream.lang.dialect import HOP, keyword_before
from midstream.lang.hop_clause import HopClause
from midstream.lang.hop_names import HopNames
from midstream.lang.place import error_at, offset_of
from midstream.lang.select_list import Item
from midstream.lang.statement import Statement
from midstream.model.errors import PlanError
from midstream.model.types import type_name
from midstream.plan.algebra import (
    Anti,
    Distinct,
    Except,
    Group,
    Join,
    Project,
    Rel,
    Scan,
    Select,
    Union,
    operators,
    rewrite,
)
from midstream.plan.coerce import settle, unify
from midstream.plan.expr import Column, Expr, Literal, cast_to, columns
from midstream.plan.hopping import HopQuery


def bind_hopping(tree: exp.Expr, statement: Statement) -> HopQuery:
    """Return the hopping query that a tree with HOP BY asks."""
    clause = tree.meta[HOP]
    assert isinstance(clause, HopClause)
    binder = _HopBinder(statement, HopNames(tree, statement.catalog))
    root = read_only_used(binder.relation(unwrapped(tree, statement.text), ""))
    return HopQuery(root, clause.hop_us, clause.emit, statement.text)


class _HopBinder:
    """A query with all of its subqueries on its way from tree to algebra."""

    def __init__(self, statement: Statement, names: HopNames) -> None:
        self.statement = statement
        self.text = statement.text
        self.names = names

    def relation(self, tree: exp.Expr, alias: str) -> Rel:
        """Return what a query gives, its columns under an alias like the given one."""
        block = self.block(tree, alias)
        return self.finished(block, [settle(i.expr) for i in block.items], alias)

    def block(self, tree: exp.Expr, alias: str) -> Block:
        """Return what a query computes before its columns are made."""
        if isinstance(tree, exp.SetOperation):
            return self.set_operation(tree, alias)
        if not isinstance(tree, exp.Select):
            raise error_at(f"a query is a SELECT, but here is {tree.key.upper()}", self.text, offset_of(tree))
        return BlockBinder(self.statement, self.names, self.relation).block(tree)

    def set_operation(self, tree: exp.SetOperation, alias: str) -> Block:
        """Return what UNION, EXCEPT or INTERSECT make of two queries."""
        refuse_clauses(tree, ("this", "expression", "distinct"), self.text)
        left, right = unwrapped(tree.this, self.text), unwrapped(tree.expression, self.text)
        if isinstance(tree, exp.Intersect):
            return self.intersect(tree, left, right, alias)
        first = self.block(left, "" if isinstance(tree, exp.Union) else alias)
        return self.together(tree, first, self.block(right, ""), alias)

    def intersect(self, tree: exp.SetOperation, left: exp.Expr, right: exp.Expr, alias: str) -> Block:
        """Return `left EXCEPT (left EXCEPT right)`, which has the rows of both sides once."""
        if _keeps_all(tree):
            raise error_at("INTERSECT ALL is not supported; INTERSECT is", self.text, self.place(tree))
        while isinstance(left, exp.Intersect) and not _keeps_all(left):
            # (a INTERSECT b) INTERSECT c is a INTERSECT (b INTERSECT c), which reads fewer streams twice.
            refuse_clauses(left, ("this", "expression", "distinct"), self.text)
            right = exp.Intersect(this=left.expression, expression=right, distinct=True)
            left = unwrapped(left.this, self.text)
        first = self.block(left, alias)
        less = self.together(tree, self.block(left, ""), self.block(right, ""), "")
        return self.together(tree, first, less, alias)

    def together(self, tree: exp.SetOperation, first: Block, second: Block, alias: str) -> Block:
        """Return what a set operation makes of two blocks, each column in a type that both sides have."""
        if len(first.items) != len(second.items):
            told = f"both sides of {tree.key.upper()} select as many columns, but the left selects {len(first.items)}"
            place = offset_of(second.items[0].node) or self.place(tree)
            raise error_at(f"{told} and the right {len(second.items)}", self.text, place)
        both = enumerate(zip(first.items, second.items, strict=True), 1)
        pairs = [self.unified(tree, number, left, right) for number, (left, right) in both]
        union = isinstance(tree, exp.Union)
        left = self.finished(first, [p[0] for p in pairs], "" if union else alias)
        right = self.finished(second, [p[1] for p in pairs], "")
        rel: Rel = Except(left, right, _keeps_all(tree))
        if union:
            called = self.names.take(alias)
            rel = Union(left, right, tuple(replace(c, alias=called) for c in left.columns))
            rel = rel if _keeps_all(tree) else Distinct(rel)
        items = [Item(c.name, c, i.node) for c, i in zip(rel.columns, first.items, strict=True)]
        return Block(rel, tuple(items), made=True)

    def unified(self, tree: exp.SetOperation, number: int, left: Item, right: Item) -> tuple[Expr, ...]:
        """Give a column one type on both sides, the one in which its values are compared."""
        place = offset_of(right.node) or self.place(tree)
        try:
            found = unify([left.expr, right.expr])
        except PlanError as error:
            raise error_at(str(error), self.text, place) from None
        if found is None:
            is_, on_left = type_name(right.expr.type), type_name(left.expr.type)
            told = f"column {number} on the right of {tree.key.upper()} is {is_}, which cannot be compared with"
            raise error_at(f"{told} {on_left} on the left; cast one of them", self.text, place)
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


def read_only_used(root: Rel) -> Rel:
    """Let every scan read the columns that something above it reads, or else the time."""
    used = {column for rel in operators(root) for expr in _expressions(rel) for column in columns(expr)}

    def pruned(rel: Rel) -> Rel:
        if not isinstance(rel, Scan):
            return rel
        time = rel.source.stream.time
        read = tuple(c for c in rel.columns if c in used)
        return replace(rel, columns=read or tuple(c for c in rel.columns if c.name == time))

    return rewrite(root, pruned)


def _expressions(rel: Rel) -> list[Expr]:
    match rel:
        case Select(conjuncts=conjuncts) | Join(conjuncts=conjuncts) | Anti(conjuncts=conjuncts):
            return list(conjuncts)
        case Project(outputs=outputs):
            return [expr for _, expr in outputs]
        case Group(keys=keys, aggregates=aggregates):
            return [*keys, *(a.argument for a in aggregates if a.argument is not None)]
        case _:
            return []
