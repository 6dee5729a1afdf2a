"""Plans as plain values that JSON can hold, and back: the one durable form of a plan, with its query and its streams.

    plan ──▶ format, streams, query, tree, choices ──▶ JSON ──▶ an equal plan

Functions are not written: an aggregate of the user is known by its name, and whoever reads the plan has the function.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from midstream.model.errors import PlanError
from midstream.model.stream import StreamSchema
from midstream.plan.aggregates import Aggregate, UserAggregate
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
    Windowed,
    operators,
)
from midstream.plan.json_values import (
    Written,
    read_column,
    read_expr,
    read_schema,
    read_type,
    write_column,
    write_expr,
    write_schema,
    write_type,
)
from midstream.plan.plan import Plan
from midstream.plan.query import Query
from midstream.plan.source import Source
from midstream.plan.window import (
    Instances,
    PredicateWindow,
    RangeInstances,
    RangeWindow,
    RowsInstances,
    RowsWindow,
    Window,
)

FORMAT = 1
"""What is written. A reader that knows another number refuses it."""


def write_plan(plan: Plan) -> Written:
    """Write a plan, its query and its streams included."""
    query = plan.query
    return {
        "format": FORMAT,
        "streams": {s.stream.name: _write_stream(s.stream) for s in query.sources},
        "query": {
            "root": _write(query.root), "when": query.when, "emit": query.emit, "hop_us": query.hop_us,
            "text": query.text,
        },
        "root": None if plan.root == query.root else _write(plan.root),
        "modes": list(plan.modes),
        "working": list(plan.working),
        "method": plan.method,
    }  # fmt: skip


def read_plan(written: Written, aggregates: Mapping[str, UserAggregate] | None = None) -> Plan:
    """Read a plan; `aggregates` are the user's own, by name."""
    try:
        found = written["format"]
        if found != FORMAT:
            raise PlanError(_other_format(found))
        streams = {name: _read_stream(name, s) for name, s in written["streams"].items()}
        reader = _Reader(streams, {name.lower(): a for name, a in (aggregates or {}).items()})
        asked = written["query"]
        root = reader.rel(asked["root"])
        query = Query(root, asked["when"], asked["emit"], asked["hop_us"], asked["text"])
        own = root if written["root"] is None else reader.rel(written["root"])
        return Plan(query, own, tuple(written["modes"]), tuple(written["working"]), written["method"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise PlanError(f"this is no plan: {error!r}") from error


def _other_format(found: object) -> str:
    newer = isinstance(found, int) and found > FORMAT
    do = "read it with a newer Midstream" if newer else "start the query anew, or read it with the Midstream it is from"
    return f"this plan is written in format {found}, and this Midstream reads format {FORMAT}: {do}"


def own_aggregates(root: Rel) -> dict[str, UserAggregate]:
    """Return the aggregates of the user in a tree, by name."""
    return {a.user.name: a.user for a in _aggregates(root) if a.user is not None}


def _aggregates(root: Rel) -> Iterator[Aggregate]:
    for rel in operators(root):
        yield from rel.aggregates if isinstance(rel, Group) else ()


def _write_stream(stream: StreamSchema) -> Written:
    return {"time": stream.time, "columns": write_schema(stream.columns)}


def _read_stream(name: str, written: Written) -> StreamSchema:
    return StreamSchema(name, read_schema(written["columns"]), written["time"])


def _write(rel: Rel) -> Written:
    match rel:
        case Scan(source, columns):
            window = None if source.window is None else _write_window(source.window)
            read = [[c.name, write_type(c.type)] for c in columns]
            return {"scan": source.alias, "stream": source.stream.name, "position": source.position, "window": window,
                    "columns": read}  # fmt: skip
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
        case Windowed(child, instances):
            return {"windowed": _write(child), "window": _write_window(instances)}
        case Group(child, alias, keys, aggregates):
            made = [_write_aggregate(a) for a in aggregates]
            return {"group": _write(child), "alias": alias, "keys": _exprs(keys), "aggregates": made}


def _exprs(exprs: tuple[Any, ...]) -> list[Written]:
    return [write_expr(e) for e in exprs]


def _write_window(window: Window | Instances) -> Written:
    match window:
        case RangeWindow(width_us):
            return {"range_us": width_us}
        case RowsWindow(count, partition_by):
            return {"rows": count, "by": [write_column(c) for c in partition_by]}
        case RangeInstances(width_us, slide_us):
            return {"range_us": width_us, "slide_us": slide_us}
        case RowsInstances(count, slide, partition_by):
            return {"rows": count, "slide": slide, "by": [write_column(c) for c in partition_by]}
        case PredicateWindow(start, end):
            return {"start": write_expr(start), "end": write_expr(end)}


def _read_window(written: Written) -> Window:
    if "range_us" in written:
        return RangeWindow(written["range_us"])
    return RowsWindow(written["rows"], tuple(map(read_column, written["by"])))


def _read_instances(written: Written) -> Instances:
    if "start" in written:
        return PredicateWindow(read_expr(written["start"]), read_expr(written["end"]))
    if "range_us" in written:
        return RangeInstances(written["range_us"], written["slide_us"])
    return RowsInstances(written["rows"], written["slide"], tuple(map(read_column, written["by"])))


def _write_aggregate(aggregate: Aggregate) -> Written:
    argument = None if aggregate.argument is None else write_expr(aggregate.argument)
    return {
        "function": aggregate.function, "argument": argument, "type": write_type(aggregate.type),
        "distinct": aggregate.distinct, "user": aggregate.user is not None,
    }  # fmt: skip


@dataclass(frozen=True)
class _Reader:
    """What a tree names and does not hold: streams, and aggregates of the user by their names in lower case."""

    streams: Mapping[str, StreamSchema]
    aggregates: Mapping[str, UserAggregate]

    def rel(self, written: Written) -> Rel:
        match written:
            case {"scan": alias, "stream": stream, "position": position, "window": window, "columns": columns}:
                own = None if window is None else _read_window(window)
                source = Source(alias, self.streams[stream], position, own)
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
            case {"windowed": child, "window": window}:
                return Windowed(self.rel(child), _read_instances(window))
            case {"group": child, "alias": alias, "keys": keys, "aggregates": aggregates}:
                made = tuple(map(self.aggregate, aggregates))
                return Group(self.rel(child), alias, tuple(map(read_expr, keys)), made)
            case _:
                raise PlanError(f"this is no operator: {written}")

    def aggregate(self, written: Written) -> Aggregate:
        argument = None if written["argument"] is None else read_expr(written["argument"])
        user = self.user(written["function"]) if written["user"] else None
        return Aggregate(written["function"], argument, read_type(written["type"]), written["distinct"], user)

    def user(self, name: str) -> UserAggregate:
        """Return the user's aggregate of that name."""
        found = self.aggregates.get(name.lower())
        if found is None:
            raise PlanError(f"the plan calls {name.upper()}, an aggregate that is not registered")
        return found
