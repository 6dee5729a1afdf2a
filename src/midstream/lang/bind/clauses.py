"""Clauses: the parts of a statement that the language knows, and those it refuses by name."""

from collections.abc import Collection

from sqlglot import exp

from midstream.lang.syntax.dialect import keyword_offset
from midstream.lang.syntax.place import error_at, offset_of

CLAUSES = {
    "with_": "WITH", "distinct": "DISTINCT", "group": "GROUP BY", "having": "HAVING", "qualify": "QUALIFY",
    "windows": "WINDOW", "order": "ORDER BY", "limit": "LIMIT", "offset": "OFFSET", "into": "INTO",
    "locks": "FOR UPDATE", "sample": "TABLESAMPLE", "pivots": "PIVOT", "laterals": "LATERAL", "by_name": "BY NAME",
}  # fmt: skip
"""What people call the parts of sqlglot's nodes."""

ADVICE = {
    "WITH": "; write what it names where it is read: FROM (SELECT ...) x",
    "ORDER BY": ": results leave in the order of their times, those of a hop in the order of their values; leave it "
    "out and sort where they are read",
    "LIMIT": ": results never end; choose among them with WHERE or HAVING",
    "LATERAL": "; write JOIN (SELECT ... GROUP BY ...) x ON ..., and HOP BY ... at the end",
}
"""What to do instead."""


def refuse_clauses(tree: exp.Expr, known: Collection[str], text: str) -> None:
    """Refuse every part of a node that is not known."""
    for key, value in tree.args.items():
        if value and key not in known:
            word = CLAUSES.get(key, key.upper())
            message = f"{word} is not supported yet{ADVICE.get(word, '')}"
            raise error_at(message, text, keyword_offset(text, word))


def unwrapped(tree: exp.Expr, text: str) -> exp.Expr:
    """Return what stands inside parentheses; nothing may stand after them."""
    while isinstance(tree, exp.Subquery | exp.Paren) and isinstance(tree.this, exp.Expr):
        alias = tree.args.get("alias")
        if alias:
            raise error_at(f"a query in parentheses has no name, but here is '{alias.name}'", text, offset_of(alias))
        refuse_clauses(tree, ("this",), text)
        tree = tree.this
    return tree
