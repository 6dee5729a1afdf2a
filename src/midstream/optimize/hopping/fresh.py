"""Fresh aliases for parts that a plan has twice."""

from dataclasses import dataclass, field

from midstream.plan.algebra import Rel, scans, walk
from midstream.plan.rename import renamed


@dataclass
class Fresh:
    """Hands out aliases that nobody has; it remembers those it gave."""

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
        return renamed(root, to)


def _defined(root: Rel) -> list[str]:
    """Return every alias that names columns in a tree, inputs first."""
    return list(dict.fromkeys(c.alias for _, rel in walk(root) for c in rel.columns))


def aliases_in(root: Rel) -> set[str]:
    """Return every alias that names columns in a tree."""
    return set(_defined(root)) | {s.source.alias for s in scans(root)}
