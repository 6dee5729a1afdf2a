"""Blocks: one SELECT of a hopping query to algebra.

FROM   -> scans and subqueries, each below the conditions on it alone -> joins from left to right, each condition at
          the first join that has its columns
WHERE  -> NOT EXISTS: anti joins on top of the joins -> conditions on nothing
GROUP  -> groups, HAVING -> what the select list is computed from
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import TokenType, exp

from midstream.lang.bind_expression import ExpressionBinder
from midstream.lang.bind_from import FromBinder
from midstream.lang.bind_group import GroupBinder
from midstream.lang.bind_window import plain_window
from midstream.lang.clauses import unwrapped
from midstream.lang.dialect import WINDOW, keyword_before, keyword_offset
from midstream.lang.hop_names import HopNames
from midstream.lang.place import error_at
from midstream.lang.scope import Level, NestedScope
from midstream.lang.select_list import Item, select_items, star_of
from midstream.lang.statement import Statement
from midstream.lang.stream_item import bare_source, refuse_renaming, with_window
from midstream.plan.algebra import Anti, Group, Join, Rel, Scan, Select, schema_of
from midstream.plan.expr import Column, Expr, aliases, replace_columns
from midstream.plan.query import Source
from midstream.plan.window import RangeWindow, RowsWindow, Window

Inner = Callable[[exp.Expr, str], Rel]
"""How a subquery in FROM is bound: its tree and its alias to what it gives, all under one alias."""


@dataclass(frozen=True)
class Block:
    """What a query computes before its columns are made: rows, and the entries of the select list over them.

    `made`: the entries are the columns of `child` as they are, as set operations have them.
    """

    child: Rel
    items: tuple[Item, ...]
    distinct: bool = False
    made: bool = False


class _Conditions(ExpressionBinder):
    """Expressions of a hopping query, in which a subquery is a condition of its own."""

    def _bind(self, node: exp.Expr) -> Expr:
        if isinstance(node, exp.Exists):
            told = "EXISTS is only for WHERE ... AND NOT EXISTS (SELECT ...), joined to other conditions by AND"
            raise error_at(told, self.text, keyword_before(self.text, [TokenType.EXISTS], node))
        if isinstance(node, exp.In) and node.args.get("query"):
            self.refuse("IN takes a list of values; for a subquery write NOT EXISTS (SELECT ...)", node)
        return super()._bind(node)


class BlockBinder(FromBinder):
    """One SELECT of a hopping query on its way from tree to algebra."""

    bound = (*FromBinder.bound, "distinct", "group", "having")

    def __init__(
        self, statement: Statement, names: HopNames, inner: Inner, around: "BlockBinder | None" = None
    ) -> None:
        self.nested: NestedScope = NestedScope(around.nested if around else None)
        super().__init__(statement, self.nested, _Conditions(self.nested, statement))
        self.names = names
        self.inner = inner
        self.leaves: list[Rel] = []
        self.absent: list[Absent] = []

    def block(self, select: exp.Select) -> Block:
        """Return what a SELECT asks."""
        distinct = select.args.get("distinct")
        if distinct and distinct.args.get("on"):
            raise error_at("DISTINCT ON is not supported", self.text, keyword_offset(self.text, "DISTINCT"))
        self.sources(select)
        self.where(select)
        grouping = self.statement.grouping(select)
        if grouping is None:
            items = tuple(select_items(select, self.expressions))
            return Block(self.relation(), items, bool(distinct))
        return replace(self.groups(select, *grouping), distinct=bool(distinct))

    def groups(self, select: exp.Select, word: str, place: int | None) -> Block:
        """Return what a SELECT of aggregates asks."""
        grouped = GroupBinder(self.expressions).grouped(select)
        if not grouped.keys and not grouped.aggregates:
            raise error_at(f"{word} needs GROUP BY or an aggregate", self.text, place)
        rel: Rel = Group(self.relation(), self.names.take(), grouped.keys, grouped.aggregates)
        alias = rel.columns[0].alias

        def own(expr: Expr) -> Expr:
            return replace_columns(expr, lambda c: Column(alias, c.name, c.type))

        rel = selected(rel, [own(c) for c in grouped.having])
        return Block(rel, tuple(replace(i, expr=own(i.expr)) for i in grouped.items))

    def relation(self) -> Rel:
        """Return the rows that FROM and WHERE leave."""
        conditions = list(dict.fromkeys(self.conjuncts))
        rel = joined(self.leaves, [c for c in conditions if aliases(c)])
        for absent in self.absent:
            rel = Anti(rel, absent.rel, absent.conjuncts)
        return selected(rel, [c for c in conditions if not aliases(c)])

    def where(self, select: exp.Select) -> None:
        """Bring the WHERE of a SELECT into the conjuncts and the anti joins."""
        where = select.args.get("where")
        for part in parts_of(where.this) if where else ():
            query = absent_query(part)
            if query is None:
                self.conjuncts += self.expressions.conjuncts(part, "WHERE")
            else:
                self.not_exists(query)

    def item(self, node: exp.Expr) -> None:
        """Bring a stream or a subquery of FROM into scope."""
        if isinstance(node, exp.Subquery):
            self.subquery(node)
        else:
            self.stream(node)

    def stream(self, node: exp.Expr) -> None:
        """Bring a stream into scope, all of its columns read for now."""
        bare = bare_source(node, self.expressions)
        assert isinstance(node, exp.Table)
        called = self.names.take(bare.alias)
        with self.expressions.at(node.args.get("alias") or node):
            self.nested.add_as(bare, called)
        source = Source(called, bare.stream, bare.position, self.window(node, bare, called))
        usable = [(name, bare.stream.type_of(name)) for name in bare.stream.columns.names]
        self.leaves.append(Scan(source, tuple(Column(called, name, t) for name, t in usable if t is not None)))

    def window(self, node: exp.Table, bare: Source, called: str) -> Window:
        """Return the window of a stream, its columns under the alias of the algebra."""
        clause = node.meta.get(WINDOW)
        if clause is None:
            told = f"stream '{bare.alias}' needs a window with HOP BY; write for example {with_window(node)}"
            self.expressions.refuse(told, node)
        if clause.has_instances:
            told = "a window that slides does not go with HOP BY, which says when there are results; write [RANGE ...]"
            raise error_at(f"{told} or [ROWS ...]", self.text, clause.offset)
        window = plain_window(clause, bare, self.text)
        if isinstance(window, RowsWindow):
            return replace(window, partition_by=tuple(replace(c, alias=called) for c in window.partition_by))
        if window == RangeWindow(0):
            raise error_at(f"a window of no length is empty at every hop: {window}", self.text, clause.offset)
        return window

    def subquery(self, node: exp.Subquery) -> None:
        """Bring a subquery into scope."""
        if WINDOW in node.meta:
            told = "with HOP BY a window stands behind a stream, not behind a subquery"
            raise error_at(told, self.text, node.meta[WINDOW].offset)
        refuse_renaming(node, self.expressions)
        rel = self.inner(unwrapped(node.this, self.text), node.alias)
        called = rel.columns[0].alias
        with self.expressions.at(node.args.get("alias") or node):
            self.nested.add_as(Level(node.alias or called, schema_of(rel)), called)
        self.leaves.append(rel)

    def join(self, node: exp.Expr) -> None:
        """Bring a joined item into scope; that of an ANTI JOIN only for its condition."""
        if str(node.args.get("kind") or "").upper() != "ANTI" or node.args.get("method"):
            return super().join(node)
        if str(node.args.get("side") or "LEFT").upper() != "LEFT" or not node.args.get("on"):
            self.expressions.refuse("an ANTI JOIN is written a ANTI JOIN b ON ...", node.this)
        other = BlockBinder(self.statement, self.names, self.inner, self)
        other.table(node.this)
        other.conjuncts += other.expressions.conjuncts(node.args["on"], "ON")
        self.keep_without(other, node.this)

    def not_exists(self, query: exp.Expr) -> None:
        """Keep the rows for which a query gives none; what that selects does not matter."""
        place = keyword_before(self.text, [TokenType.EXISTS], query)
        tree = unwrapped(query, self.text)
        if not isinstance(tree, exp.Select):
            raise error_at("NOT EXISTS takes one SELECT, without set operations", self.text, place)
        grouping = self.statement.grouping(tree)
        if grouping is not None:
            raise error_at(f"{grouping[0]} is not supported in NOT EXISTS", self.text, grouping[1] or place)
        other = BlockBinder(self.statement, self.names, self.inner, self)
        other.block_rows(tree)
        self.keep_without(other, tree)

    def block_rows(self, select: exp.Select) -> None:
        """Read a SELECT of which only the rows count; the names in its list must exist all the same."""
        self.sources(select)
        self.where(select)
        for entry in select.expressions:
            if star_of(entry) is None:
                self.expressions.bind_in(entry.unalias(), "in this SELECT")

    def keep_without(self, other: "BlockBinder", node: exp.Expr) -> None:
        """Keep the rows that have no partner in what another binder has read."""
        inside, here = set(other.nested.called.values()), set(self.nested.called.values())
        across = [c for c in dict.fromkeys(other.conjuncts) if not aliases(c) <= inside]
        for condition in across:
            if not aliases(condition) <= inside | here:
                told = f"NOT EXISTS reads the query right around it, but this is from further outside: {condition}"
                self.expressions.refuse(told, node)
        other.conjuncts = [c for c in other.conjuncts if aliases(c) <= inside]
        self.absent.append(Absent(other.relation(), tuple(across)))


@dataclass(frozen=True)
class Absent:
    """Rows that a row must have no partner among, and what makes one a partner."""

    rel: Rel
    conjuncts: tuple[Expr, ...]


def joined(leaves: Sequence[Rel], conditions: Sequence[Expr]) -> Rel:
    """Join from left to right, each condition as soon as its columns are there."""
    rel: Rel | None = None
    rest = list(conditions)
    known: set[str] = set()
    for leaf in leaves:
        own = {c.alias for c in leaf.columns}
        leaf = selected(leaf, [c for c in rest if aliases(c) <= own])
        known |= own
        across = tuple(c for c in rest if aliases(c) <= known and not aliases(c) <= own)
        rest = [c for c in rest if not aliases(c) <= known]
        rel = leaf if rel is None else Join(rel, leaf, across)
    assert rel is not None, "a SELECT reads one item at least"
    return rel


def selected(rel: Rel, conditions: Sequence[Expr]) -> Rel:
    """Return the rows that meet conditions, if there are any."""
    return Select(rel, tuple(conditions)) if conditions else rel


def parts_of(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the conditions that AND joins, parentheses around them taken off."""
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.And):
        yield node
        return
    for part in node.flatten():
        yield from parts_of(part)


def absent_query(node: exp.Expr) -> exp.Expr | None:
    """Return the query of a NOT EXISTS, or None for another condition."""
    if not isinstance(node, exp.Not):
        return None
    inner = node.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    return inner.this if isinstance(inner, exp.Exists) else None
