"""Reference of a delayed drain: what its new version would have given had it been started at the position.

    results of both, round by round ──▶ those only the reference has ──▶ lost

State: results that may still come, because a migration holds some back, or buckets have yet to start the version.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from midstream.change.trigger import TRIGGER, left_before, triggers_of
from midstream.model.batch import Results
from midstream.model.time import FOREVER, NEVER

Matrix = npt.NDArray[np.int64]
KEY = TRIGGER + 1
"""What brought a result, and its fingerprint: the same in both where they are the same result."""


class Reference:
    """Compares results of one query that started at two positions.

    Invariant: `missing` are results of the reference that the version has not given, one line each.
    """

    def __init__(self) -> None:
        self.over = False
        self.not_before_us = NEVER
        """The version does not start before: an old one still drained there."""
        self.missing: Matrix = np.empty((0, KEY), np.int64)

    def compare(self, expected: Sequence[Results], given: Sequence[Results], open_us: int) -> int:
        """Take what both gave in a round; return how many results are lost: those from `open_us` on may still come."""
        wanted = np.concatenate([self.missing, *map(_keys, expected)])
        self.missing = _without(wanted, np.concatenate([self.missing[:0], *map(_keys, given)]))
        return self.settle(open_us)

    def settle(self, open_us: int = FOREVER) -> int:
        """Return how many results will not come any more, and forget them."""
        lost = left_before(self.missing, open_us)
        self.missing = self.missing[~lost]
        return int(lost.sum())


def _keys(results: Results) -> Matrix:
    prints = np.zeros(len(results), np.int64) if results.lineage is None else results.lineage.prints
    return np.column_stack([triggers_of(results), prints])


def _without(these: Matrix, those: Matrix) -> Matrix:
    """Return the lines of a matrix without those of another, each as often as it is there.

    >>> _without(np.array([[1, 2], [1, 2], [3, 4]]), np.array([[1, 2], [5, 6]]))
    array([[1, 2],
           [3, 4]])
    """
    if not len(these) or not len(those):
        return these
    lines, inverse, counts = np.unique(np.concatenate([these, those]), axis=0, return_inverse=True, return_counts=True)
    mine = np.bincount(inverse.reshape(-1)[: len(these)], minlength=len(lines))
    return np.repeat(lines, np.maximum(2 * mine - counts, 0), axis=0)
