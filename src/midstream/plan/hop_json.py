"""Plans of hopping queries as plain values that JSON can hold, and back: how a plan goes to those who run it.

    plan ──▶ hop, tree, modes, working ──▶ JSON ──▶ the same plan of the same query

What belongs to the query is not written: its streams, how they are split over buckets, aggregates of the user. Whoever
reads a plan has the query, and a plan that reads something else is refused.
"""

from dataclasses import dataclass, replace
from typing import Any

from midstream.model.errors import PlanError
from midstream.plan.algebra import (
    Anti,
    Distinct,
    Except,
    Group,
    Join,
    Project,
    Rel,
    Scan,
    Select,
    Union,
    operators,
    scans,
)
from midstream.plan.expr_json import (
    Written,
    read_column,
    read_expr,
    read_type,
    write_column,
    write_expr,
    write_type,
)
from midstream.plan.hopping import HopPlan, HopQuery
from midstream.plan.query import Source
from midstream.plan.stage import Aggregate, UserAggregate
from midstream.plan.window import RangeWindow, RowsWindow, Window


def write_plan(plan: HopPlan) -> Written:
    """Write a plan."""
    return {
        "hop_us": plan.query.hop_us,
        "root": _write(plan.root),
        "modes": list(plan.modes),
        "working": list(plan.working),
    }


def read_plan(written: Written, query: HopQuery) -> HopPlan:
    """Read a plan of a query; the hop is the one that was written."""
    try:
        root = _Reader(query).rel(written["root"])
        own = replace(query, hop_us=int(written["hop_us"]))
        return HopPlan(own, root, tuple(written["modes"]), tuple(written["working"]))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise PlanError(f"this is no plan of a hopping query: {error!r}") from error


def _write(rel: Rel) -> Written:
    match rel:
        case Scan(source, columns):
            window = _write_window(source.window)
            read = [[c.name, write_type(c.type)] for c in columns]
            return {"scan": source.alias, "stream": source.stream.name, "window": window, "columns": read}
        case Select(child, conjuncts):
            return {"select": _write(child), "where": _exprs(conjuncts)}
        case Project(child, outputs):
            return {"project": _write(child), "outputs": [[write_column(c), write_expr(e)] for c, e in outputs]}
        case Join(left, right, conjuncts):
            return {"join": [_write(left), _write(right)], "on": _exprs(conjuncts)}
        case Anti(left, right, conjuncts):
            return {"anti": [_write(left), _write(right)], "on": _exprs(conjuncts)}
        case Except(left, right, bag):
            return {"except": [_write(left), _write(right)], "all": bag}
        case Union(left, right, columns):
            return {"union": [_write(left), _write(right)], "columns": [write_column(c) for c in columns]}
        case Distinct(child):
            return {"distinct": _write(child)}
        case Group(child, alias, keys, aggregates):
            given = [_write_aggregate(a) for a in aggregates]
            return {"group": _write(child), "alias": alias, "keys": _exprs(keys), "aggregates": given}


def _exprs(exprs: tuple[Any, ...]) -> list[Written]:
    return [write_expr(e) for e in exprs]


def _write_window(window: Window | None) -> Written:
    if isinstance(window, RangeWindow):
        return {"range_us": window.width_us}
    assert isinstance(window, RowsWindow), "a scan has a window of time or rows"
    return {"rows": window.count, "by": [write_column(c) for c in window.partition_by]}


def _read_window(written: Written) -> Window:
    if "range_us" in written:
        return RangeWindow(written["range_us"])
    return RowsWindow(written["rows"], tuple(map(read_column, written["by"])))


def _write_aggregate(aggregate: Aggregate) -> Written:
    argument = None if aggregate.argument is None else write_expr(aggregate.argument)
    told = {"function": aggregate.function, "argument": argument, "type": write_type(aggregate.type)}
    return {**told, "distinct": aggregate.distinct, "user": aggregate.user is not None}


@dataclass(frozen=True)
class _Reader:
    query: HopQuery

    def rel(self, written: Written) -> Rel:
        match written:
            case {"scan": alias, "stream": stream, "window": window, "columns": columns}:
                source = self.source(alias, stream, _read_window(window))
                return Scan(source, tuple(read_column([alias, name, t]) for name, t in columns))
            case {"select": child, "where": conjuncts}:
                return Select(self.rel(child), tuple(map(read_expr, conjuncts)))
            case {"project": child, "outputs": outputs}:
                return Project(self.rel(child), tuple((read_column(c), read_expr(e)) for c, e in outputs))
            case {"join": [left, right], "on": conjuncts}:
                return Join(self.rel(left), self.rel(right), tuple(map(read_expr, conjuncts)))
            case {"anti": [left, right], "on": conjuncts}:
                return Anti(self.rel(left), self.rel(right), tuple(map(read_expr, conjuncts)))
            case {"except": [left, right], "all": bag}:
                return Except(self.rel(left), self.rel(right), bag)
            case {"union": [left, right], "columns": columns}:
                return Union(self.rel(left), self.rel(right), tuple(map(read_column, columns)))
            case {"distinct": child}:
                return Distinct(self.rel(child))
            case {"group": child, "alias": alias, "keys": keys, "aggregates": aggregates}:
                given = tuple(map(self.aggregate, aggregates))
                return Group(self.rel(child), alias, tuple(map(read_expr, keys)), given)
            case _:
                raise PlanError(f"this is no operator: {written}")

    def source(self, alias: str, stream: str, window: Window) -> Source:
        """Return a source that reads what one of the query's does; others would find no rows."""
        for scan in scans(self.query.root):
            if scan.source.stream.name == stream and str(scan.source.window) == str(window):
                return replace(scan.source, alias=alias, window=window)
        raise PlanError(f"the query does not read what '{alias}' does")

    def aggregate(self, written: Written) -> Aggregate:
        argument = None if written["argument"] is None else read_expr(written["argument"])
        user = self.user(written["function"]) if written["user"] else None
        return Aggregate(written["function"], argument, read_type(written["type"]), written["distinct"], user)

    def user(self, name: str) -> UserAggregate:
        """Return the user's aggregate of that name in the query."""
        for rel in operators(self.query.root):
            for aggregate in rel.aggregates if isinstance(rel, Group) else ():
                if aggregate.user is not None and aggregate.function == name:
                    return aggregate.user
        raise PlanError(f"the query has no aggregate {name.upper()}")
