"""An item of FROM that is a stream: its name looked up, its alias read, whatever else stands behind it refused."""

from sqlglot import exp

from midstream.lang.bind.clauses import CLAUSES
from midstream.lang.bind.expression import ExpressionBinder
from midstream.lang.bind.scope import find_stream
from midstream.plan.source import Source


def bare_source(node: exp.Expr, expressions: ExpressionBinder) -> Source:
    """Return the stream that a table of FROM names, without its window."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        told = f"{'table functions' if isinstance(node, exp.Table) else 'values'} are not supported in FROM"
        if isinstance(node, exp.Subquery):
            told = "a subquery in FROM is for aggregates over a window that slides; joins and differences read streams"
        expressions.refuse(told, node)
    refuse_renaming(node, expressions)
    with expressions.at(node.this):
        catalog = expressions.statement.catalog
        position = find_stream(node.name, catalog)
    alias = node.args.get("alias")
    return Source(alias.name if alias else catalog[position].name, catalog[position], position)


def refuse_renaming(node: exp.Expr, expressions: ExpressionBinder) -> None:
    """Refuse everything that may stand behind an item of FROM but for an alias."""
    for key, value in node.args.items():
        if value and key not in ("this", "alias", "joins"):
            what = "a name with a dot" if key in ("db", "catalog") else CLAUSES.get(key, key.upper())
            expressions.refuse(f"{what} is not supported behind FROM", node)
    alias = node.args.get("alias")
    if alias and alias.args.get("columns"):
        of = "a stream" if isinstance(node, exp.Table) else "a subquery"
        expressions.refuse(f"renaming the columns of {of} is not supported", alias)


def with_window(table: exp.Table) -> str:
    """Write a stream as it could be written with a window."""
    name = table.alias_or_name
    return f"{table.name} [RANGE 10 SECONDS]{f' {name}' if name != table.name else ''}"
