"""Ends: when rows left the windows of a query for good, in the last few micro-batches.

A drain that is asked for a little late still learns exactly when it was over.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.int64]
KEPT_BATCHES = 4
"""What ends a drain is known within so many micro-batches."""


class Ends:
    """Per end: from when on the rows are gone, and the time of the oldest of them."""

    def __init__(self) -> None:
        self._batches: list[list[tuple[Vector, Vector]]] = [[]]

    def begin_batch(self) -> None:
        """Forget what is too long ago to be asked for."""
        if self._batches[-1]:
            self._batches = [*self._batches[1 - KEPT_BATCHES :], []]

    def add(self, gone_us: Vector, oldest_us: Vector) -> None:
        """Note ends."""
        if len(gone_us):
            self._batches[-1].append((gone_us, oldest_us))

    def last_us(self, before_us: int) -> int | None:
        """Return when the last rows were gone of which one was from before a time."""
        parts = [gone[oldest < before_us] for batch in self._batches for gone, oldest in batch]
        return max((int(part.max()) for part in parts if len(part)), default=None)

    def to_plain(self) -> list[list[list[int]]]:
        """Return what is noted of each micro-batch as plain values."""
        return [_joined(batch).tolist() for batch in self._batches]

    def load(self, plain: Sequence[Sequence[Sequence[int]]]) -> None:
        """Be as `to_plain` said, at the end of a micro-batch."""
        self._batches = [[(np.array(gone, np.int64), np.array(old, np.int64))] for gone, old in plain] or [[]]


def _joined(parts: list[tuple[Vector, Vector]]) -> npt.NDArray[np.int64]:
    return np.hstack([np.empty((2, 0), np.int64), *(np.vstack(part) for part in parts)])
