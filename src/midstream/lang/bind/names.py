"""Aliases of a hopping query: those that are written, and new ones where one is written twice or none at all."""

from collections.abc import Sequence
from itertools import count

from sqlglot import exp

from midstream.model.stream import StreamSchema


class Names:
    """Hand out aliases for the algebra of one query, each once.

    A name that is written once stays as it is; where it is written again, it is followed by a number.
    """

    def __init__(self, tree: exp.Expr, catalog: Sequence[StreamSchema]) -> None:
        written = {item.alias_or_name for item in tree.find_all(exp.Table, exp.Subquery)}
        self._written = written | {stream.name for stream in catalog}
        self._given: set[str] = set()

    def take(self, name: str = "") -> str:
        """Return an alias for what is written under a name, or under none.

        >>> names = Names(exp.Select(), [])
        >>> names.take("g"), names.take("g"), names.take(), names.take("g"), names.take()
        ('g', 'g_2', '#1', 'g_3', '#2')
        """
        free = name
        if not name or name in self._given:
            numbered = (f"{name}_{n}" for n in count(2)) if name else (f"#{n}" for n in count(1))
            free = next(n for n in numbered if n not in self._given and n not in self._written)
        self._given.add(free)
        return free
