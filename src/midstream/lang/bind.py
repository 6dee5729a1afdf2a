"""Bind: a sqlglot tree and what is declared to a validated query.

SELECT over streams                          -> a plain query
SELECT of aggregates over a window           -> a stage on top of the query that the window is over
EXCEPT                                       -> each side bound by itself, then put together
anything with HOP BY                         -> a hopping query
"""

from collections.abc import Mapping, Sequence

from sqlglot import exp

from midstream.lang.bind_difference import put_together, sides_of
from midstream.lang.bind_hopping import bind_hopping
from midstream.lang.bind_query import QueryBinder
from midstream.lang.bind_stage import bind_stage, is_staged
from midstream.lang.clauses import unwrapped
from midstream.lang.dialect import HOP
from midstream.lang.place import error_at, offset_of
from midstream.lang.statement import Statement
from midstream.model.errors import PlanError, SqlError
from midstream.model.stream import StreamSchema
from midstream.plan.hopping import HopQuery
from midstream.plan.query import Query
from midstream.plan.stage import UserAggregate


def bind(
    tree: exp.Expr,
    catalog: Sequence[StreamSchema],
    text: str = "",
    aggregates: Mapping[str, UserAggregate] | None = None,
) -> Query:
    """Return the query a tree asks, over the declared streams; `text` is what it was parsed from."""
    if HOP in tree.meta:
        raise error_at("HOP BY is not supported yet for this use of a query", text, tree.meta[HOP].offset)
    query = bind_any(tree, catalog, text, aggregates)
    assert isinstance(query, Query)
    return query


def bind_any(
    tree: exp.Expr,
    catalog: Sequence[StreamSchema],
    text: str = "",
    aggregates: Mapping[str, UserAggregate] | None = None,
) -> Query | HopQuery:
    """Return the query a tree asks, with or without HOP BY."""
    statement = Statement(catalog, text, {name.lower(): a for name, a in (aggregates or {}).items()})
    try:
        return bind_hopping(tree, statement) if HOP in tree.meta else _sliding(tree, statement)
    except PlanError as error:
        raise SqlError(str(error)) from None


def _sliding(tree: exp.Expr, statement: Statement) -> Query:
    text = statement.text
    tree = unwrapped(tree, text)
    if isinstance(tree, exp.SetOperation):
        sides = [QueryBinder(statement).side(_select(side, text)) for side in sides_of(tree, text)]
        return put_together(sides, text)
    return _query(tree, statement)


def _query(tree: exp.Expr, statement: Statement) -> Query:
    select = _select(tree, statement.text)
    if is_staged(select, statement):
        return bind_stage(select, statement, lambda inner: _query(inner, statement))
    return QueryBinder(statement).query(select)


def _select(tree: exp.Expr, text: str) -> exp.Select:
    if not isinstance(tree, exp.Select):
        raise error_at(f"a query is a SELECT, but here is {tree.key.upper()}", text, offset_of(tree))
    return tree
