"""How likely rows in the windows are from before a position, so long after it, and what that means for what they make.

A row of a window of w seconds is old, t seconds after the position, with a chance of 1 - t/w. A result is found by its
latest row, which is new from the position on.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from midstream.optimize.search import members

MOMENTS = 24
"""Moments of a window that are looked at."""
Vector = npt.NDArray[np.float64]
"""A chance, or a number, at each moment."""
Chance = Callable[[int, int], Vector]
"""How likely there is an entry of some aliases, as bits, in a result whose latest row is of an alias."""
NONE = -1
"""No alias: nothing is arriving."""


class OldRows:
    """The windows of a query, in FROM order, so long after a position; sets of aliases are bits.

    >>> rows = OldRows([10.0, 10.0])
    >>> round(float(rows.all_old(0b1).mean()), 9), round(float(rows.all_old(0b11).mean()), 2)
    (0.5, 0.33)
    >>> round(rows.asked(1000.0, rows.all_old(0b1)), 2)
    0.98
    """

    def __init__(self, widths_s: Sequence[float]) -> None:
        self._widths = [max(w, 1e-9) for w in widths_s]
        self.lasts_s = max(self._widths)
        """After how long no old row is expected to matter."""
        self.step_s = self.lasts_s / MOMENTS
        self._old = [np.maximum(0.0, 1 - self.at_s / w) for w in self._widths]

    @property
    def at_s(self) -> Vector:
        """Return the moments."""
        return np.asarray((np.arange(MOMENTS) + 0.5) * self.step_s, np.float64)

    def all_old(self, parts: int, latest: int = NONE) -> Vector:
        """Return how likely the rows of some aliases are all old."""
        chance = np.ones(MOMENTS)
        for n in members(parts):
            chance = chance * (0.0 if n == latest else self._old[n])
        return chance

    def outside(self, parts: int, regions: Sequence[int], latest: int = NONE) -> Vector:
        """Return how likely an entry lies in no region: of none it has rows of all aliases, all of them old."""
        chance = np.ones(MOMENTS)
        for region in regions:
            if not region & ~parts:
                chance = chance * (1 - self.all_old(region, latest))
        return chance

    def may_lie(self, parts: int, regions: Sequence[int], latest: int = NONE) -> Vector:
        """Return how likely an entry, or what it becomes part of, may lie in some region that is not over."""
        none = np.ones(MOMENTS)
        for region in regions:
            there = self.all_old(region) > 0
            none = none * (1 - self.all_old(region & parts, latest) * there)
        return 1 - none

    def seconds(self, left: int, right: int, chance: Chance) -> float:
        """Return how long a join would take, all of its pairs evaluated, to do those of which both sides are there."""
        inside = members(left | right)
        turnover = [1 / self._widths[n] for n in inside]
        found = 0.0
        for n, often in zip(inside, turnover, strict=True):
            found += often / sum(turnover) * float((chance(left, n) * chance(right, n)).sum())
        return found * self.step_s

    def asked(self, rate: float, lives: Vector) -> float:
        """Return the part of some entries that is asked for, so often in a second, while it lives."""
        edges = np.arange(MOMENTS + 1) * self.step_s
        first = np.exp(-rate * edges[:-1]) - np.exp(-rate * edges[1:])
        return float((first * lives).sum())
