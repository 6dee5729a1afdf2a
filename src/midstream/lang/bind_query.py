"""Plain queries: a SELECT over windowed streams to sources, conjuncts and outputs.

FROM and JOIN -> sources in scope    ON, USING, WHERE -> flat conjuncts    SELECT -> named outputs
"""

from sqlglot import exp

from midstream.lang.bind_difference import Side
from midstream.lang.bind_expression import ExpressionBinder
from midstream.lang.bind_window import plain_window
from midstream.lang.clauses import refuse_clauses
from midstream.lang.dialect import WINDOW
from midstream.lang.place import error_at
from midstream.lang.scope import Scope, column_of
from midstream.lang.select_list import select_items
from midstream.lang.statement import Statement
from midstream.lang.stream_item import bare_source
from midstream.model.errors import SqlError
from midstream.plan.coerce import settle
from midstream.plan.expr import Expr
from midstream.plan.logic import conjuncts
from midstream.plan.query import Output, Query, Source

_BOUND = ("kind", "expressions", "from_", "joins", "where")


class QueryBinder:
    """One SELECT without aggregates on its way from tree to plan."""

    def __init__(self, statement: Statement) -> None:
        self.text = statement.text
        self.statement = statement
        self.scope = Scope()
        self.expressions = ExpressionBinder(self.scope, statement)
        self.streams: list[Source] = []
        self.tables: list[exp.Table] = []
        self.conjuncts: list[Expr] = []

    def query(self, select: exp.Select) -> Query:
        """Return the query that a SELECT asks."""
        self.sources(select)
        self.check_windows()
        self.where(select)
        outputs = tuple(Output(item.name, settle(item.expr)) for item in select_items(select, self.expressions))
        return Query(tuple(self.streams), tuple(dict.fromkeys(self.conjuncts)), outputs)

    def side(self, select: exp.Select) -> Side:
        """Return one side of a difference."""
        grouping = self.statement.grouping(select)
        if grouping is not None:
            raise error_at(f"{grouping[0]} is not supported in a difference yet", self.text, grouping[1])
        self.sources(select)
        table, *more = self.tables
        name = table.alias_or_name
        if more:
            told = f"each side of EXCEPT reads one stream, but here is '{more[0].alias_or_name}' beside '{name}'"
            self.expressions.refuse(told, more[0])
        if WINDOW not in table.meta:
            told = f"stream '{name}' is in a difference without a window; write for example {_example(table)}"
            self.expressions.refuse(told, table)
        self.where(select)
        items = list(select_items(select, self.expressions))
        return Side(self.streams[0], tuple(dict.fromkeys(self.conjuncts)), items, table)

    def sources(self, select: exp.Select) -> None:
        """Bring the streams of a SELECT into scope."""
        refuse_clauses(select, _BOUND, self.text)
        origin = select.args.get("from_")
        if origin is None:
            raise SqlError("the query reads no stream; FROM is missing")
        self.table(origin.this)
        for join in select.args.get("joins") or ():
            self.join(join)

    def where(self, select: exp.Select) -> None:
        """Bring the WHERE of a SELECT into the conjuncts."""
        where = select.args.get("where")
        if where:
            self.conjuncts += self.expressions.conjuncts(where.this, "WHERE")

    def table(self, node: exp.Expr) -> None:
        """Bring a stream of FROM into scope."""
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and not node.args.get("alias"):
            if WINDOW in node.meta:
                told = "a window belongs behind a stream or a subquery in FROM"
                raise error_at(told, self.text, node.meta[WINDOW].offset)
            return self.table(node.this)  # parentheses around joins
        bare = bare_source(node, self.expressions)
        assert isinstance(node, exp.Table)
        clause = node.meta.get(WINDOW)
        window = plain_window(clause, bare, self.text) if clause is not None else None
        source = Source(bare.alias, bare.stream, bare.position, window)
        with self.expressions.at(node.args.get("alias") or node):
            self.scope.add(source)
        self.streams.append(source)
        self.tables.append(node)
        for join in node.args.get("joins") or ():
            self.join(join)

    def check_windows(self) -> None:
        """Refuse a joined stream without a window: its state would grow forever."""
        for table in self.tables if len(self.tables) > 1 else ():
            if WINDOW not in table.meta:
                told = f"stream '{table.alias_or_name}' is joined without a window; write for example {_example(table)}"
                self.expressions.refuse(told, table)

    def join(self, node: exp.Expr) -> None:
        """Bring a joined stream into scope, and its condition into the conjuncts."""
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
            self.merge(name, before)

    def merge(self, name: exp.Expr, before: int) -> None:
        """Make a column of USING equal on both sides and one for `*`."""
        with self.expressions.at(name):
            left_scope = Scope()
            left_scope.sources, left_scope.merged = self.scope.sources[:before], self.scope.merged
            left = left_scope.column(name.name)
            right = column_of(self.scope.sources[before], name.name)
            self.conjuncts += conjuncts(self.expressions.equal(left, right))
            self.scope.merged.add((right.alias, right.name))


def _example(table: exp.Table) -> str:
    """Write a stream as it could be written with a window."""
    name = table.alias_or_name
    return f"{table.name} [RANGE 10 SECONDS]{f' {name}' if name != table.name else ''}"
