"""Plans as plain values that JSON can hold, and back: the one durable form of a plan, with its query and its streams.

    plan ──▶ format, streams, query, tree, choices ──▶ JSON ──▶ an equal plan

A node is written as {"is": its class, and its fields by name}, a value that JSON lacks as {its type: text}. So another
name of a field or a class is another format. Functions are not written: an aggregate of the user is known by its name,
and whoever reads the plan has the function.
"""

import base64
import datetime as dt
import decimal
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.model.stream import StreamSchema
from midstream.plan import algebra, expr, window
from midstream.plan.aggregates import Aggregate, UserAggregate
from midstream.plan.algebra import Group, Rel, operators
from midstream.plan.plan import Plan
from midstream.plan.query import Query
from midstream.plan.source import Source

FORMAT = 1
"""What is written. A reader that knows another number refuses it."""
Written = dict[str, Any]

CLASSES: dict[str, Callable[..., Any]] = {
    cls.__name__: cls
    for cls in (
        algebra.Scan, algebra.Select, algebra.Project, algebra.Join, algebra.Anti, algebra.Except, algebra.Union,
        algebra.Distinct, algebra.Windowed, algebra.Group, Aggregate, Source, Query, Plan,
        expr.Column, expr.Literal, expr.Call, expr.Cast, expr.Case,
        window.RangeWindow, window.RowsWindow, window.RangeInstances, window.RowsInstances, window.PredicateWindow,
    )
}  # fmt: skip
"""What a written node can be."""
_MICROSECOND = dt.timedelta(microseconds=1)
_AS_TEXT: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    float: ("float", repr, float),
    decimal.Decimal: ("decimal", str, decimal.Decimal),
    dt.date: ("date", dt.date.isoformat, dt.date.fromisoformat),
    dt.datetime: ("datetime", dt.datetime.isoformat, dt.datetime.fromisoformat),
    dt.timedelta: ("timedelta", lambda d: d // _MICROSECOND, lambda us: us * _MICROSECOND),
}
"""How a value that JSON lacks, or would change, is written: its name, to text, from text."""


def write_plan(plan: Plan) -> Written:
    """Write a plan, its query and its streams included."""
    streams = {s.stream.name: s.stream for s in plan.query.sources}
    return {
        "format": FORMAT,
        "streams": {n: {"time": s.time, "columns": write_schema(s.columns)} for n, s in streams.items()},
        "plan": write(plan),
    }


def read_plan(written: Written, aggregates: Mapping[str, UserAggregate] | None = None) -> Plan:
    """Read a plan; `aggregates` are the user's own, by name."""
    try:
        if written["format"] != FORMAT:
            raise PlanError(_other_format(written["format"]))
        streams = {
            name: StreamSchema(name, read_schema(s["columns"]), s["time"]) for name, s in written["streams"].items()
        }
        asked = written["plan"]
        if asked["is"] != "Plan":
            raise PlanError(f"this is no plan: {asked['is']}")
        reader = Reader(streams, {name.lower(): a for name, a in (aggregates or {}).items()})
        return cast(Plan, reader.read(asked))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, AssertionError) as error:
        raise PlanError(f"this is no plan: {error!r}") from error


def _other_format(found: object) -> str:
    newer = isinstance(found, int) and found > FORMAT
    do = "read it with a newer Midstream" if newer else "start the query anew, or read it with the Midstream it is from"
    return f"this plan is written in format {found}, and this Midstream reads format {FORMAT}: {do}"


def own_aggregates(root: Rel) -> dict[str, UserAggregate]:
    """Return the aggregates of the user in a tree, by name."""
    groups = [rel for rel in operators(root) if isinstance(rel, Group)]
    return {a.user.name: a.user for group in groups for a in group.aggregates if a.user is not None}


def write(value: Any) -> Any:
    """Write a value of a plan.

    >>> write(expr.Literal(2.5, pa.float64()))
    {'is': 'Literal', 'value': {'float': '2.5'}, 'type': {'type': 'double'}}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, tuple):
        return [write(v) for v in value]
    if isinstance(value, pa.DataType):
        return {"type": write_type(value)}
    if isinstance(value, StreamSchema):
        return {"stream": value.name}
    if isinstance(value, UserAggregate):
        return {"user": value.name}
    if type(value) in _AS_TEXT:
        name, to_text, _ = _AS_TEXT[type(value)]
        return {name: to_text(value)}
    assert is_dataclass(value), f"a plan holds no {type(value)}"
    # What came later is left out where it says nothing: a plan is written as it was before.
    said = [f for f in fields(value) if not (f.metadata.get("later") and getattr(value, f.name) == f.default)]
    return {"is": type(value).__name__, **{f.name: write(getattr(value, f.name)) for f in said}}


class Reader:
    """Read values of a plan: what they name and do not hold are streams, and aggregates by names in lower case."""

    def __init__(
        self, streams: Mapping[str, StreamSchema] | None = None, aggregates: Mapping[str, UserAggregate] | None = None
    ) -> None:
        self._special: dict[str, Callable[[Any], Any]] = {name: read for name, _, read in _AS_TEXT.values()}
        self._special |= {"type": read_type, "stream": (streams or {}).__getitem__, "user": self._user}
        self._aggregates = aggregates or {}

    def read(self, written: Any) -> Any:
        """Read a value.

        >>> Reader().read(write(expr.Literal(2.5, pa.float64())))
        Literal(value=2.5, type=DataType(double))
        """
        if isinstance(written, list):
            return tuple(map(self.read, written))
        if not isinstance(written, dict):
            return written
        if "is" in written:
            return CLASSES[written["is"]](**{k: self.read(v) for k, v in written.items() if k != "is"})
        ((name, text),) = written.items()
        return self._special[name](text)

    def _user(self, name: str) -> UserAggregate:
        found = self._aggregates.get(name.lower())
        if found is None:
            raise PlanError(f"the plan calls {name.upper()}, an aggregate that is not registered")
        return found


def write_type(t: pa.DataType) -> str:
    """Write a type as text; one that queries cannot use as Arrow writes it."""
    try:
        if read_type(str(t)) == t:
            return str(t)
    except PlanError:
        pass
    return "arrow:" + base64.b64encode(pa.schema([("", t)]).serialize()).decode()


def read_type(text: str) -> pa.DataType:
    """Read a type.

    >>> types = pa.int64(), pa.decimal128(10, 2), pa.timestamp("us", "UTC"), pa.list_(pa.string())
    >>> [str(read_type(write_type(t))) for t in types]
    ['int64', 'decimal128(10, 2)', 'timestamp[us, tz=UTC]', 'list<item: string>']
    """
    if text.startswith("arrow:"):
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text.removeprefix("arrow:")))).field(0).type
    if found := re.fullmatch(r"decimal128\((\d+), (-?\d+)\)", text):
        return pa.decimal128(int(found[1]), int(found[2]))
    if found := re.fullmatch(r"timestamp\[us, tz=(.+)\]", text):
        return pa.timestamp("us", found[1])
    try:
        return pa.type_for_alias(text)
    except ValueError:
        raise PlanError(f"there is no type '{text}'") from None


def write_schema(schema: pa.Schema) -> list[list[Any]]:
    """Write columns: name, type and whether it may be NULL."""
    return [[field.name, write_type(field.type), field.nullable] for field in schema]


def read_schema(written: list[list[Any]]) -> pa.Schema:
    """Read columns."""
    return pa.schema([pa.field(name, read_type(t), nullable) for name, t, nullable in written])
