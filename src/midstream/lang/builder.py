"""A Python builder for queries: the same trees as SQL text through the same binder, so equal queries.

    stream("orders", "a").range("10 seconds").join(...).where(...).select(...).bind(catalog)
    stream("orders").rows(50, slide=10).group_by("k").select("k", total=fn.sum(col("v"))).bind(catalog)
    first.except_(second).hop("30 seconds", emit="delta").bind(catalog)

Every step returns a new object.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from midstream.lang.bind.query import bind
from midstream.lang.expression import (
    Expression,
    When,
    checked_column,
    checked_condition,
    checked_name,
    col,
    fn,
    identifier,
    lit,
    when,
)
from midstream.lang.syntax.dialect import HOP_CLAUSE, WINDOW, Midstream
from midstream.lang.syntax.hop_clause import HopClause
from midstream.lang.syntax.window_clause import WindowClause
from midstream.model.errors import SqlError
from midstream.model.stream import StreamSchema
from midstream.model.time import parse_duration
from midstream.plan.aggregates import UserAggregate
from midstream.plan.query import COMPLETE, DELTA, Query

__all__ = ["Expression", "QueryBuilder", "When", "col", "fn", "lit", "not_exists", "stream", "when"]

Duration = str | int | dt.timedelta
Item = exp.Table | exp.Subquery


class QueryBuilder:
    """A query in the making: a SELECT, a set operation of queries, or either with hops."""

    def tree(self) -> exp.Expr:
        """Return the sqlglot tree that the same SQL text gives."""
        raise NotImplementedError

    def inner_tree(self) -> exp.Expr:
        """Return the tree for use inside another query."""
        return self.tree()

    def sql(self) -> str:
        """Return the query as SQL text.

        >>> print(stream("orders", "a").range("10 seconds").select("k").hop("5 seconds", emit="delta").sql())
        SELECT k FROM orders [RANGE 10 SECONDS] AS a HOP BY 5 SECONDS EMIT DELTA
        """
        tree = self.tree()
        clause = tree.meta.get(HOP_CLAUSE)
        return tree.sql(Midstream) + (f" {clause}" if clause else "")

    def bind(self, catalog: Sequence[StreamSchema], aggregates: Mapping[str, UserAggregate] | None = None) -> Query:
        """Return the validated query over the declared streams; `aggregates` are the user's own."""
        return replace(bind(self.tree(), catalog, aggregates=aggregates), text=self.sql())

    def results(self, alias: str | None = None) -> "SelectBuilder":
        """Start a query over the results of this one: to select from them, to join them, to give them a window."""
        return SelectBuilder((_named(exp.Subquery(this=self.inner_tree()), alias),), (None,))

    def except_(self, other: "QueryBuilder", keep_all: bool = False) -> "SetBuilder":
        """Take the rows of another query away; `keep_all` counts how often a row comes (EXCEPT ALL)."""
        return SetBuilder(exp.Except, self, _query(other), keep_all)

    def union(self, other: "QueryBuilder", keep_all: bool = False) -> "SetBuilder":
        """Add the rows of another query, every different row once; or with `keep_all`, all of them (UNION ALL)."""
        return SetBuilder(exp.Union, self, _query(other), keep_all)

    def intersect(self, other: "QueryBuilder") -> "SetBuilder":
        """Keep the rows that another query has, too."""
        return SetBuilder(exp.Intersect, self, _query(other))

    def hop(self, every: Duration, emit: str = COMPLETE) -> "HopBuilder":
        """Answer at every multiple of a duration, with the whole result or with what came and went ("delta")."""
        return HopBuilder(self, HopClause(_duration_us(every), COMPLETE), emit)

    def hop_rows(self, count: int, emit: str = COMPLETE) -> "HopBuilder":
        """Answer after every so many rows of all streams together; see `hop`."""
        if _row_count(count) < 1:
            raise SqlError(f"a hop is after one row or more, not {count}")
        return HopBuilder(self, HopClause(None, COMPLETE, rows=count), emit)


@dataclass(frozen=True)
class SetBuilder(QueryBuilder):
    """Two queries put together by a set operation."""

    kind: type[exp.SetOperation]
    left: QueryBuilder
    right: QueryBuilder
    keep_all: bool = False

    def tree(self) -> exp.SetOperation:
        """Return the sqlglot tree that the same SQL text gives."""
        left, right = (
            exp.Subquery(this=q.inner_tree()) if isinstance(q, SetBuilder) else q.inner_tree()
            for q in (self.left, self.right)
        )
        return self.kind(this=left, expression=right, distinct=not self.keep_all)


