"""How many rows have values in common: the estimate that sizes of all joins are made of, sliding and hopping."""

from collections.abc import Hashable, Mapping, Sequence
from math import prod
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from midstream.model.statistics import Values

FEWEST = 0.5
"""Combinations of rows in sketches that are taken to match where none does."""
K = TypeVar("K", bound=Hashable)


class Matches(Generic[K]):
    """How often rows of several sides have the same value: the common values one by one, the others evenly spread.

    >>> even = Matches({0: Values(4), 1: Values(4), 2: Values(4)})
    >>> even.part([0, 1]), even.part([0, 1, 2])
    (0.25, 0.0625)
    >>> round(Matches({0: Values(3, {1: 0.8}, 0.2), 1: Values(3, {1: 0.8}, 0.2)}).part([0, 1]), 9)
    0.66
    """

    def __init__(self, values: Mapping[K, Values]) -> None:
        named = list(dict.fromkeys(value for v in values.values() for value in v.common))
        self._named: dict[K, npt.NDArray[np.float64]] = {}
        self._left: dict[K, float] = {}
        self._spread: dict[K, float] = {}
        self._chosen, self._sampled = _aligned(values)
        self._row = {side: _part_of_a_row(v) for side, v in values.items()}
        most = max((v.distinct for v in values.values()), default=1.0)
        for side, v in values.items():
            # Of a side of which nobody knows which values it has, any value may be one of them.
            elsewhere = v.others / max(v.distinct - len(v.common) if v.common else most, 1.0)
            parts = np.array([v.common.get(value, elsewhere) for value in named], np.float64)
            self._named[side] = parts
            self._left[side] = max(v.others + sum(v.common.values()) - float(parts.sum()), 0.0)
            self._spread[side] = v.distinct - len(named)

    def part(self, sides: Sequence[K]) -> float:
        """Return the part of all combinations of rows, one of each side, that have the same value."""
        common = float(np.multiply.reduce([self._named[s] for s in sides]).sum())
        if self._sampled is not None:
            found = float(np.multiply.reduce([self._sampled[s] for s in sides]).sum())
            return max(common + found / self._chosen, FEWEST * prod(self._row[s] for s in sides) / self._chosen)
        # Few values are among many: as many match as the side with the fewest has.
        spread = sorted(max(1.0, self._spread[s]) for s in sides)[1:]
        return common + prod(self._left[s] for s in sides) / prod(spread)

    def parts(self, sides: Sequence[K]) -> npt.NDArray[np.float64]:
        """Return the same for all sets of some sides, by their bits; 1 for one side, or none.

        >>> Matches({0: Values(4), 1: Values(4), 2: Values(4)}).parts([0, 1, 2]).tolist()
        [1.0, 1.0, 1.0, 0.25, 1.0, 0.25, 0.25, 0.0625]
        """
        count = 1 << len(sides)
        some = [bits for bits in range(count) if bits & (bits - 1)]
        found = np.ones(count)
        if self._sampled is None:
            found[some] = [self.part([s for k, s in enumerate(sides) if bits >> k & 1]) for bits in some]
            return found
        common, sampled = _products(self._named, sides), _products(self._sampled, sides)
        least = FEWEST * _products({s: np.array([row]) for s, row in self._row.items()}, sides) / self._chosen
        found[some] = np.maximum(common + sampled / self._chosen, least)[some]
        return found


def _part_of_a_row(values: Values) -> float:
    """Return the part that one row is of those in a sketch."""
    parts = values.sampled.parts if values.sampled is not None else np.empty(0)
    return float(parts.min()) if len(parts) else 1.0


def _products(values: Mapping[K, npt.NDArray[np.float64]], sides: Sequence[K]) -> npt.NDArray[np.float64]:
    """Return the sum over all values of the product over sides, for all sets of sides by their bits."""
    matrix = np.array([values[s] for s in sides])
    matrix = matrix[:, np.count_nonzero(matrix, axis=0) > 1]
    products = np.ones((1 << len(sides), matrix.shape[1]))
    for k in range(len(sides)):
        np.multiply(products[: 1 << k], matrix[k], out=products[1 << k : 2 << k])
    summed: npt.NDArray[np.float64] = products.sum(axis=1)
    return summed


def _aligned(values: Mapping[K, Values]) -> tuple[float, dict[K, npt.NDArray[np.float64]] | None]:
    """Return which part of all values sketches have, and the part of each side's rows per value; None: some have none.

    Values that one side has among its common ones are left to those.
    """
    sketches = {side: v.sampled for side, v in values.items() if v.sampled is not None}
    if not sketches or len(sketches) < len(values):
        return 1.0, None
    every = np.unique(np.concatenate([s.codes for s in sketches.values()]))
    every = every[~np.isin(every, [value for v in values.values() for value in v.common])]
    found = {}
    for side, s in sketches.items():
        at = np.minimum(np.searchsorted(s.codes, every), max(len(s.codes) - 1, 0))
        here = s.codes[at] == every if len(s.codes) else np.zeros(len(every), np.bool_)
        found[side] = np.where(here, s.parts[at] if len(s.codes) else 0.0, 0.0)
    return next(iter(sketches.values())).chosen, found
