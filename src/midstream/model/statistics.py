"""Statistics: what is known or guessed about the rows of a query."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Values:
    """The values of an expression: how many different ones, and how often the most common of them come."""

    distinct: float
    common: Mapping[Any, float] = field(default_factory=dict)
    """The part of all rows that has each of the most common values."""
    others: float = 1.0
    """The part of all rows that has another value; the rest is NULL."""


@dataclass(frozen=True)
class Statistics:
    """The rows of each alias: how many are in its window, how many arrive per second, which part passes its filters."""

    window_rows: dict[str, float] = field(default_factory=dict)
    rows_per_s: dict[str, float] = field(default_factory=dict)
    passing: dict[str, float] = field(default_factory=dict)
    values: dict[tuple[int, str], Values] = field(default_factory=dict)
    """The values of an equality class (by number) in an alias, of rows that pass its filters."""
    selectivity: dict[str, float] = field(default_factory=dict)
    """The part of all pairs that satisfies a condition, by its text."""
    rows_seen: int = 0
    """How many rows of the shortest stream this comes from."""

    @property
    def known(self) -> bool:
        """Tell whether there is anything to estimate from."""
        return bool(self.window_rows)