@dataclass(frozen=True)
class HopBuilder(QueryBuilder):
    """A query that hops: nothing can be added to it."""

    query: QueryBuilder
    every: HopClause
    emit: str

    def tree(self) -> exp.Expr:
        """Return the sqlglot tree that the same SQL text gives."""
        for emit in (COMPLETE, DELTA):
            if self.emit == emit:
                tree = self.query.inner_tree()
                tree.meta[HOP_CLAUSE] = replace(self.every, emit=emit)
                return tree
        raise SqlError(f"emit is '{self.emit}'; a query that hops emits {COMPLETE} or {DELTA}")

    def inner_tree(self) -> exp.Expr:
        """Refuse to be inside another query."""
        raise SqlError("a query hops as a whole: hop comes last, not inside another query")


@dataclass(frozen=True)
class SelectBuilder(QueryBuilder):
    """Streams with windows, joined and filtered, and what to select from them."""

    tables: tuple[Item, ...]
    conditions: tuple[Expression | None, ...]
    filters: tuple[Expression, ...] = ()
    outputs: tuple[Expression, ...] = ()
    groups: tuple[Expression, ...] = ()
    group_filters: tuple[Expression, ...] = ()
    is_distinct: bool = False
    without: frozenset[int] = frozenset()
    """The places of tables that rows must have no partner in."""

    def _last(self, table: Item) -> "SelectBuilder":
        return replace(self, tables=(*self.tables[:-1], table))

    def alias(self, name: str) -> "SelectBuilder":
        """Name the stream that was added last."""
        return self._last(_named(self.tables[-1].copy(), name))

    def range(self, width: Duration, slide: Duration | None = None) -> "SelectBuilder":
        """Give the stream that was added last a window in time; one that slides is for aggregates."""
        slide_us = None if slide is None else _duration_us(slide)
        return self._window(WindowClause(width_us=_duration_us(width), slide_us=slide_us))

    def rows(self, count: int, partition_by: Sequence[str] | str = (), slide: int | None = None) -> "SelectBuilder":
        """Give the stream that was added last a window of rows, of the stream or of each key."""
        names = (partition_by,) if isinstance(partition_by, str) else _listed(partition_by)
        by = tuple((alias, name) for alias, _, name in (checked_name(n).rpartition(".") for n in names))
        rows, step = _row_count(count), None if slide is None else _row_count(slide)
        return self._window(WindowClause(rows=rows, partition_by=by, slide=step))

    def between(self, start: Expression, end: Expression) -> "SelectBuilder":
        """Give the stream that was added last windows from a row with one condition to a row with the other."""
        return self._window(WindowClause(start=checked_condition(start).tree(), end=checked_condition(end).tree()))

    def _window(self, clause: WindowClause) -> "SelectBuilder":
        table = self.tables[-1].copy()
        table.meta[WINDOW] = clause
        return self._last(table)

    def join(self, other: "SelectBuilder", on: Expression | None = None) -> "SelectBuilder":
        """Join the streams of another query, on a condition or, without one, all with all."""
        other, on = _streams(other), None if on is None else checked_condition(on)
        return SelectBuilder(
            (*self.tables, *other.tables),
            (*self.conditions, *other.conditions[:-1], on),
            (*self.filters, *other.filters),
            (*self.outputs, *other.outputs),
            (*self.groups, *other.groups),
            (*self.group_filters, *other.group_filters),
            self.is_distinct or other.is_distinct,
            self.without | {len(self.tables) + place for place in other.without},
        )

    def anti_join(self, other: "SelectBuilder", on: Expression) -> "SelectBuilder":
        """Keep the rows that have no partner in a stream, or in the results of a query."""
        place, tables = len(self.tables), (*self.tables, *_streams(other).tables[:1])
        conditions = (*self.conditions, checked_condition(on))
        return replace(self, tables=tables, conditions=conditions, without=self.without | {place})

    def joined(self) -> "SelectBuilder":
        """Start a query over what is joined so far, columns under their own aliases, to give it a window that slides.

        Conditions are those of the joins; what this query filters and selects is left out.
        """
        first, joins = self._from()
        first.set("joins", joins)
        return SelectBuilder((exp.Subquery(this=first),), (None,))

    def distinct(self) -> "SelectBuilder":
        """Keep every different result once."""
        return replace(self, is_distinct=True)

    def where(self, *conditions: Expression) -> "SelectBuilder":
        """Keep results for which every condition is true."""
        return replace(self, filters=(*self.filters, *map(checked_condition, conditions)))

    def select(self, *columns: str | Expression, **named: Any) -> "SelectBuilder":
        """Add to the select list: strings are column names, keywords are aliases."""
        plain = map(checked_column, columns)
        aliased = [(col(v) if isinstance(v, str) else lit(v)).as_(k) for k, v in named.items()]
        return replace(self, outputs=(*self.outputs, *plain, *aliased))

    def group_by(self, *keys: str | Expression) -> "SelectBuilder":
        """Compute the aggregates of each group of rows with the same keys; strings are column names."""
        return replace(self, groups=(*self.groups, *map(checked_column, keys)))

    def having(self, *conditions: Expression) -> "SelectBuilder":
        """Keep groups for which every condition is true."""
        return replace(self, group_filters=(*self.group_filters, *map(checked_condition, conditions)))

    def _from(self) -> tuple[Item, list[exp.Join]]:
        first, *others = (t.copy() for t in self.tables)
        joins = []
        for place, (table, on) in enumerate(zip(others, self.conditions[1:], strict=True), 1):
            kind = "ANTI" if place in self.without else None
            joins.append(exp.Join(this=table, on=on.tree() if on is not None else None, kind=kind))
        return first, joins

    def tree(self) -> exp.Select:
        """Return the sqlglot tree that the same SQL text gives; without a select list, `*`."""
        first, joins = self._from()
        select = exp.Select(
            expressions=[o.tree() for o in self.outputs] or [exp.Star()],
            from_=exp.From(this=first),
            joins=joins,
        )
        if self.is_distinct:
            select.set("distinct", exp.Distinct())
        if self.filters:
            select.set("where", exp.Where(this=_all(self.filters).tree()))
        if self.groups:
            select.set("group", exp.Group(expressions=[g.tree() for g in self.groups]))
        if self.group_filters:
            select.set("having", exp.Having(this=_all(self.group_filters).tree()))
        return select


