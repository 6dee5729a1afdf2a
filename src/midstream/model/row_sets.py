"""Row sets: the rows that each of some results depends on, one by one, where sums of fingerprints count some twice."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RowSets:
    """Fingerprints of rows: those of result i are `prints[starts[i]:starts[i + 1]]`, each row once.

    Every result depends on some row: where there is none, nobody knows.
    """

    starts: Vector
    prints: Vector

    def __len__(self) -> int:
        return len(self.starts) - 1

    def where(self, keep: npt.NDArray[Any] | slice) -> "RowSets":
        """Return the sets of a mask, of places or of a slice."""
        firsts, ends = self.starts[:-1][keep], self.starts[1:][keep]
        return RowSets(starts_of(ends - firsts), self.prints[expand(firsts, ends)])

    def united(self, firsts: Vector, ends: Vector) -> "RowSets":
        """Return the union of the sets of each range; of a range with a set that nobody knows, none.

        >>> sets = RowSets(np.array([0, 2, 4, 4]), np.array([7, 8, 8, 9]))
        >>> vars(sets.united(np.array([0, 1]), np.array([2, 3])))
        {'starts': array([0, 3, 3]), 'prints': array([7, 8, 9])}
        """
        sizes = np.diff(self.starts)
        unknown = starts_of(sizes == 0)
        known = unknown[ends] == unknown[firsts]
        firsts, ends = self.starts[firsts], np.where(known, self.starts[ends], self.starts[firsts])
        ranges, prints = np.repeat(np.arange(len(firsts)), ends - firsts), self.prints[expand(firsts, ends)]
        order = np.lexsort((prints, ranges))
        ranges, prints = ranges[order], prints[order]
        fresh = np.ones(len(prints), np.bool_)
        fresh[1:] = (prints[1:] != prints[:-1]) | (ranges[1:] != ranges[:-1])
        return RowSets(starts_of(np.bincount(ranges[fresh], minlength=len(firsts))), prints[fresh])

    def sums(self) -> Vector:
        """Return a fingerprint of each set."""
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.prints)])
        return np.asarray(sums[self.starts[1:]] - sums[self.starts[:-1]])


def starts_of(sizes: npt.NDArray[Any]) -> Vector:
    """Return where ranges of some sizes begin one after the other, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def expand(firsts: Vector, ends: Vector) -> Vector:
    """Return the places of all ranges, one range after the other.

    >>> expand(np.array([3, 0]), np.array([5, 1]))
    array([3, 4, 0])
    """
    sizes = ends - firsts
    starts = starts_of(sizes)
    return np.asarray(np.arange(starts[-1]) + np.repeat(firsts - starts[:-1], sizes))
