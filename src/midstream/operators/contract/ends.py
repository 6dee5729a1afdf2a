"""Ends: when rows left the windows of a query for good, in the last few micro-batches.

A drain that is asked for a little late still learns exactly when it was over.
"""

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.int64]
KEPT_BATCHES = 4
"""What brings a drain about is heard of within so many micro-batches."""


class Ends:
    """Per end: from when on the rows are gone, and the time of the oldest of them."""

    def __init__(self) -> None:
        self._batches: list[list[tuple[Vector, Vector]]] = [[]]

    def begin_batch(self) -> None:
        """Forget what is too long ago to be asked for."""
        if self._batches != [[]]:
            self._batches = [*self._batches[1 - KEPT_BATCHES :], []]

    def add(self, gone_us: Vector, oldest_us: Vector) -> None:
        """Note ends."""
        if len(gone_us):
            self._batches[-1].append((gone_us, oldest_us))

    def last_us(self, before_us: int) -> int | None:
        """Return when the last rows were gone of which one was from before a time."""
        parts = [gone[oldest < before_us] for batch in self._batches for gone, oldest in batch]
        return max((int(part.max()) for part in parts if len(part)), default=None)
