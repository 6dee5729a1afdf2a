"""Groups: the rows of window instances that belong together, as ranges that move forward only.

rows of the instances ──▶ WHERE ──▶ by group, in order ──▶ for each group: its instances and their ranges
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Vector
from midstream.kernels.instances import find_groups, sort_codes
from midstream.operators.aggregate.instances import Closing
from midstream.operators.aggregate.stage_rows import StageRows
from midstream.operators.expression.codes import code


@dataclass(frozen=True)
class Groups:
    """The groups of some instances.

    Line i is a group of `instances[i]`: the rows at `places[starts[i]:ends[i]]`, in the order they came. Neither starts
    nor ends decrease. Without keys there is one line for each instance, which may be empty.
    """

    places: Vector
    instances: Vector
    starts: Vector
    ends: Vector

    def __len__(self) -> int:
        return len(self.starts)


def group(rows: StageRows, closing: Closing, keys: list[str]) -> Groups:
    """Put the rows of instances that pass WHERE into groups by the named columns."""
    places = closing.places
    passed = rows.passed.view()[places]
    if passed.all():
        inside, lows, highs = np.arange(len(places)), closing.lows, closing.highs
    else:
        inside = np.flatnonzero(passed)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(passed)])
        places, lows, highs = places[inside], before[closing.lows], before[closing.highs]
    if not keys:
        return Groups(places, np.arange(len(closing)), lows, highs)
    codes, size = dense_codes([rows.columns[name].take(places) for name in keys])
    order, firsts = sort_codes(codes, size)
    return Groups(places[order], *find_groups(order, firsts, lows, highs))


def dense_codes(arrays: list[pa.Array]) -> tuple[Vector, int]:
    """Number the different combinations of values in the order they appear; return the numbers and how many.

    NULL is a value like any other here, -0.0 is 0.0, and NaN equals itself.

    >>> dense_codes([pa.array([0.0, None, -0.0, None]), pa.array(["a", "a", "a", "b"])])
    (array([0, 1, 0, 2]), 3)
    """
    codes, size = _dense(arrays[0])
    for array in arrays[1:]:
        own, more = _dense(array)
        codes, size = _dense(pa.array(codes * more + own))
    return codes, size


def _dense(array: pa.Array) -> tuple[Vector, int]:
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64), 1
    if pa.types.is_floating(array.type):
        coded = code(array)
        array = pa.array(coded.values, mask=None if coded.valid is None else ~coded.valid)
    encoded = array.dictionary_encode("encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)
