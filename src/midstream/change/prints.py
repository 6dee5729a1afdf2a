"""Prints: fingerprints of results that left and that a result of another version may repeat.

State: a fingerprint and the time of the oldest row of each. Those of rows that nobody holds any more are dropped.
"""

import numpy as np
import numpy.typing as npt

from midstream.model.batch import Lineage

Vector = npt.NDArray[np.int64]


class Prints:
    """Fingerprints in ascending order, each with the time of its oldest row."""

    def __init__(self) -> None:
        self.prints: Vector = np.empty(0, np.int64)
        self.oldest_us: Vector = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.prints)

    def add(self, lines: Lineage) -> None:
        """Keep some more."""
        if len(lines.prints):
            prints = np.concatenate([self.prints, lines.prints])
            order = np.argsort(prints, kind="stable")
            self.prints, self.oldest_us = prints[order], np.concatenate([self.oldest_us, lines.oldest_us])[order]

    def pairs(self, prints: Vector) -> int:
        """Return how many pairs of one kept and one given are equal.

        >>> kept = Prints()
        >>> kept.add(Lineage(np.array([1, 1, 1]), np.array([7, 8, 7])))
        >>> kept.pairs(np.array([7, 9, 7]))
        4
        """
        if not len(self.prints):
            return 0
        above = np.searchsorted(self.prints, prints, "right")
        return int((above - np.searchsorted(self.prints, prints)).sum())

    def forget(self, before_us: int) -> None:
        """Drop those whose oldest row is from before a time."""
        keep = self.oldest_us >= before_us
        if not keep.all():
            self.prints, self.oldest_us = self.prints[keep], self.oldest_us[keep]

    def clear(self) -> None:
        """Drop all."""
        self.prints = self.oldest_us = np.empty(0, np.int64)
