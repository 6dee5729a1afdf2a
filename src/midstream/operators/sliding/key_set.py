"""Key set: 64-bit keys seen so far, in a flat table."""

from typing import Any

import numpy as np

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.key_index import clear, has_keys, take_keys

FULL = 0.6
"""The part of the slots that may be taken."""


class KeySet:
    """A set of keys.

    >>> keys = KeySet()
    >>> keys.add(np.array([3, 5, 3])), keys.has(np.array([5, 7])), len(keys)
    (array([ True,  True, False]), array([ True, False]), 2)
    """

    def __init__(self) -> None:
        self._taken = 0
        self._words: Matrix = self._table(64)

    @staticmethod
    def _table(slots: int) -> Matrix:
        words = np.zeros((slots, 2), np.int64)
        clear(words.view(np.int32))
        return words

    def __len__(self) -> int:
        return self._taken

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        return int(self._words.nbytes)

    def add(self, keys: Vector) -> Mask:
        """Add keys; return which of them were not there, the first of equals only."""
        wanted = self._taken + len(keys)
        if wanted > len(self._words) * FULL:
            self._grow(1 << int(wanted / FULL).bit_length())
        fresh, taken = take_keys(self._words, self._words.view(np.int32), np.ascontiguousarray(keys))
        self._taken += taken
        found: Mask = fresh
        return found

    def has(self, keys: Vector) -> Mask:
        """Tell which keys are there."""
        found: Mask = has_keys(self._words, self._words.view(np.int32), np.ascontiguousarray(keys))
        return found

    def _grow(self, slots: int) -> None:
        old = self._words
        used = old.view(np.int32)[:, 2] != -2
        self._words = self._table(slots)
        take_keys(self._words, self._words.view(np.int32), np.ascontiguousarray(old[used, 0]))


def distinct(keys: Vector) -> int:
    """Count different keys.

    >>> distinct(np.array([4, 4, 1]))
    2
    """
    held: Any = KeySet()
    held.add(keys)
    return len(held)
