"""FROM: its streams, subqueries and joins brought into scope, their conditions into the conjuncts."""

from collections.abc import Callable

from sqlglot import exp

from midstream.lang.bind.clauses import ADVICE, CLAUSES, refuse_clauses, unwrapped
from midstream.lang.bind.expression import ExpressionBinder
from midstream.lang.bind.names import Names
from midstream.lang.bind.scope import Relation, Scope, find_stream
from midstream.lang.bind.statement import Statement
from midstream.lang.bind.window import plain_window
from midstream.lang.syntax.dialect import WINDOW, keyword_offset
from midstream.lang.syntax.place import error_at, offset_of
from midstream.model.errors import SqlError
from midstream.plan.algebra import Rel, Scan, schema_of
from midstream.plan.expr import Expr
from midstream.plan.logic import conjuncts
from midstream.plan.source import Source
from midstream.plan.window import RangeWindow, Window

Inner = Callable[[exp.Expr, str], Rel]
"""How a subquery in FROM is bound: its tree and its alias to what it gives, all under one alias."""


class FromBinder:
    """One SELECT whose FROM is being read."""

    def __init__(self, statement: Statement, names: Names, inner: Inner, outer: Scope | None = None) -> None:
        self.text = statement.text
        self.statement = statement
        self.names = names
        self.inner = inner
        self.scope = Scope(outer)
        self.expressions = ExpressionBinder(self.scope, statement)
        self.conjuncts: list[Expr] = []
        self.tables: list[exp.Table] = []
        self.leaves: list[Rel] = []

    def refuse_clauses(self, select: exp.Select) -> None:
        """Refuse what a SELECT cannot have."""
        bound = ("kind", "expressions", "from_", "joins", "where", "group", "having", "distinct")
        refuse_clauses(select, bound, self.text)
        if select.args.get("distinct"):
            self.statement.check("operator", keyword_offset(self.text, "DISTINCT"), word="DISTINCT")

    def sources(self, select: exp.Select) -> None:
        """Bring what a SELECT reads into scope."""
        self.refuse_clauses(select)
        origin = select.args.get("from_")
        if origin is None:
            raise SqlError("the query reads no stream; FROM is missing")
        self.table(origin.this)
        for join in select.args.get("joins") or ():
            self.join(join)

    def table(self, node: exp.Expr) -> None:
        """Bring an item of FROM into scope, with what is joined to it inside parentheses."""
        if is_around_joins(node):
            if WINDOW in node.meta:
                message = "a window belongs after a stream or a subquery in FROM"
                raise error_at(message, self.text, node.meta[WINDOW].offset)
            self.table(node.this)
        else:
            self.item(node)
        for join in node.args.get("joins") or ():
            self.join(join)

    def join(self, node: exp.Expr) -> None:
        """Bring a joined item into scope, and its condition into the conjuncts."""
        words = [str(node.args.get(k) or "").upper() for k in ("method", "side", "kind")]
        kind = " ".join(w for w in words if w)
        if kind not in ("", "INNER", "CROSS"):
            outer = " (outer joins are not supported yet)" if words[1] else ""
            self.expressions.refuse(f"{kind} JOIN is not supported{outer}; use JOIN ... ON", node.this)
        before = len(self.scope.sources)
        self.table(node.this)
        condition = node.args.get("on")
        if condition:
            self.conjuncts += self.expressions.conjuncts(condition, "ON")
        for name in node.args.get("using") or ():
            with self.expressions.at(name):
                both = self.scope.merge(name.name, before)
                self.conjuncts += conjuncts(self.expressions.equal(*both))

    def item(self, node: exp.Expr) -> None:
        """Bring a stream or a subquery of FROM into scope."""
        if not isinstance(node, exp.Subquery):
            self.add_stream(node)
            return
        self.statement.check("join over a subquery", offset_of(node))
        if WINDOW in node.meta:
            self.statement.check("window over a subquery", node.meta[WINDOW].offset)
        self.add_subquery(node, unwrapped(node.this, self.text), node.alias)

    def add_stream(self, node: exp.Expr, windowed: bool = True) -> None:
        """Bring a stream into scope, all of its columns read for now."""
        bare = bare_source(node, self.expressions)
        assert isinstance(node, exp.Table)
        stream, alias = bare.stream, bare.alias
        said = f"stream '{alias}'" if alias == stream.name else f"stream '{stream.name}' ({alias})"
        relation = Relation(alias, self.names.take(alias), stream.columns, said)
        window = self.window(node, relation) if windowed else None
        with self.expressions.at(node.args.get("alias") or node):
            self.scope.add(relation)
        usable = [relation.column(name) for name in stream.columns.names if stream.type_of(name) is not None]
        self.leaves.append(Scan(Source(relation.called, stream, bare.position, window), tuple(usable)))
        self.tables.append(node)

    def window(self, node: exp.Table, stream: Relation) -> Window | None:
        """Return the window of a stream."""
        clause = node.meta.get(WINDOW)
        if clause is None:
            example = with_window(node)
            self.statement.check("stream without a window", offset_of(node), alias=stream.alias, example=example)
            return None
        if clause.has_instances:
            self.statement.check("window that slides", clause.offset, window=clause.called)
        window = plain_window(clause, stream, self.text)
        if window == RangeWindow(0):
            self.statement.check("window of no length", clause.offset, window=window)
        return window

    def add_subquery(self, node: exp.Expr, tree: exp.Expr, alias: str) -> None:
        """Bring a subquery into scope."""
        refuse_renaming(node, self.expressions)
        rel = self.inner(tree, alias)
        called = rel.columns[0].alias
        with self.expressions.at(node.args.get("alias") or node):
            self.scope.add(Relation(alias or called, called, schema_of(rel), f"subquery '{alias or called}'"))
        self.leaves.append(rel)

    def check_windows(self, compared: bool) -> None:
        """Refuse a joined or compared stream without a window, and what is compared when it is joined."""
        first, *more = self.tables
        if compared and more:
            place = offset_of(more[0])
            named = {"other": more[0].alias_or_name, "alias": first.alias_or_name}
            self.statement.check("EXCEPT over a join", place, **named)
        for table in self.tables if compared or more else ():
            if WINDOW not in table.meta:
                used = "in a difference" if compared else "joined"
                message = f"stream '{table.alias_or_name}' is {used} without a window"
                self.expressions.refuse(f"{message}; write for example {with_window(table)}", table)


