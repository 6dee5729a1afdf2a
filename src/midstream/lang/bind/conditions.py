"""Conditions: which of them NOT EXISTS makes, and where they stand among joins."""

from collections.abc import Iterator, Sequence

from sqlglot import exp

from midstream.plan.algebra import Join, Rel, Select
from midstream.plan.expr import Expr, aliases


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
