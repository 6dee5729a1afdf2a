"""A Python builder for queries: the same trees as SQL text through the same binder, so equal plans.

    stream("orders", "a").range("10 seconds").join(...).where(...).select(...).bind(catalog)

Every step returns a new object.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from midstream.lang.bind import bind
from midstream.lang.dialect import WINDOW
from midstream.lang.expression import Expression, When, col, fn, identifier, lit, when
from midstream.lang.window_clause import WindowClause
from midstream.model.stream import StreamSchema
from midstream.model.time import parse_duration
from midstream.plan.query import Query

__all__ = ["Expression", "QueryBuilder", "When", "col", "fn", "lit", "stream", "when"]


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
        table.set("alias", exp.TableAlias(this=identifier(name)))
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
    table = exp.Table(this=identifier(name))
    if alias is not None:
        table.set("alias", exp.TableAlias(this=identifier(alias)))
    return QueryBuilder((table,), (None,))
