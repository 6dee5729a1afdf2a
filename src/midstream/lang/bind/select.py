"""One SELECT to algebra.

FROM   -> scans and subqueries -> joined; with HOP BY each condition as soon as its columns are there, else all above
          -> the window that slides over that, if there is one
WHERE  -> conditions; NOT EXISTS: anti joins on top of the joins
GROUP  -> groups, HAVING -> what the select list is computed from
"""

from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import TokenType, exp

from midstream.lang.bind.clauses import unwrapped
from midstream.lang.bind.conditions import absent_query, joined, parts_of, selected
from midstream.lang.bind.group import GroupBinder
from midstream.lang.bind.names import Names
from midstream.lang.bind.select_list import Item, select_items, star_of
from midstream.lang.bind.sources import FromBinder, Inner, bare_source, is_around_joins
from midstream.lang.bind.statement import Statement
from midstream.lang.bind.window import instances
from midstream.lang.syntax.dialect import WINDOW, keyword_before, keyword_offset
from midstream.lang.syntax.place import error_at, offset_of
from midstream.lang.syntax.window_clause import WindowClause
from midstream.model.errors import SqlError
from midstream.plan.algebra import Anti, Group, Rel, Windowed
from midstream.plan.capabilities import AT_HOPS, HOP_BY, JOIN_EXAMPLE, cannot
from midstream.plan.expr import Column, Expr, aliases, replace_columns

SUBQUERY = "a subquery in FROM needs a window that slides, and aggregates over it"


@dataclass(frozen=True)
class Block:
    """What a query computes before its columns are made: rows, and the entries of the select list over them.

    `made`: the entries are the columns of `child` as they are, as set operations have them.
    """

    child: Rel
    items: tuple[Item, ...]
    distinct: bool = False
    made: bool = False


