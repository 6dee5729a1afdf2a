"""A tape: a flat array that grows at its end and is cut at its front, without moving much."""

from typing import Any

import numpy as np
import numpy.typing as npt

from midstream.kernels.arrays import Mask
from midstream.operators.source.memory import check_room

SLACK = 1.25
"""Room to grow, as a multiple of what is live, unless said otherwise: memory against copying."""


class Tape:
    """Values numbered from the first ever appended.

    Invariant: `view()[i]` is value number `base + i`; memory is at most `slack` times the live values when it was
    last moved (and at least one small block).
    """

    def __init__(self, dtype: npt.DTypeLike, width: int | None = None, slack: float = SLACK) -> None:
        """Values are single ones, or lines of some width."""
        self._buffer: npt.NDArray[Any] = np.empty(64 if width is None else (64, width), dtype)
        self._slack = slack
        self._start = 0
        self._end = 0
        self.base = 0

    def __len__(self) -> int:
        return self._end - self._start

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return int(self._buffer.nbytes)

    def view(self) -> npt.NDArray[Any]:
        """Return the live values; valid until the next append."""
        return self._buffer[self._start : self._end]

    def append(self, values: npt.NDArray[Any]) -> None:
        """Add values at the end."""
        room = self.extend(len(values))
        room[:] = values

    def extend(self, count: int) -> npt.NDArray[Any]:
        """Add room for values at the end and return it, to be filled in."""
        if self._end + count > len(self._buffer):
            self._move(count)
        self._end += count
        return self._buffer[self._end - count : self._end]

    def drop_front(self, count: int) -> None:
        """Drop the first values."""
        self._start += count
        self.base += count

    def keep(self, mask: Mask) -> None:
        """Drop the values where the mask is false and number the rest from 0."""
        self.reset(self.view()[mask])

    def reset(self, values: npt.NDArray[Any], base: int = 0) -> None:
        """Hold exactly these values, numbered from `base`."""
        self._start, self._end, self.base = 0, 0, base
        self._buffer = self._buffer[:0].copy()
        self.append(values)

    def _move(self, count: int) -> None:
        live = len(self)
        wanted = max(64, int((live + count) * self._slack))
        old = self.view()
        # Moving in place is enough while a fair part of the buffer is free at the front.
        if wanted > len(self._buffer) or wanted * 2 < len(self._buffer):
            check_room(wanted * self._buffer.strides[0], "what a window holds")
            self._buffer = np.empty((wanted, *self._buffer.shape[1:]), self._buffer.dtype)
        self._buffer[:live] = old
        self._start, self._end = 0, live


def grown(array: npt.NDArray[Any], count: int, size: int) -> npt.NDArray[Any]:
    """Return a longer array with the same beginning, and room to be filled in after it."""
    check_room(size * array.strides[0], "what an operator holds")
    out = np.empty((size, *array.shape[1:]), array.dtype)
    out[:count] = array[:count]
    return out


def grown_with_zeros(array: npt.NDArray[Any], count: int, size: int) -> npt.NDArray[Any]:
    """Return a longer array with the same beginning, and zeros after it."""
    check_room(size * array.strides[0], "what an operator holds")
    out = np.zeros((size, *array.shape[1:]), array.dtype)
    out[:count] = array[:count]
    return out
