"""Columns that carry a value from the scans of a tree to its root, so that tuples can be hashed by it.

For each scan one column is chosen that its rows are hashed by. A choice is good when joined, compared and grouped
tuples always agree in it: then every tuple's partners and equals are in its bucket.
"""

from dataclasses import dataclass
from functools import lru_cache

from midstream.plan.algebra import Anti, Distinct, Except, Group, Join, Project, Rel, Scan, Select, Union, Windowed
from midstream.plan.expr import Call, Column
from midstream.plan.window import RowsWindow

MOST_CHOICES = 64
"""Choices that are followed at most; what is beyond them is not found."""


@dataclass(frozen=True)
class Choice:
    """A column for each scan below, and which columns of a relation hold the value they are hashed by."""

    hashed: tuple[tuple[str, Column], ...]
    carried: frozenset[Column]


@lru_cache(maxsize=64)
def columns_to_hash(root: Rel) -> tuple[tuple[str, Column], ...]:
    """Return for each alias the column that its rows can be hashed by, or nothing."""
    found = _choices(root)
    return max(found, key=lambda c: len(c.carried)).hashed if found else ()


def _choices(rel: Rel) -> list[Choice]:
    match rel:
        case Scan(source=source):
            window = source.window
            columns = window.partition_by if isinstance(window, RowsWindow) else rel.columns
            return [Choice(((source.alias, c),), frozenset([c]) & set(rel.columns)) for c in columns]
        case Select(child=child) | Windowed(child=child):
            return _choices(child)
        case Project(child=child, outputs=outputs):
            carried = [
                Choice(c.hashed, frozenset(name for name, expr in outputs if expr in c.carried))
                for c in _choices(child)
            ]
            return _kept(carried)
        case Distinct(child=child):
            return [c for c in _choices(child) if c.carried]
        case Group(child=child, keys=keys):
            grouped = [
                Choice(c.hashed, frozenset(rel.columns[i] for i, k in enumerate(keys) if k in c.carried))
                for c in _choices(child)
            ]
            return _kept([c for c in grouped if c.carried])
        case Join() | Anti():
            return _joined(rel)
        case Except() | Union():
            return _compared(rel)


def _joined(rel: Join | Anti) -> list[Choice]:
    pairs = [
        (a, b) for c in rel.conjuncts if isinstance(c, Call) and c.function == "=" for a, b in (c.args, c.args[::-1])
    ]
    out = []
    for left in _choices(rel.left):
        for right in _choices(rel.right):
            if any(a in left.carried and b in right.carried and a.type == b.type for a, b in pairs):
                carried = left.carried if isinstance(rel, Anti) else left.carried | right.carried
                out.append(Choice((*left.hashed, *right.hashed), carried))
    return _kept(out)


def _compared(rel: Except | Union) -> list[Choice]:
    out = []
    for left in _choices(rel.left):
        for right in _choices(rel.right):
            shared = frozenset(
                c for c, a, b in zip(rel.columns, rel.left.columns, rel.right.columns, strict=True)
                if a in left.carried and b in right.carried
            )  # fmt: skip
            same = left.hashed[0][1].type == right.hashed[0][1].type
            if same and (shared or isinstance(rel, Union)):
                out.append(Choice((*left.hashed, *right.hashed), shared))
    return _kept(out)


def _kept(choices: list[Choice]) -> list[Choice]:
    """Return the most useful choices, those that carry their column on first."""
    return sorted(dict.fromkeys(choices), key=lambda c: -len(c.carried))[:MOST_CHOICES]
