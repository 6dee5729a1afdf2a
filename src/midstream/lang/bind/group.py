"""Groups: expressions over the keys of GROUP BY and the aggregates of a SELECT.

SUM(v) / COUNT(*) + k   ->   rows: v, k   ->   groups: agg0 / agg1 + key0
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from midstream.lang.bind.expression import ExpressionBinder
from midstream.lang.bind.scope import find_name
from midstream.lang.bind.select_list import Item, select_items, star_of
from midstream.lang.syntax.dialect import keyword_offset
from midstream.lang.syntax.place import error_at
from midstream.model.errors import PlanError
from midstream.model.types import INTERVAL
from midstream.plan.aggregates import Aggregate, aggregate, find_aggregate
from midstream.plan.coerce import settle
from midstream.plan.expr import Column, Expr, Literal, Shown, columns, replace_columns
from midstream.plan.parts import GROUPS


@dataclass(frozen=True)
class Grouped:
    """What GROUP BY, SELECT and HAVING make of rows; `items` and `having` read keys and aggregates under GROUPS."""

    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]
    items: tuple[Item, ...]
    having: tuple[Expr, ...]


class GroupBinder(ExpressionBinder):
    """Bind what is computed from groups; `rows` binds what is computed from rows.

    Invariant: `loose` are the columns met so far that are neither in a key nor in an aggregate.
    """

    def __init__(self, rows: ExpressionBinder) -> None:
        super().__init__(rows.scope, rows.statement)
        self.rows = rows
        self.keys: list[Expr] = []
        self.aggregates: list[Aggregate] = []
        self.names: dict[str, Expr] = {}
        """What the names of the select list stand for, for HAVING."""
        self.loose: list[exp.Expr] = []

    def grouped(self, select: exp.Select) -> Grouped:
        """Return what the groups of a SELECT are and what is made of them."""
        group, having = select.args.get("group"), select.args.get("having")
        if group:
            self.add_keys(group, select.expressions)
        items = list(select_items(select, self))
        self.names = {i.name: i.expr for i in items if isinstance(i.node, exp.Alias)}
        kept = self.conjuncts(having.this, "HAVING") if having else []
        aggregates, exprs = self.numbered([*(i.expr for i in items), *kept])
        entries = tuple(replace(i, expr=e) for i, e in zip(items, exprs, strict=False))
        return Grouped(tuple(self.keys), aggregates, entries, tuple(dict.fromkeys(exprs[len(items) :])))

    def add_keys(self, group: exp.Expr, entries: Sequence[exp.Expr]) -> None:
        """Add the keys of GROUP BY: expressions of rows, or names or places of entries of the select list."""
        for part, value in group.args.items():
            if value and part != "expressions":
                place = keyword_offset(self.text, "GROUP BY")
                raise error_at(f"GROUP BY {part.upper()} is not supported yet", self.text, place)
        for node in group.expressions:
            with self.at(node):
                key = settle(self.rows.bind_in(self._meant(node, entries), "in GROUP BY"))
                if key.type == INTERVAL:
                    raise PlanError(f"GROUP BY does not take an INTERVAL: {key}")
            if key not in self.keys:
                self.keys.append(key)

    def _meant(self, node: exp.Expr, entries: Sequence[exp.Expr]) -> exp.Expr:
        """Return the tree that an entry of GROUP BY stands for."""
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.name) if node.name.isdecimal() and len(node.name) < 10 else 0
            if not 1 <= place <= len(entries) or any(star_of(e) for e in entries):
                raise PlanError(f"GROUP BY {node.name} is no place in the select list")
            return entries[place - 1].unalias()
        if isinstance(node, exp.Column) and not node.text("table") and not self.scope.has(node.name):
            named = {e.alias: e.this for e in entries if isinstance(e, exp.Alias)}
            found = find_name(node.name, list(named))
            return node if found is None else named[found]
        return node

    def bind(self, node: exp.Expr) -> Expr:
        """Return the typed expression a tree means; what is a key of the groups is read from there."""
        before = len(self.loose)
        bound = super().bind(node)
        key = self._key(bound)
        if key is None:
            return bound
        del self.loose[before:]
        return key

    def _key(self, bound: Expr) -> Expr | None:
        # A part of it may be a key, too, and read from the groups already.
        of_rows = replace_columns(bound, self._of_rows) if self.keys else bound
        if isinstance(of_rows, Literal) or of_rows not in self.keys:
            return None
        return Shown(GROUPS, f"key{self.keys.index(of_rows)}", of_rows.type, str(of_rows))

    def _of_rows(self, column: Column) -> Expr:
        is_key = isinstance(column, Shown) and column.name.startswith("key")
        return self.keys[int(column.name.removeprefix("key"))] if is_key else column

    def column(self, node: exp.Expr) -> Expr:
        if not node.text("table") and not self.scope.has(node.name):
            found = find_name(node.name, list(self.names))
            if found is not None:
                return self.names[found]
        bound = super().column(node)
        self.loose.append(node)
        return bound

    def aggregate(self, node: exp.Expr) -> Expr:
        arguments = list(node.expressions)
        distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
        if distinct:
            arguments = list(arguments[0].expressions)
        name = node.name
        find_aggregate(name, self.statement.aggregates)
        if len(arguments) != 1:
            raise PlanError(f"{name.upper()} takes 1 argument, not {len(arguments)}")
        star = star_of(arguments[0]) is not None and not arguments[0].text("table")
        argument = None if star else self.rows.bind_in(arguments[0], "inside another aggregate")
        call = aggregate(name, argument, distinct, self.statement.aggregates)
        if call not in self.aggregates:
            self.aggregates.append(call)
        return Shown(GROUPS, f"agg{self.aggregates.index(call)}", call.type, str(call))

    def whole(self, expr: Expr, node: exp.Expr) -> Expr:
        """Return an expression over groups; refuse one that reads single rows."""
        loose = self.loose[:1]
        self.loose.clear()
        if star_of(node) is not None:
            key = self._key(expr)
            if key is not None:
                return key
            self.refuse(f"{expr} is neither in GROUP BY nor inside an aggregate", node)
        if loose:
            column = loose[0].sql("duckdb")
            self.refuse(f"column '{column}' is neither in GROUP BY nor inside an aggregate", loose[0])
        return expr

    def numbered(self, exprs: Sequence[Expr]) -> tuple[tuple[Aggregate, ...], list[Expr]]:
        """Return the aggregates that expressions read, in that order, and the expressions with them numbered so."""
        read = dict.fromkeys(c.name for e in exprs for c in columns(e) if c.name.startswith("agg"))
        place = {name: f"agg{k}" for k, name in enumerate(read)}
        found = tuple(self.aggregates[int(name.removeprefix("agg"))] for name in read)
        return found, [replace_columns(e, lambda c: Column(c.alias, place.get(c.name, c.name), c.type)) for e in exprs]
