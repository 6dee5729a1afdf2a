"""A Python builder for queries: the same trees as SQL text through the same binder, so equal plans.

    stream("orders", "a").range("10 seconds").join(...).where(...).select(...).bind(catalog)
    stream("orders").rows(50, slide=10).group_by("k").select("k", total=fn.sum(col("v"))).bind(catalog)

Every step returns a new object.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from midstream.lang.bind.query import bind
from midstream.lang.expression import Expression, When, col, fn, identifier, lit, when
from midstream.lang.syntax.dialect import WINDOW
from midstream.lang.syntax.window_clause import WindowClause
from midstream.model.stream import StreamSchema
from midstream.model.time import parse_duration
from midstream.plan.aggregates import UserAggregate
from midstream.plan.query import Query

__all__ = ["Expression", "QueryBuilder", "When", "col", "fn", "lit", "stream", "when"]

Duration = str | int | dt.timedelta


@dataclass(frozen=True)
class QueryBuilder:
    """Streams with windows, joined and filtered, and what to select from them."""

    tables: tuple[exp.Table | exp.Subquery, ...]
    conditions: tuple[Expression | None, ...]
    filters: tuple[Expression, ...] = ()
    outputs: tuple[Expression, ...] = ()
    groups: tuple[Expression, ...] = ()
    group_filters: tuple[Expression, ...] = ()

    def _last(self, table: exp.Table | exp.Subquery) -> "QueryBuilder":
        return replace(self, tables=(*self.tables[:-1], table))

    def alias(self, name: str) -> "QueryBuilder":
        """Name the stream that was added last."""
        table = self.tables[-1].copy()
        table.set("alias", exp.TableAlias(this=identifier(name)))
        return self._last(table)

    def range(self, width: Duration, slide: Duration | None = None) -> "QueryBuilder":
        """Give the stream that was added last a window in time; one that slides is for aggregates."""
        slide_us = None if slide is None else _duration_us(slide)
        return self._window(WindowClause(width_us=_duration_us(width), slide_us=slide_us))

    def rows(self, count: int, partition_by: Sequence[str] | str = (), slide: int | None = None) -> "QueryBuilder":
        """Give the stream that was added last a window of rows, of the stream or of each key."""
        by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        return self._window(WindowClause(rows=count, partition_by=by, slide=slide))

    def between(self, start: Expression, end: Expression) -> "QueryBuilder":
        """Give the stream that was added last windows from a row with one condition to a row with the other."""
        return self._window(WindowClause(start=start.tree(), end=end.tree()))

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
            (*self.groups, *other.groups),
            (*self.group_filters, *other.group_filters),
        )

    def where(self, *conditions: Expression) -> "QueryBuilder":
        """Keep results for which every condition is true."""
        return replace(self, filters=(*self.filters, *conditions))

    def select(self, *columns: str | Expression, **named: Any) -> "QueryBuilder":
        """Add to the select list: strings are column names, keywords are aliases."""
        plain = [col(c) if isinstance(c, str) else c for c in columns]
        aliased = [(col(v) if isinstance(v, str) else lit(v)).as_(k) for k, v in named.items()]
        return replace(self, outputs=(*self.outputs, *plain, *aliased))

    def group_by(self, *keys: str | Expression) -> "QueryBuilder":
        """Compute the aggregates of each group of rows with the same keys; strings are column names."""
        return replace(self, groups=(*self.groups, *(col(k) if isinstance(k, str) else k for k in keys)))

    def having(self, *conditions: Expression) -> "QueryBuilder":
        """Keep groups for which every condition is true."""
        return replace(self, group_filters=(*self.group_filters, *conditions))

    def results(self, alias: str | None = None) -> "QueryBuilder":
        """Start a query over the results of this one, to give them a window that slides."""
        subquery = exp.Subquery(this=self.tree())
        if alias is not None:
            subquery.set("alias", exp.TableAlias(this=identifier(alias)))
        return QueryBuilder((subquery,), (None,))

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
            select.set("where", exp.Where(this=_all(self.filters).tree()))
        if self.groups:
            select.set("group", exp.Group(expressions=[g.tree() for g in self.groups]))
        if self.group_filters:
            select.set("having", exp.Having(this=_all(self.group_filters).tree()))
        return select

    def bind(self, catalog: Sequence[StreamSchema], aggregates: Mapping[str, UserAggregate] | None = None) -> Query:
        """Return the validated query over the declared streams; `aggregates` are the user's own."""
        return bind(self.tree(), catalog, aggregates=aggregates)


def _all(conditions: Sequence[Expression]) -> Expression:
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return whole


def _duration_us(duration: Duration) -> int:
    return duration // dt.timedelta(microseconds=1) if isinstance(duration, dt.timedelta) else parse_duration(duration)


def stream(name: str, alias: str | None = None) -> QueryBuilder:
    """Start a query with a stream.

    >>> import pyarrow as pa
    >>> orders = StreamSchema("orders", pa.schema([("ts", pa.int64()), ("k", pa.int64())]), "ts")
    >>> print(stream("orders", "a").range("10 seconds").where(col("k") > 5).select("a.k").bind([orders]))
    SELECT a.k
    FROM orders [RANGE 10 SECONDS] a
    WHERE (a.k > 5)
    """
    table = exp.Table(this=identifier(name))
    if alias is not None:
        table.set("alias", exp.TableAlias(this=identifier(alias)))
    return QueryBuilder((table,), (None,))