class SelectBinder(FromBinder):
    """One SELECT on its way from tree to algebra."""

    def __init__(self, statement: Statement, names: Names, inner: Inner, around: "SelectBinder | None" = None) -> None:
        super().__init__(statement, names, inner, around.scope if around else None)
        self.absent: list[Absent] = []
        self.window_rows: Rel | None = None
        """What the window that slides is over, in its instances."""

    def block(self, select: exp.Select, compared: bool = False) -> Block:
        """Return what a SELECT asks; `compared`: it is a side of a set operation."""
        grouping = self.statement.grouping(select)
        if self.statement.hops:
            self.sources(select)
        elif not compared and (grouping is not None or is_over_window(select)):
            self.windowed(select, grouping)
        else:
            if grouping is not None:
                self.statement.check("aggregates in a difference", grouping[1], word=grouping[0])
            self.sources(select)
            self.check_windows(compared)
        self.where(select)
        distinct = select.args.get("distinct")
        if distinct and distinct.args.get("on"):
            raise error_at("DISTINCT ON is not supported", self.text, keyword_offset(self.text, "DISTINCT"))
        if grouping is None:
            items = tuple(select_items(select, self.expressions))
            return Block(self.relation(), items, bool(distinct))
        return replace(self.groups(select, *grouping), distinct=bool(distinct))

    def windowed(self, select: exp.Select, grouping: tuple[str, int | None] | None) -> None:
        """Bring what a window slides over into scope: a stream, a subquery, or a join in parentheses."""
        self.refuse_clauses(select)
        item = item_of(select)
        if item is None:
            self.refuse_from(select, grouping)
        clause = item.meta.get(WINDOW)
        if clause is None:
            self.refuse_no_window(item, grouping)
        if isinstance(item, exp.Table):
            self.add_stream(item, windowed=False)
        elif is_around_joins(item):
            if not isinstance(item.this, exp.Table | exp.Subquery) or not item.this.args.get("joins"):
                raise error_at("a window belongs after a stream or a subquery in FROM", self.text, clause.offset)
            self.table(item.this)
            self.check_windows(compared=False)
        else:
            tree = unwrapped(item.this, self.text)
            if isinstance(tree, exp.SetOperation):
                self.statement.check("window over a set operation", offset_of(tree))
            self.add_subquery(item, tree, item.alias or "t")
        if grouping is None:
            list(select_items(select, self.expressions))  # whatever else is wrong comes first
            self.refuse_no_aggregate(clause)
        rows, self.conjuncts = self.relation(), []
        self.window_rows = Windowed(rows, instances(clause, self.scope, self.expressions, grouping[0]))

    def groups(self, select: exp.Select, word: str, place: int | None) -> Block:
        """Return what a SELECT of aggregates asks."""
        grouped = GroupBinder(self.expressions).grouped(select)
        if not grouped.keys and not grouped.aggregates:
            item = item_of(select)
            if self.window_rows is not None and item is not None:
                self.refuse_no_aggregate(item.meta[WINDOW])
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
        if not self.statement.hops:
            # Row by row the plan decides where a condition is checked, and in which order streams are joined.
            return selected(self.window_rows or joined(self.leaves, []), conditions)
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

    def join(self, node: exp.Expr) -> None:
        """Bring a joined item into scope; that of an ANTI JOIN only for its condition."""
        if str(node.args.get("kind") or "").upper() != "ANTI" or node.args.get("method"):
            return super().join(node)
        self.statement.check("anti join", offset_of(node.this), word="ANTI JOIN")
        if str(node.args.get("side") or "LEFT").upper() != "LEFT" or not node.args.get("on"):
            self.expressions.refuse("an ANTI JOIN is written a ANTI JOIN b ON ...", node.this)
        other = SelectBinder(self.statement, self.names, self.inner, self)
        other.table(node.this)
        other.conjuncts += other.expressions.conjuncts(node.args["on"], "ON")
        self.keep_without(other, node.this)

    def not_exists(self, query: exp.Expr) -> None:
        """Keep the rows for which a query gives none; what that selects does not matter."""
        place = keyword_before(self.text, [TokenType.EXISTS], query)
        self.statement.check("anti join", place, word="NOT EXISTS")
        tree = unwrapped(query, self.text)
        if not isinstance(tree, exp.Select):
            raise error_at("NOT EXISTS takes one SELECT, without set operations", self.text, place)
        grouping = self.statement.grouping(tree)
        if grouping is not None:
            raise error_at(f"{grouping[0]} is not supported in NOT EXISTS", self.text, grouping[1] or place)
        other = SelectBinder(self.statement, self.names, self.inner, self)
        other.block_rows(tree)
        self.keep_without(other, tree)

    def block_rows(self, select: exp.Select) -> None:
        """Read a SELECT of which only the rows count; the names in its list must exist all the same."""
        self.sources(select)
        self.where(select)
        for entry in select.expressions:
            if star_of(entry) is None:
                self.expressions.bind_in(entry.unalias(), "in this SELECT")

    def keep_without(self, other: "SelectBinder", node: exp.Expr) -> None:
        """Keep the rows that have no partner in what another binder has read."""
        inside, here = other.scope.called, self.scope.called
        across = [c for c in dict.fromkeys(other.conjuncts) if not aliases(c) <= inside]
        for condition in across:
            if not aliases(condition) <= inside | here:
                message = f"NOT EXISTS reads the query right around it, but this is from further outside: {condition}"
                self.expressions.refuse(message, node)
        other.conjuncts = [c for c in other.conjuncts if aliases(c) <= inside]
        self.absent.append(Absent(other.relation(), tuple(across)))

    def refuse_no_aggregate(self, clause: WindowClause) -> NoReturn:
        """Say that the instances of a window are for aggregates."""
        if clause.has_instances:
            message = cannot("window that slides without an aggregate", window=clause.called)
        else:
            message = f"{SUBQUERY}; or {HOP_BY} instead"
        raise error_at(message, self.text, clause.offset)

    def refuse_from(self, select: exp.Select, grouping: tuple[str, int | None] | None) -> NoReturn:
        """Say why FROM is nothing that aggregates can be over."""
        origin = select.args.get("from_")
        if origin is None:
            raise SqlError("the query reads no stream; FROM is missing")
        for table in select.find_all(exp.Table):
            clause = table.meta.get(WINDOW)
            if clause is not None and clause.has_instances:
                message = cannot("window that slides in a join", window=clause.called)
                raise error_at(message, self.text, clause.offset)
        word, offset = grouping or ("an aggregate", offset_of(origin))
        raise error_at(f"{word} reads one stream or subquery; {JOIN_EXAMPLE}", self.text, offset)

    def refuse_no_window(self, item: exp.Expr, grouping: tuple[str, int | None] | None) -> NoReturn:
        """Say which window is missing."""
        word, offset = grouping or (None, None)
        if isinstance(item, exp.Subquery):
            example = f"(SELECT ...) [ROWS 10 SLIDE 5]{f' {item.alias}' if item.alias else ''}"
            self.expressions.refuse(f"{SUBQUERY}; write for example FROM {example}, or {HOP_BY} instead", item)
        name = bare_source(item, self.expressions).alias
        example = f"{item.name} [ROWS 50 SLIDE 1]{f' {name}' if name != item.name else ''}"
        message = f"{word} needs a window that slides, and stream '{name}' has none"
        raise error_at(f"{message}; write for example {example}, or {AT_HOPS}", self.text, offset)


def item_of(select: exp.Select) -> exp.Expr | None:
    """Return the only thing that FROM names, parentheses taken off, or None for a join or no FROM at all."""
    origin = select.args.get("from_")
    item = origin.this if origin and not select.args.get("joins") else None
    while isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table) and not item.args.get("alias"):
        if WINDOW in item.meta:
            break
        item = item.this
    return item if isinstance(item, exp.Table | exp.Subquery) and not item.args.get("joins") else None


def is_over_window(select: exp.Select) -> bool:
    """Tell whether a SELECT reads a window or a subquery that only aggregates can have."""
    item = item_of(select)
    clause = item.meta.get(WINDOW) if item is not None else None
    return bool(clause and clause.has_instances) or isinstance(item, exp.Subquery)


@dataclass(frozen=True)
class Absent:
    """Rows that a row must have no partner among, and what makes one a partner."""

    rel: Rel
    conjuncts: tuple[Expr, ...]