def _query(found: Any) -> QueryBuilder:
    """Return a query, if it is one."""
    if not isinstance(found, QueryBuilder):
        raise SqlError(f"a query of the builder is expected, such as stream('orders'), not {found!r}")
    return found


def _streams(found: Any) -> SelectBuilder:
    """Return streams to join, if they are some."""
    if not isinstance(found, SelectBuilder):
        _query(found).inner_tree()  # one that hops says why it cannot
        raise SqlError("what is joined of a set operation are its results(...)")
    return found


def _row_count(found: Any) -> int:
    """Return how many rows a window has, or moves by, if it is a whole number."""
    if type(found) is not int:
        raise SqlError(f"a window has a whole number of rows, not {found!r}")
    return found


def _listed(found: Any) -> tuple[Any, ...]:
    """Return names of columns that are given as a list."""
    if not isinstance(found, Sequence):
        raise SqlError(f"partition_by is the name of a column or a list of names, not {found!r}")
    return tuple(found)


def _all(conditions: Sequence[Expression]) -> Expression:
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return whole


def _duration_us(duration: Duration) -> int:
    return duration // dt.timedelta(microseconds=1) if isinstance(duration, dt.timedelta) else parse_duration(duration)


def stream(name: str, alias: str | None = None) -> SelectBuilder:
    """Start a query with a stream.

    >>> import pyarrow as pa
    >>> orders = StreamSchema("orders", pa.schema([("ts", pa.int64()), ("k", pa.int64())]), "ts")
    >>> print(stream("orders", "a").range("10 seconds").where(col("k") > 5).select("a.k").bind([orders]))
    SELECT a.k
    FROM orders [RANGE 10 SECONDS] a
    WHERE (a.k > 5)
    """
    return SelectBuilder((_named(exp.Table(this=identifier(name)), alias),), (None,))


def not_exists(query: QueryBuilder) -> Expression:
    """Return the condition that a query, which may read the one around it, has no row."""
    return Expression(exp.Not(this=exp.Exists(this=_query(query).inner_tree())))


def _named(item: Item, alias: str | None) -> Item:
    if alias is not None:
        item.set("alias", exp.TableAlias(this=identifier(alias)))
    return item
