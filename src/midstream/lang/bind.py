"""Bind: a sqlglot tree and the declared streams to a validated query.

FROM and JOIN -> sources in scope    ON, USING, WHERE -> flat conjuncts    SELECT -> named outputs
EXCEPT -> each side bound by itself, then put together
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from sqlglot import exp

from midstream.lang.bind_difference import Item, Side, put_together, sides_of
from midstream.lang.bind_expression import ExpressionBinder
from midstream.lang.clauses import CLAUSES, refuse_clauses, unwrapped
from midstream.lang.dialect import WINDOW, Midstream
from midstream.lang.place import error_at, offset_of
from midstream.lang.scope import Scope, column_of, find_stream
from midstream.lang.window_clause import WindowClause
from midstream.model.errors import PlanError, SqlError
from midstream.model.stream import StreamSchema
from midstream.model.types import INTERVAL, type_name
from midstream.plan.coerce import convert, settle
from midstream.plan.expr import Column, Expr
from midstream.plan.logic import conjuncts
from midstream.plan.query import Output, Query, Source
from midstream.plan.window import RangeWindow, RowsWindow, Window

_BOUND = ("kind", "expressions", "from_", "joins", "where")


def bind(tree: exp.Expr, catalog: Sequence[StreamSchema], text: str = "") -> Query:
    """Return the query a tree asks, over the declared streams; `text` is what it was parsed from."""
    try:
        tree = unwrapped(tree, text)
        if isinstance(tree, exp.SetOperation):
            return put_together([_QueryBinder(catalog, text).side(side) for side in sides_of(tree, text)], text)
        return _QueryBinder(catalog, text).query(tree)
    except PlanError as error:
        raise SqlError(str(error)) from None


class _QueryBinder:
    """One query on its way from tree to plan."""

    def __init__(self, catalog: Sequence[StreamSchema], text: str) -> None:
        self.catalog = catalog
        self.text = text
        self.scope = Scope()
        self.expressions = ExpressionBinder(self.scope, text)
        self.tables: list[exp.Table] = []
        self.conjuncts: list[Expr] = []

    def query(self, tree: exp.Expr) -> Query:
        select = self.sources(tree)
        self.check_windows()
        self.where(select)
        outputs = tuple(Output(item.name, settle(item.expr)) for item in self.items(select))
        return Query(tuple(self.scope.sources), tuple(dict.fromkeys(self.conjuncts)), outputs)

    def side(self, tree: exp.Expr) -> Side:
        """Return one side of a difference."""
        select = self.sources(tree)
        table, *more = self.tables
        name = table.alias_or_name
        if more:
            told = f"each side of EXCEPT reads one stream, but here is '{more[0].alias_or_name}' beside '{name}'"
            self.expressions.refuse(told, more[0])
        if WINDOW not in table.meta:
            told = f"stream '{name}' is in a difference without a window; write for example {_example(table)}"
            self.expressions.refuse(told, table)
        self.where(select)
        return Side(self.scope.sources[0], tuple(dict.fromkeys(self.conjuncts)), list(self.items(select)), table)

    def sources(self, tree: exp.Expr) -> exp.Select:
        """Bring the streams of a SELECT into scope."""
        select = self.check_clauses(tree)
        origin = select.args.get("from_")
        if origin is None:
            raise SqlError("the query reads no stream; FROM is missing")
        self.table(origin.this)
        for join in select.args.get("joins") or ():
            self.join(join)
        return select

    def where(self, select: exp.Select) -> None:
        """Bring the WHERE of a SELECT into the conjuncts."""
        where = select.args.get("where")
        if where:
            self.condition(where.this, "WHERE")

    def check_clauses(self, tree: exp.Expr) -> exp.Select:
        """Refuse every clause that has no meaning here."""
        if not isinstance(tree, exp.Select):
            word = tree.key.upper()
            raise error_at(f"a query is a SELECT, but here is {word}", self.text, offset_of(tree))
        refuse_clauses(tree, _BOUND, self.text)
        return tree

    def table(self, node: exp.Expr) -> None:
        """Bring a stream of FROM into scope."""
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and not node.args.get("alias"):
            return self.table(node.this)  # parentheses around joins
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            what = "table functions are" if isinstance(node, exp.Table) else "subqueries are"
            self.expressions.refuse(f"{what} not supported in FROM", node)
        alias = node.args.get("alias")
        for key, value in node.args.items():
            if value and key not in ("this", "alias", "joins"):
                what = "a name with a dot" if key in ("db", "catalog") else CLAUSES.get(key, key.upper())
                self.expressions.refuse(f"{what} is not supported behind FROM", node)
        if alias and alias.args.get("columns"):
            self.expressions.refuse("renaming the columns of a stream is not supported", alias)
        with self.expressions.at(node.this):
            position = find_stream(node.name, self.catalog)
        stream = self.catalog[position]
        bare = Source(alias.name if alias else stream.name, stream, position)
        window = self.window(bare, node.meta.get(WINDOW))
        with self.expressions.at(alias or node):
            self.scope.add(Source(bare.alias, stream, position, window))
        self.tables.append(node)
        for join in node.args.get("joins") or ():
            self.join(join)

    def window(self, source: Source, clause: WindowClause | None) -> Window | None:
        """Return the window a clause means on a source."""
        if clause is None:
            return None
        try:
            if clause.width_us is not None:
                return RangeWindow(clause.width_us)
            assert clause.rows is not None
            return RowsWindow(clause.rows, tuple(column_of(source, name) for name in clause.partition_by))
        except PlanError as error:
            raise error_at(str(error), self.text, clause.offset) from None

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
            self.condition(condition, "ON")
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

    def condition(self, node: exp.Expr, clause: str) -> None:
        """Split a condition into conjuncts."""
        bound = self.expressions.bind(node)
        if not (pa.types.is_boolean(bound.type) or pa.types.is_null(bound.type)):
            self.expressions.refuse(f"{clause} needs a condition, but {bound} is {type_name(bound.type)}", node)
        self.conjuncts += conjuncts(convert(bound, pa.bool_()))

    def items(self, select: exp.Select) -> Iterator[Item]:
        """Yield the select list with every name decided."""
        items = [(node, *item) for node in select.expressions for item in self.named(node)]
        taken: set[str] = set()
        for node in select.expressions:
            if isinstance(node, exp.Alias):
                if node.alias in taken:
                    self.expressions.refuse(f"two outputs are called '{node.alias}'; rename one", node.args["alias"])
                taken.add(node.alias)
        for node, name, explicit, expr in items:
            free, count = name, 0
            while not explicit and free in taken:
                count += 1
                free = f"{name}_{count}"
            taken.add(free)
            yield Item(free, expr, node)

    def named(self, node: exp.Expr) -> Iterator[tuple[str, bool, Expr]]:
        """Yield name, whether it is an alias, and expression of what one entry of the select list stands for."""
        star = node if isinstance(node, exp.Star) else node.this if isinstance(node, exp.Column) else None
        if isinstance(star, exp.Star):
            if any(star.args.values()):
                self.expressions.refuse("* with EXCLUDE, REPLACE or RENAME is not supported", node)
            with self.expressions.at(node):
                yield from ((c.name, False, c) for c in self.scope.all_columns(node.text("table")))
            return
        named = isinstance(node, exp.Alias)
        inner = node.this if named else node
        expr = self.expressions.bind(inner)
        if expr.type == INTERVAL:
            self.expressions.refuse(f"an INTERVAL cannot be selected; compare it with another: {expr}", inner)
        if named:
            yield node.alias, True, expr
        elif isinstance(inner, exp.Column):
            yield expr.name if isinstance(expr, Column) else inner.name, False, expr
        else:
            yield inner.sql(Midstream, comments=False), False, expr


def _example(table: exp.Table) -> str:
    """Write a stream as it could be written with a window."""
    name = table.alias_or_name
    return f"{table.name} [RANGE 10 SECONDS]{f' {name}' if name != table.name else ''}"
