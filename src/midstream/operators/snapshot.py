"""Snapshot: an operator tree with its states as flat arrays and a small description of how they hang together.

    operators ──▶ take apart ──▶ description (bytes) + arrays ──▶ put together ──▶ operators

The arrays are those the states work on, not copies: whoever puts the operators together takes them over. A state shared
by two operators is still one state afterwards.
"""

import io
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SMALL_BYTES = 1 << 13
"""Arrays up to this size travel inside the description."""


def take_apart(operators: object) -> tuple[bytes, list[Array]]:
    """Return the description of operators and the arrays of their states."""
    buffer = io.BytesIO()
    taker = _Taker(buffer)
    taker.dump(operators)
    return buffer.getvalue(), taker.arrays


def put_together(description: bytes, arrays: Sequence[Array]) -> Any:
    """Return operators as they were when they were taken apart, working on the given arrays."""
    return _Maker(io.BytesIO(description), arrays).load()


class _Taker(pickle.Pickler):
    """Pickles everything but the large arrays."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self.arrays: list[Array] = []
        self._places: dict[int, int] = {}

    def persistent_id(self, obj: Any) -> int | None:
        if type(obj) is not np.ndarray or obj.nbytes <= SMALL_BYTES:
            return None
        if id(obj) not in self._places:
            self._places[id(obj)] = len(self.arrays)
            self.arrays.append(obj)
        return self._places[id(obj)]


class _Maker(pickle.Unpickler):
    """Unpickles with the large arrays given."""

    def __init__(self, buffer: io.BytesIO, arrays: Sequence[Array]) -> None:
        super().__init__(buffer)
        self._arrays = arrays

    def persistent_load(self, pid: Any) -> Array:
        found: Array = self._arrays[pid]
        return found
