"""The select list: `*` written out, every entry bound and named."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from midstream.lang.bind.expression import ExpressionBinder
from midstream.lang.syntax.dialect import Midstream
from midstream.model.errors import SqlError
from midstream.model.types import INTERVAL
from midstream.plan.expr import Expr


@dataclass(frozen=True)
class Item:
    """An entry of a select list, `*` written out: its name, what it computes, and where it stands."""

    name: str
    expr: Expr
    node: exp.Expr


def star_of(node: exp.Expr) -> exp.Star | None:
    """Return the star of `*` or `alias.*`."""
    star = node.this if isinstance(node, exp.Column) else node
    return star if isinstance(star, exp.Star) else None


def select_items(select: exp.Select, expressions: ExpressionBinder) -> Iterator[Item]:
    """Yield the select list with every name decided."""
    if not select.expressions:
        raise SqlError("a query selects at least one column")
    items = [(node, *item) for node in select.expressions for item in _named(node, expressions)]
    taken: set[str] = set()
    for node in select.expressions:
        if isinstance(node, exp.Alias):
            if node.alias in taken:
                expressions.refuse(f"two outputs are called '{node.alias}'; rename one", node.args["alias"])
            taken.add(node.alias)
    for node, name, explicit, expr in items:
        free, count = name, 0
        while not explicit and free in taken:
            count += 1
            free = f"{name}_{count}"
        taken.add(free)
        yield Item(free, expr, node)


def _named(node: exp.Expr, expressions: ExpressionBinder) -> Iterator[tuple[str, bool, Expr]]:
    """Yield name, whether it is an alias, and expression of what one entry of the select list stands for."""
    star = star_of(node)
    if star is not None:
        if any(star.args.values()):
            expressions.refuse("* with EXCLUDE, REPLACE or RENAME is not supported", node)
        with expressions.at(node):
            for column in expressions.scope.all_columns(node.text("table")):
                yield column.name, False, expressions.whole(column, node)
        return
    named = isinstance(node, exp.Alias)
    inner = node.this if named else node
    expr = expressions.whole(expressions.bind_in(inner, "in this SELECT"), inner)
    if expr.type == INTERVAL:
        expressions.refuse(f"an INTERVAL cannot be selected; compare it with another: {expr}", inner)
    if named:
        yield node.alias, True, expr
    elif isinstance(inner, exp.Column):
        yield expressions.scope.column(inner.name, inner.text("table")).name, False, expr
    else:
        yield inner.sql(Midstream, comments=False), False, expr
