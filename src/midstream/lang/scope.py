"""Names in scope: which stream and column a name in a query means.

A name matches exactly first, else without regard to case when that is unique.
"""

from collections.abc import Iterator, Sequence

from midstream.model.errors import PlanError
from midstream.model.stream import StreamSchema
from midstream.plan.expr import Column
from midstream.plan.functions import closest
from midstream.plan.query import Source


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


def column_of(source: Source, name: str) -> Column:
    """Return a column of one source."""
    found = find_name(name, source.stream.columns.names)
    if found is None:
        names = source.stream.columns.names
        of = f"'{source.alias}'" if source.alias == source.stream.name else f"'{source.stream.name}' ({source.alias})"
        raise PlanError(f"stream {of} has no column '{name}'; its columns are {', '.join(names)}{closest(name, names)}")
    held = source.stream.type_of(found)
    if held is None:
        declared = source.stream.columns.field(found).type
        raise PlanError(f"column {source.alias}.{found} is {declared}, a type that queries cannot use")
    return Column(source.alias, found, held)


class Scope:
    """The sources a query has named so far, in FROM order.

    Invariant: aliases are distinct. `merged` holds the columns that USING has made one with an earlier column.
    """

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.merged: set[tuple[str, str]] = set()

    def add(self, source: Source) -> None:
        """Bring a source into scope."""
        if any(s.alias == source.alias for s in self.sources):
            raise PlanError(f"alias '{source.alias}' is used twice in FROM; give each stream its own alias")
        self.sources.append(source)

    def source(self, alias: str) -> Source:
        """Return the source that an alias names."""
        names = [s.alias for s in self.sources]
        found = find_name(alias, names)
        if found is None:
            raise PlanError(f"there is no '{alias}' in FROM, which has {', '.join(names)}{closest(alias, names)}")
        return self.sources[names.index(found)]

    def column(self, name: str, alias: str = "") -> Column:
        """Return the column that a name, with or without an alias, means."""
        if alias:
            return column_of(self.source(alias), name)
        holders = list(self._holders(name, exact=True)) or list(self._holders(name, exact=False))
        if len(holders) > 1:
            candidates = ", ".join(f"{s.alias}.{find_name(name, s.stream.columns.names)}" for s in holders)
            raise PlanError(f"column '{name}' is ambiguous; it could be {candidates}")
        if not holders:
            names = list(dict.fromkeys(n for s in self.sources for n in s.stream.columns.names))
            raise PlanError(f"there is no column '{name}'; the columns are {', '.join(names)}{closest(name, names)}")
        return column_of(holders[0], name)

    def _holders(self, name: str, exact: bool) -> Iterator[Source]:
        for source in self.sources:
            names = source.stream.columns.names
            found = name if exact and name in names else None if exact else find_name(name, names)
            if found is not None and (source.alias, found) not in self.merged:
                yield source

    def all_columns(self, alias: str = "") -> Iterator[Column]:
        """Yield what `*` or `alias.*` stands for."""
        for source in [self.source(alias)] if alias else self.sources:
            for name in source.stream.columns.names:
                if alias or (source.alias, name) not in self.merged:
                    yield column_of(source, name)
