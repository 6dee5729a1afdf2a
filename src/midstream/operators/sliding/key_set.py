"""Key set: 64-bit keys seen so far, in a flat table."""

import numpy as np

from midstream.kernels.arrays import Mask, Vector
from midstream.kernels.entries import KEY
from midstream.kernels.key_index import FREE, LEFT_HEAD, has_keys, take_keys
from midstream.operators.sliding.key_index import FULL, KeyTable


class KeySet(KeyTable):
    """A set of keys.

    >>> keys = KeySet()
    >>> keys.add(np.array([3, 5, 3])), keys.has(np.array([5, 7])), len(keys)
    (array([ True,  True, False]), array([ True, False]), 2)
    """

    def __len__(self) -> int:
        return self.taken

    @property
    def held(self) -> Vector:
        """Return the keys, in no order."""
        return np.ascontiguousarray(self.words[self.heads[:, LEFT_HEAD] != FREE, KEY])

    def add(self, keys: Vector) -> Mask:
        """Add keys; return which of them were not there, the first of equals only."""
        if not self.has_room(len(keys)):
            held = self.held
            self._allocate(1 << int((self.taken + len(keys)) / FULL).bit_length())
            take_keys(self.words, self.heads, held)
        fresh, taken = take_keys(self.words, self.heads, np.ascontiguousarray(keys))
        self.taken += taken
        return fresh

    def has(self, keys: Vector) -> Mask:
        """Tell which keys are there."""
        return has_keys(self.words, self.heads, np.ascontiguousarray(keys))


def distinct(keys: Vector) -> int:
    """Count different keys.

    >>> distinct(np.array([4, 4, 1]))
    2
    """
    held = KeySet()
    held.add(keys)
    return len(held)
