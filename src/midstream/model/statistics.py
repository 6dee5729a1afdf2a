"""Statistics: what is known about the rows of a query, seen in recorded streams or in one that runs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Name = tuple[str, str]
"""A column by alias and name."""
ByColumn = dict[Name, float]
"""How many different values columns have."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """Some values of a key, chosen by their hash, and how often each comes: the same choice for all that it joins."""

    codes: npt.NDArray[np.int64]
    """In order."""
    parts: npt.NDArray[np.float64]
    """The part of all rows that has each of them."""
    chosen: float
    """The part of all values that is chosen."""


@dataclass(frozen=True)
class Values:
    """The values of an expression: how many different ones, and how often the most common of them come."""

    distinct: float
    common: Mapping[Any, float] = field(default_factory=dict)
    """The part of all rows that has each of the most common values."""
    others: float = 1.0
    """The part of all rows that has another value; the rest is NULL."""
    sampled: Sampled | None = field(default=None, compare=False, repr=False)
    """Of values that are not among the common ones: those of a sketch, where there is one."""


@dataclass(frozen=True)
class Size:
    """Rows of an answer: all of them, and per hop those that come, are taken back, and end by their time."""

    complete: float
    positive: float
    negative: float
    matured: float
    distinct: ByColumn = field(default_factory=dict, compare=False, repr=False)
    """Different values of its columns."""
    hop_us: int | None = None
    """The hop it was seen with, if it was seen with one; else that which it is asked for."""

    @property
    def old(self) -> float:
        """Return the part of the rows that was there at the last hop."""
        return 1 - _part(self.positive, self.complete)

    @property
    def unmatured(self) -> float:
        """Return the part of the last hop's rows whose time is not over."""
        return 1 - _part(self.matured, self.complete)

    @property
    def staying(self) -> float:
        """Return the part of the last hop's rows that is still there."""
        return 1 - _part(self.matured + self.negative, self.complete)

    @property
    def delta(self) -> float:
        """Return how many rows an edge with deltas carries per hop."""
        return self.positive + self.negative

    @property
    def moved(self) -> float:
        """Return how many rows a state moves per hop: those that stay, whenever as many have gone."""
        return min(self.matured + self.negative, self.complete) * self.staying

    def scaled(self, complete: float) -> "Size":
        """Return a size of so many rows, of which as many come and go in proportion."""
        part = complete / self.complete if self.complete else 0.0
        came, went, ended = part * self.positive, part * self.negative, part * self.matured
        return Size(complete, came, went, ended, self.distinct)


def _part(some: float, of: float) -> float:
    return min(1.0, some / of) if of > 0 else 0.0


@dataclass(frozen=True)
class Statistics:
    """The rows of each alias, the values of its columns and keys, what conditions pass, operators that were measured.

    A scan that the optimizer has copied (`s_2` of `s`) is known by the alias it was copied from.
    """

    rows_per_s: dict[str, float] = field(default_factory=dict)
    window_rows: dict[str, float] = field(default_factory=dict)
    distinct: ByColumn = field(default_factory=dict)
    """Different values that a column has in its stream, not only in a window."""
    selectivity: dict[str, float] = field(default_factory=dict)
    """The part of the rows, or of all pairs, that pass a condition, by its text."""
    measured: dict[str, Size] = field(default_factory=dict)
    """What operators gave, by `signature(rel)`, which does not depend on join order and on where differences stand."""
    passing: dict[str, float] = field(default_factory=dict)
    """The part of the rows of an alias that passes its filters."""
    values: dict[tuple[int, str], Values] = field(default_factory=dict)
    """The values of an equality class (by number) in the window of an alias, of rows that pass its filters."""
    common: dict[Name, Values] = field(default_factory=dict)
    """The values of a column in its stream, where more is known of them than how many there are."""
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
