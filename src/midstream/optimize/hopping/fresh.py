"""Fresh aliases for parts that a plan has twice."""

from dataclasses import dataclass, field, replace

from midstream.optimize.hopping.graph import renamed
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
    inputs,
    over,
    scans,
)
from midstream.plan.expr import Column
from midstream.plan.window import RowsWindow


@dataclass
class Fresh:
    """Gives out aliases that nobody has; it remembers those it gave."""

    taken: set[str] = field(default_factory=set)
    origins: dict[str, str] = field(default_factory=dict)
    """What an alias it gave stands for."""
    given: dict[tuple[str, str], str] = field(default_factory=dict)
    """What it gave for an alias and a place."""

    def origin(self, alias: str) -> str:
        """Return the alias that something was copied from, or its own."""
        return self.origins.get(alias, alias)

    def alias(self, like: str, place: str = "") -> str:
        """Return a new alias, the same one for the same place: `s_2` for `s`, and `s_3` for a copy of that.

        >>> Fresh({"s", "s_2"}).alias("s")
        's_3'
        """
        if (like, place) in self.given:
            return self.given[(like, place)]
        base = self.origin(like)
        number = 2
        while f"{base}_{number}" in self.taken:
            number += 1
        given = f"{base}_{number}"
        self.taken.add(given)
        self.origins[given] = base
        self.given[(like, place)] = given
        return given

    def tidied(self, root: Rel) -> Rel:
        """Return a tree with its copies numbered from 2, each alias by itself."""
        names = Fresh(self.taken - set(self.origins))
        to = {a: names.alias(self.origins[a], a) for a in _defined(root) if a in self.origins}
        return _renamed(root, to)


def _defined(rel: Rel) -> list[str]:
    """Return every alias that names columns in a tree, inputs first."""
    found = [a for child in inputs(rel) for a in _defined(child)]
    return list(dict.fromkeys([*found, *(c.alias for c in rel.columns)]))


def aliases_in(root: Rel) -> set[str]:
    """Return every alias that names columns in a tree."""
    return set(_defined(root)) | {s.source.alias for s in scans(root)}


def _renamed(rel: Rel, to: dict[str, str]) -> Rel:
    """Return a tree with other aliases."""
    below = [_renamed(child, to) for child in inputs(rel)]

    def name(column: Column) -> Column:
        return replace(column, alias=to.get(column.alias, column.alias))

    match rel:
        case Scan(source, read):
            window = source.window
            if isinstance(window, RowsWindow):
                window = replace(window, partition_by=tuple(map(name, window.partition_by)))
            alias = to.get(source.alias, source.alias)
            return Scan(replace(source, alias=alias, window=window), tuple(map(name, read)))
        case Select(_, conjuncts):
            return Select(below[0], tuple(renamed(c, to) for c in conjuncts))
        case Project(_, outputs):
            return Project(below[0], tuple((name(c), renamed(e, to)) for c, e in outputs))
        case Join(_, _, conjuncts):
            return Join(below[0], below[1], tuple(renamed(c, to) for c in conjuncts))
        case Anti(_, _, conjuncts):
            return Anti(below[0], below[1], tuple(renamed(c, to) for c in conjuncts))
        case Union(_, _, names):
            return Union(below[0], below[1], tuple(map(name, names)))
        case Group(_, alias, keys, aggregates):
            own = [replace(a, argument=None if a.argument is None else renamed(a.argument, to)) for a in aggregates]
            return Group(below[0], to.get(alias, alias), tuple(renamed(k, to) for k in keys), tuple(own))
        case Distinct() | Except() | Windowed():
            return over(rel, *below)
