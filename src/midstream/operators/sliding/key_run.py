"""Key run: where the entries of each key are, among entries that stay where they are. Cheap to make, slower to ask."""

from collections.abc import Callable

import numpy as np

from midstream.kernels.arrays import Mask, Vector
from midstream.kernels.key_run import find_in_buckets, sort_by_bucket

BUCKET_BITS = 2
"""About 2**BUCKET_BITS entries share a bucket."""


class KeyRun:
    """The wanted ones of some keys, by key.

    >>> run = KeyRun(np.array([5, 9, 5, 2]), np.array([True, True, True, False]))
    >>> run.places(np.array([5, 2])), len(run)
    (array([0, 2]), 3)
    """

    def __init__(self, keys: Vector, wanted: Mask) -> None:
        self._keys = keys
        self._bits = max(1, len(keys).bit_length() - BUCKET_BITS)
        self._starts, self._places = sort_by_bucket(keys, wanted, self._bits)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        return int(self._keys.nbytes + self._starts.nbytes + self._places.nbytes)

    def places(self, asked: Vector) -> Vector:
        """Return the places that have one of the keys."""
        args = (np.ascontiguousarray(asked), self._keys, self._starts, self._places, self._bits)
        return written(lambda found: find_in_buckets(*args, found), len(asked))

    def some_keys(self, start: int, end: int) -> Vector:
        """Return the keys of a part of the run, which are all the keys there are when the parts are put together."""
        keys: Vector = self._keys[self._places[start:end]]
        return keys


def written(write: Callable[[Vector], int], asked: int) -> Vector:
    """Return what is written into a vector by a function that says how much it would write given enough room."""
    found = np.empty(max(64, 2 * asked), np.int64)
    count = write(found)
    if count > len(found):
        found = np.empty(count, np.int64)
        write(found)
    return found[:count]
