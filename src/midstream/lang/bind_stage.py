"""Stages: a SELECT of aggregates over a window that slides, to a stage on top of what the window is over.

FROM item [window]  -> WHERE -> GROUP BY -> SELECT, HAVING
item: a stream      -> a base query of the columns that the stage reads
item: a subquery    -> bound by itself, the stage on top of its own
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from midstream.lang.bind_expression import ExpressionBinder
from midstream.lang.bind_group import GroupBinder
from midstream.lang.bind_window import JOIN_EXAMPLE, instances
from midstream.lang.clauses import refuse_clauses, unwrapped
from midstream.lang.dialect import WINDOW
from midstream.lang.place import error_at, offset_of
from midstream.lang.scope import Level, Relation, Scope
from midstream.lang.select_list import select_items
from midstream.lang.statement import Statement
from midstream.lang.stream_item import bare_source, refuse_renaming
from midstream.lang.window_clause import WindowClause
from midstream.model.errors import SqlError
from midstream.plan.coerce import settle
from midstream.plan.query import Query, Source, read_outputs
from midstream.plan.stage import Stage, StageOutput
from midstream.plan.window import Instances

_BOUND = ("kind", "expressions", "from_", "joins", "where", "group", "having")

Inner = Callable[[exp.Expr], Query]
"""How a subquery is bound."""


def item_of(select: exp.Select) -> exp.Expr | None:
    """Return the only thing that FROM names, parentheses taken off, or None for a join or no FROM at all."""
    origin = select.args.get("from_")
    item = origin.this if origin and not select.args.get("joins") else None
    while isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table) and not item.args.get("alias"):
        if WINDOW in item.meta:
            break
        item = item.this
    return item if isinstance(item, exp.Table | exp.Subquery) and not item.args.get("joins") else None


def is_staged(select: exp.Select, statement: Statement) -> bool:
    """Tell whether a SELECT has aggregates, or a window or a subquery that only aggregates can have."""
    if statement.grouping(select):
        return True
    item = item_of(select)
    clause = item.meta.get(WINDOW) if item is not None else None
    return bool(clause and clause.has_instances) or isinstance(item, exp.Subquery)


def bind_stage(select: exp.Select, statement: Statement, inner: Inner) -> Query:
    """Return the query of a SELECT of aggregates."""
    return _StageBinder(select, statement).query(inner)


class _StageBinder:
    """One SELECT of aggregates on its way from tree to plan."""

    def __init__(self, select: exp.Select, statement: Statement) -> None:
        self.select = select
        self.statement = statement
        self.scope = Scope()
        self.rows = ExpressionBinder(self.scope, statement)
        self.groups = GroupBinder(self.rows)

    def query(self, inner: Inner) -> Query:
        refuse_clauses(self.select, _BOUND, self.rows.text)
        below, relation, clause = self.item(inner)
        self.scope.add(relation)
        grouping = self.statement.grouping(self.select)
        if grouping is None:
            list(select_items(self.select, self.rows))  # whatever else is wrong comes first
            self.refuse_no_aggregate(clause)
        stage = self.stage(relation.alias, instances(clause, relation, self.rows, grouping[0]))
        if not stage.keys and not stage.aggregates:
            self.refuse_no_aggregate(clause)
        if isinstance(below, Source):
            return Query((below,), (), read_outputs(below, stage), stages=(stage,))
        return replace(below, stages=(*below.stages, stage))

    def stage(self, alias: str, window: Instances) -> Stage:
        """Return what WHERE, GROUP BY, SELECT and HAVING make of the instances of a window."""
        where = self.select.args.get("where")
        conjuncts = tuple(dict.fromkeys(self.rows.conjuncts(where.this, "WHERE"))) if where else ()
        grouped = self.groups.grouped(self.select)
        outputs = tuple(StageOutput(i.name, settle(i.expr)) for i in grouped.items)
        return Stage(alias, window, conjuncts, grouped.keys, grouped.aggregates, grouped.having, outputs)

    def item(self, inner: Inner) -> tuple[Source | Query, Relation, WindowClause]:
        """Return what the window is over, under which name it is read, and the window as written."""
        item = item_of(self.select)
        if item is None:
            self.refuse_from()
        clause = item.meta.get(WINDOW)
        if clause is None:
            self.refuse_no_window(item)
        if isinstance(item, exp.Table):
            source = bare_source(item, self.rows)
            return source, source, clause
        tree = unwrapped(item.this, self.rows.text)
        if isinstance(tree, exp.Table):
            raise error_at("a window belongs behind a stream or a subquery in FROM", self.rows.text, clause.offset)
        if isinstance(tree, exp.SetOperation):
            self.rows.refuse("a window over UNION, INTERSECT or EXCEPT is not supported yet", tree)
        refuse_renaming(item, self.rows)
        below = inner(tree)
        return below, Level(item.alias or _free_alias(below), below.schema), clause

    def refuse_no_aggregate(self, clause: WindowClause) -> NoReturn:
        """Say that the instances of a window are for aggregates."""
        if clause.has_instances:
            told = "a window that slides needs an aggregate; write for example SELECT COUNT(*)"
        else:
            told = "a subquery in FROM needs a window that slides, and aggregates over it"
        raise error_at(told, self.rows.text, clause.offset)

    def refuse_from(self) -> NoReturn:
        """Say why FROM is nothing that aggregates can be over."""
        origin = self.select.args.get("from_")
        if origin is None:
            raise SqlError("the query reads no stream; FROM is missing")
        for table in self.select.find_all(exp.Table):
            clause = table.meta.get(WINDOW)
            if clause is not None and clause.has_instances:
                told = f"a window that slides is for aggregates; {JOIN_EXAMPLE}"
                raise error_at(told, self.rows.text, clause.offset)
        word, offset = self.statement.grouping(self.select) or ("an aggregate", offset_of(origin))
        raise error_at(f"{word} reads one stream or subquery; {JOIN_EXAMPLE}", self.rows.text, offset)

    def refuse_no_window(self, item: exp.Expr) -> NoReturn:
        """Say which window is missing."""
        word, offset = self.statement.grouping(self.select) or (None, None)
        if isinstance(item, exp.Subquery):
            example = f"(SELECT ...) [ROWS 10 SLIDE 5]{f' {item.alias}' if item.alias else ''}"
            told = "a subquery in FROM needs a window that slides, and aggregates over it"
            self.rows.refuse(f"{told}; write for example FROM {example}", item)
        name = bare_source(item, self.rows).alias
        example = f"{item.name} [ROWS 50 SLIDE 1]{f' {name}' if name != item.name else ''}"
        told = f"{word} needs a window that slides, and stream '{name}' has none; write for example {example}"
        raise error_at(told, self.rows.text, offset)


def _free_alias(below: Query) -> str:
    """Return a name for a subquery that has none."""
    taken = {*below.aliases, *(s.alias for s in below.stages)}
    return next(name for name in ("t", *(f"t{k}" for k in range(1, len(taken) + 2))) if name not in taken)
