"""Other aliases for trees and expressions, and for whatever else is made of them."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from midstream.model.stream import StreamSchema
from midstream.plan.aggregates import UserAggregate
from midstream.plan.expr import Column

T = TypeVar("T")

_FIELDS: dict[type, tuple[str, ...]] = {}
"""The fields of a class that may hold aliases."""


def renamed(value: T, to: Mapping[str, str]) -> T:
    """Return a frozen value with other aliases, in every column and every field called `alias` below it.

    >>> import pyarrow as pa
    >>> print(renamed(Column("a", "k", pa.int64()), {"a": "b"}))
    b.k
    """
    return cast(T, _renamed(value, to))


def _renamed(value: Any, to: Mapping[str, str]) -> Any:
    kind = type(value)
    if kind is Column:
        return Column(to[value.alias], value.name, value.type) if value.alias in to else value
    if kind is tuple or kind is frozenset:
        items = [_renamed(v, to) for v in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else kind(items)
    changed = {}
    for name in _FIELDS.get(kind) or _fields(kind):
        before = getattr(value, name)
        after = to.get(before, before) if name == "alias" else _renamed(before, to)
        if after is not before:
            changed[name] = after
    return replace(value, **changed) if changed else value


def _fields(kind: type) -> tuple[str, ...]:
    plain = not is_dataclass(kind) or kind in (StreamSchema, UserAggregate)
    return _FIELDS.setdefault(kind, () if plain else tuple(f.name for f in fields(kind)))
