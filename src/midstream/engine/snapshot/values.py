"""Values of a snapshot: what never changes and is no state, plans and types above all, as text and back.

    value ──▶ ["its class", its fields...] ──▶ JSON ──▶ an equal value

A value has the same text in every micro-batch, so a process keeps both beside each other: what was written once, or
read, costs no more than looking it up. Functions of the user are not written: whoever reads has them, by name.
"""

import datetime as dt
import decimal
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import pyarrow as pa

from midstream.engine.snapshot.classes import NAMES, VALUES
from midstream.model.errors import StateError
from midstream.operators.aggregate.functions import AggregateSpec
from midstream.plan.aggregates import UserAggregate
from midstream.plan.json import read_schema, read_type, write_schema, write_type

Own = Mapping[str, UserAggregate]
"""The aggregates of the user, by the names a plan has for them."""
MOST_KEPT = 20_000
"""Values whose text a process keeps."""

_MICROSECOND = dt.timedelta(microseconds=1)
_SPECIAL: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    decimal.Decimal: ("decimal", str, decimal.Decimal),
    dt.date: ("date", dt.date.isoformat, dt.date.fromisoformat),
    dt.datetime: ("datetime", dt.datetime.isoformat, dt.datetime.fromisoformat),
    dt.timedelta: ("timedelta", lambda d: d // _MICROSECOND, lambda us: us * _MICROSECOND),
    bytes: ("bytes", bytes.hex, bytes.fromhex),
    pa.Schema: ("schema", write_schema, read_schema),
}
"""How a value that is no object of ours is written: its name, to what JSON has, and from it."""
_READ: dict[str, Callable[[Any], Any]] = {name: read for name, _, read in _SPECIAL.values()} | {"type": read_type}
_FIELDS = {cls: tuple(f.name for f in fields(cls)) for cls in VALUES.values()}
_PLAIN = (bool, int, float, str, type(None))

_texts: dict[int, tuple[Any, bytes]] = {}
"""The text of values by their identity, each kept with its value, so that nothing else takes that identity."""
_values: dict[bytes, Any] = {}


def is_value(cls: type) -> bool:
    """Tell whether objects of a class are values."""
    return (cls in NAMES and NAMES[cls] in VALUES) or cls in _SPECIAL or issubclass(cls, pa.DataType)


def write_value(value: Any) -> bytes:
    """Return the text of a value."""
    known = _texts.get(id(value))
    if known is None:
        text = json.dumps(_write(value), separators=(",", ":")).encode()
        if len(_texts) >= MOST_KEPT:
            _texts.clear()
        known = _texts[id(value)] = value, text
    return known[1]


def read_value(text: bytes, own: Own) -> Any:
    """Return the value of a text; equal texts give the same one, unless it has a function of the user."""
    found = _values.get(text)
    if found is None:
        reader = _Reader(own)
        found = reader.read(json.loads(text))
        if not reader.personal:
            if len(_values) >= MOST_KEPT:
                _values.clear()
            _values[text] = found
            if len(_texts) < MOST_KEPT:
                _texts[id(found)] = found, text
    return found


def _write(value: Any) -> Any:
    cls = type(value)
    if cls in _PLAIN:
        return value
    if cls in _FIELDS:
        if cls is UserAggregate:
            return ["user", value.name]
        return [NAMES[cls], *(_write(_field(value, name)) for name in _FIELDS[cls])]
    if cls in _SPECIAL:
        name, write, _ = _SPECIAL[cls]
        return [name, write(value)]
    if isinstance(value, pa.DataType):
        return ["type", write_type(value)]
    if cls is tuple or cls is list:
        return [cls.__name__, *map(_write, value)]
    if cls is dict:
        return ["dict", *([_write(k), _write(v)] for k, v in value.items())]
    if cls is frozenset:
        return ["frozenset", *sorted(map(_write, value), key=json.dumps)]
    raise StateError(f"a value in a state holds {cls.__module__}.{cls.__qualname__}, which cannot be written")


def _field(value: Any, name: str) -> Any:
    """Return a field; of a function of the user, which has a name, only whether there is one."""
    held = getattr(value, name)
    return held is not None or None if type(value) is AggregateSpec and name == "user" else held


class _Reader:
    """Reads the parts of a value."""

    def __init__(self, own: Own) -> None:
        self._own = own
        self.personal = False
        """It has a function of the user."""

    def read(self, written: Any) -> Any:
        """Return what was written."""
        if not isinstance(written, list):
            return written
        kind, *parts = written
        cls = VALUES.get(kind)
        if cls is AggregateSpec and parts[-1] is not None:
            function, argument, t, distinct = map(self.read, parts[:-1])
            return AggregateSpec(function, argument, t, distinct, self._user(function).function)
        if cls is not None:
            if len(parts) != len(_FIELDS[cls]):
                raise StateError(f"a written {kind} has {len(parts)} fields, not {len(_FIELDS[cls])}")
            return cls(*map(self.read, parts))
        if kind in _READ:
            return _READ[kind](parts[0])
        match kind:
            case "tuple":
                return tuple(map(self.read, parts))
            case "list":
                return list(map(self.read, parts))
            case "dict":
                return {self.read(k): self.read(v) for k, v in parts}
            case "frozenset":
                return frozenset(map(self.read, parts))
            case "user":
                return self._user(parts[0])
        raise StateError(f"there is no value of kind {kind!r}")

    def _user(self, name: str) -> UserAggregate:
        self.personal = True
        if name not in self._own:
            raise StateError(f"a state needs the aggregate {name.upper()}, which is not registered")
        return self._own[name]
