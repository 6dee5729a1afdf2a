"""Plain queries: a SELECT over windowed streams to sources, conjuncts and outputs.

FROM and JOIN -> sources in scope    ON, USING, WHERE -> flat conjuncts    SELECT -> named outputs
"""

from sqlglot import exp

from midstream.lang.bind_difference import Side
from midstream.lang.bind_expression import ExpressionBinder
from midstream.lang.bind_from import FromBinder
from midstream.lang.bind_window import plain_window
from midstream.lang.dialect import WINDOW
from midstream.lang.place import error_at
from midstream.lang.scope import Scope
from midstream.lang.select_list import select_items
from midstream.lang.statement import Statement
from midstream.lang.stream_item import bare_source, with_window
from midstream.plan.coerce import settle
from midstream.plan.query import Output, Query, Source


class QueryBinder(FromBinder):
    """One SELECT without aggregates on its way from tree to plan."""

    def __init__(self, statement: Statement) -> None:
        scope = Scope()
        super().__init__(statement, scope, ExpressionBinder(scope, statement))
        self.streams: list[Source] = []
        self.tables: list[exp.Table] = []

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
            told = f"stream '{name}' is in a difference without a window; write for example {with_window(table)}"
            self.expressions.refuse(told, table)
        self.where(select)
        items = list(select_items(select, self.expressions))
        return Side(self.streams[0], tuple(dict.fromkeys(self.conjuncts)), items, table)

    def where(self, select: exp.Select) -> None:
        """Bring the WHERE of a SELECT into the conjuncts."""
        where = select.args.get("where")
        if where:
            self.conjuncts += self.expressions.conjuncts(where.this, "WHERE")

    def item(self, node: exp.Expr) -> None:
        """Bring a stream of FROM into scope."""
        bare = bare_source(node, self.expressions)
        assert isinstance(node, exp.Table)
        clause = node.meta.get(WINDOW)
        window = plain_window(clause, bare, self.text) if clause is not None else None
        source = Source(bare.alias, bare.stream, bare.position, window)
        with self.expressions.at(node.args.get("alias") or node):
            self.scope.add(source)
        self.streams.append(source)
        self.tables.append(node)

    def check_windows(self) -> None:
        """Refuse a joined stream without a window: its state would grow forever."""
        for table in self.tables if len(self.tables) > 1 else ():
            if WINDOW not in table.meta:
                told = (
                    f"stream '{table.alias_or_name}' is joined without a window; write for example {with_window(table)}"
                )
                self.expressions.refuse(told, table)
