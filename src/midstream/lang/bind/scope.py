"""Names in scope: which stream and column a name in a query means.

A name matches exactly first, else without regard to case when that is unique.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.model.stream import StreamSchema
from midstream.model.types import storage_type
from midstream.plan.expr import Column
from midstream.plan.functions import closest


def find_name(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that a name stands for.

    >>> find_name("ORDERS", ["orders", "prices"]), find_name("k", ["K", "k"]), find_name("X", ["x", "x "])
    ('orders', 'k', 'x')
    """
    if name in known:
        return name
    alike = [k for k in known if k.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def find_stream(name: str, catalog: Sequence[StreamSchema]) -> int:
    """Return the position of a stream in the catalog."""
    names = [s.name for s in catalog]
    found = find_name(name, names)
    if found is None:
        known = f"the streams are {', '.join(names)}" if names else "no stream is declared"
        raise PlanError(f"there is no stream '{name}'; {known}{closest(name, names)}")
    return names.index(found)


@dataclass(frozen=True)
class Relation:
    """A stream, or the results of a subquery, read under an alias; the algebra knows its columns under `called`."""

    alias: str
    called: str
    schema: pa.Schema
    said: str
    """What errors call it."""

    @property
    def names(self) -> list[str]:
        """Return the names of the columns, in order."""
        return list(self.schema.names)

    def column(self, name: str) -> Column:
        """Return the column that a name means."""
        found = find_name(name, self.names)
        if found is None:
            known = f"its columns are {', '.join(self.names)}{closest(name, self.names)}"
            raise PlanError(f"{self.said} has no column '{name}'; {known}")
        given = self.schema.field(found).type
        held = storage_type(given)
        if held is None:
            raise PlanError(f"column {self.alias}.{found} is {given}, a type that queries cannot use")
        return Column(self.called, found, held)


class Scope:
    """The sources a SELECT has named so far, in FROM order, inside the scope of the query it is a condition of.

    Invariant: aliases are distinct; one in here hides the same one outside. `merged` holds the columns that USING has
    made one with an earlier column.
    """

    def __init__(self, outer: "Scope | None" = None) -> None:
        self.outer = outer
        self.sources: list[Relation] = []
        self.merged: set[tuple[str, str]] = set()

    def add(self, source: Relation) -> None:
        """Bring a source into scope."""
        if any(s.alias == source.alias for s in self.sources):
            raise PlanError(f"alias '{source.alias}' is used twice in FROM; give each stream its own alias")
        self.sources.append(source)

    @property
    def called(self) -> set[str]:
        """Return the aliases under which the algebra knows the columns of the sources."""
        return {s.called for s in self.sources}

    def source(self, alias: str) -> Relation:
        """Return the source that an alias names."""
        names = [s.alias for s in self.sources]
        found = find_name(alias, names)
        if found is None:
            raise PlanError(f"there is no '{alias}' in FROM, which has {', '.join(names)}{closest(alias, names)}")
        return self.sources[names.index(found)]

    def has(self, name: str) -> bool:
        """Tell whether a name without an alias means a column."""
        return any(self._holders(name, exact=False))

    def column(self, name: str, alias: str = "") -> Column:
        """Return the column that a name, with or without an alias, means in here, or else outside."""
        around = self._around(name, alias)
        return (around or self)._column(name, alias)

    def _around(self, name: str, alias: str) -> "Scope | None":
        """Return the innermost scope, from this one outwards, that knows a name."""
        known = self.has(name) if not alias else find_name(alias, [s.alias for s in self.sources]) is not None
        if known:
            return self
        return self.outer._around(name, alias) if self.outer else None

    def _column(self, name: str, alias: str) -> Column:
        if alias:
            return self.source(alias).column(name)
        holders = list(self._holders(name, exact=True)) or list(self._holders(name, exact=False))
        if len(holders) > 1:
            candidates = ", ".join(f"{s.alias}.{find_name(name, s.names)}" for s in holders)
            raise PlanError(f"column '{name}' is ambiguous; it could be {candidates}")
        if not holders:
            names = list(dict.fromkeys(n for s in self.sources for n in s.names))
            raise PlanError(f"there is no column '{name}'; the columns are {', '.join(names)}{closest(name, names)}")
        return holders[0].column(name)

    def merge(self, name: str, before: int) -> tuple[Column, Column]:
        """Make a column of USING one for `*`; return it on the left, the first sources, and in the one after them."""
        left, right = copy(self), self.sources[before]
        left.sources = self.sources[:before]
        both = left._column(name, ""), right.column(name)
        self.merged.add((right.alias, both[1].name))
        return both

    def _holders(self, name: str, exact: bool) -> Iterator[Relation]:
        for source in self.sources:
            found = name if exact and name in source.names else None if exact else find_name(name, source.names)
            if found is not None and (source.alias, found) not in self.merged:
                yield source

    def all_columns(self, alias: str = "") -> Iterator[Column]:
        """Yield what `*` or `alias.*` stands for."""
        for source in [self.source(alias)] if alias else self.sources:
            for name in source.names:
                if alias or (source.alias, name) not in self.merged:
                    yield source.column(name)
