"""Merge: bring the output of two plans into one order."""

import numpy as np

from midstream.operators.sliding.entry import Matrix


def merge_queues(old: Matrix, new: Matrix) -> Matrix:
    """Return the results of two queues, each in order of the latest row; for the same latest row the old plan's first.

    >>> old, new = np.array([[0, 3], [0, 8]]), np.array([[1, 3], [1, 5]])
    >>> merge_queues(old, new).tolist()
    [[0, 3], [1, 3], [1, 5], [0, 8]]
    """
    if not len(old):
        return new
    if not len(new):
        return old
    both = np.concatenate([old, new])
    return both[np.argsort(both[:, 1], kind="stable")]
