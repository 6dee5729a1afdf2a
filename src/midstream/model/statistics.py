"""Statistics: what is known about the rows of a query, seen in recorded streams or in one that runs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Name = tuple[str, str]
"""A column by alias and name."""


@dataclass(frozen=True)
class Values:
    """The values of an expression: how many different ones, and how often the most common of them come."""

    distinct: float
    common: Mapping[Any, float] = field(default_factory=dict)
    """The part of all rows that has each of the most common values."""
    others: float = 1.0
    """The part of all rows that has another value; the rest is NULL."""


@dataclass(frozen=True)
class Measured:
    """What an operator was seen to give: the size of its answer, and per hop what came, was taken back, and ended."""

    complete: float
    positive: float
    negative: float
    matured: float
    hop_us: int | None = None
    """The hop it was seen with; None: the one it is asked for."""


@dataclass(frozen=True)
class Statistics:
    """The rows of each alias, the values of its columns and keys, what conditions pass, operators that were measured.

    A scan that the optimizer has copied (`s_2` of `s`) is known by the alias it was copied from.
    """

    rows_per_s: dict[str, float] = field(default_factory=dict)
    window_rows: dict[str, float] = field(default_factory=dict)
    distinct: dict[Name, float] = field(default_factory=dict)
    """Different values that a column has in its stream, not only in a window."""
    selectivity: dict[str, float] = field(default_factory=dict)
    """The part of the rows, or of all pairs, that pass a condition, by its text."""
    measured: dict[str, Measured] = field(default_factory=dict)
    """By `signature(rel)`, which does not depend on join order and on where differences stand."""
    passing: dict[str, float] = field(default_factory=dict)
    """The part of the rows of an alias that passes its filters."""
    values: dict[tuple[int, str], Values] = field(default_factory=dict)
    """The values of an equality class (by number) in the window of an alias, of rows that pass its filters."""
    rows_seen: int = 0
    """How many rows of the shortest stream this comes from."""

    def known_as(self, alias: str) -> str:
        """Return the alias under which something is known: its own, or the one it was copied from.

        >>> Statistics(rows_per_s={"s": 5.0}).known_as("s_2"), Statistics().known_as("s_2")
        ('s', 's_2')
        """
        base = re.sub(r"_\d+$", "", alias)
        return base if not self._mentions(alias) and self._mentions(base) else alias

    def _mentions(self, alias: str) -> bool:
        return alias in self.rows_per_s or alias in self.window_rows or any(a == alias for a, _ in self.distinct)