def is_around_joins(node: exp.Expr) -> bool:
    """Tell whether an item of FROM is parentheses around a join, or around one stream."""
    if not isinstance(node, exp.Subquery) or node.args.get("alias"):
        return False
    inner = node.this
    joined = isinstance(inner, exp.Subquery) and (inner.args.get("alias") or inner.args.get("joins"))
    return isinstance(inner, exp.Table) or bool(joined)


def bare_source(node: exp.Expr, expressions: ExpressionBinder) -> Source:
    """Return the stream that a table of FROM names, without its window."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        words = ((exp.Table, "table functions are"), (exp.Lateral, "LATERAL is"), (exp.Unnest, "UNNEST is"))
        what = next((word for kind, word in words if isinstance(node, kind)), "values are")
        advice = ADVICE["LATERAL"] if isinstance(node, exp.Lateral) else ""
        expressions.refuse(f"{what} not supported in FROM{advice}", node)
    refuse_renaming(node, expressions)
    with expressions.at(node.this):
        catalog = expressions.statement.catalog
        position = find_stream(node.name, catalog)
    alias = node.args.get("alias")
    return Source(alias.name if alias else catalog[position].name, catalog[position], position)


def refuse_renaming(node: exp.Expr, expressions: ExpressionBinder) -> None:
    """Refuse everything that may stand after an item of FROM but for an alias."""
    for key, value in node.args.items():
        if value and key not in ("this", "alias", "joins"):
            what = "a name with a dot" if key in ("db", "catalog") else CLAUSES.get(key, key.upper())
            expressions.refuse(f"{what} is not supported after FROM", node)
    alias = node.args.get("alias")
    if alias and alias.args.get("columns"):
        of = "a stream" if isinstance(node, exp.Table) else "a subquery"
        expressions.refuse(f"renaming the columns of {of} is not supported", alias)


def with_window(table: exp.Table) -> str:
    """Write a stream as it could be written with a window."""
    name = table.alias_or_name
    return f"{table.name} [RANGE 10 SECONDS]{f' {name}' if name != table.name else ''}"
