"""Held sums: exact sums of floats as lists of words, one for each row that stands for several.

floats ──▶ each a sum ──▶ united with others, in any order ──▶ rounded once, to the nearest double
"""

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Floats, Mask, Vector
from midstream.kernels.float_sums import hold_floats, unite_held
from midstream.model.row_sets import RowSets
from midstream.operators.aggregate.set_store import SetStore

HELD = pa.large_list(pa.int64())
"""The type of columns of held sums; of no values a sum is an empty list."""


class HeldSums:
    """A column of held sums. State: the words, held flat."""

    def __init__(self) -> None:
        self._words = SetStore()

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return self._words.nbytes

    def append(self, array: pa.Array) -> None:
        """Add sums at the end."""
        begin, words = _flat(array)
        self._words.append(RowSets(begin, words), len(array))

    def take(self, places: Vector, large: bool = False) -> pa.Array:
        """Return the sums at the given places."""
        return self._words.take(places)

    def drop_front(self, count: int) -> None:
        """Drop the oldest sums."""
        self._words.drop_front(count)

    def keep(self, mask: Mask) -> None:
        """Drop the sums where the mask is false and number the rest from 0."""
        self._words.keep(mask)


def hold(floats: Floats, starts: Vector, ends: Vector) -> pa.Array:
    """Return the sums of ranges of a few floats."""
    return _lists(*hold_floats(floats, starts, ends))


def unite(array: pa.Array, starts: Vector, ends: Vector) -> tuple[pa.Array, Floats]:
    """Return the sums of ranges of sums, and the doubles nearest to them."""
    begin, words, floats = unite_held(*_flat(array), starts, ends)
    return _lists(begin, words), floats


def _lists(begin: Vector, words: Vector) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array(begin), pa.array(words))


def _flat(array: pa.Array) -> tuple[Vector, Vector]:
    """Return where the words of each sum begin and the last ones end, and the words."""
    sizes = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    begin = np.zeros(len(array) + 1, np.int64)
    np.cumsum(sizes, out=begin[1:])
    return begin, np.array(array.flatten().to_numpy(zero_copy_only=False), np.int64)
