"""Groups: the rows of window instances that belong together, as ranges that move forward only.

rows of the instances ──▶ WHERE ──▶ by group, in order ──▶ for each group: its instances and their ranges
"""

from dataclasses import dataclass

import numpy as np

from midstream.kernels.arrays import Vector
from midstream.kernels.instances import find_groups, sort_codes
from midstream.operators.aggregate.instances import Closing
from midstream.operators.aggregate.stage_rows import StageRows
from midstream.operators.expression.codes import dense_codes


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
    codes, size = dense_codes([rows.columns[name].take(places, large=True) for name in keys])
    order, firsts = sort_codes(codes, size)
    return Groups(places[order], *find_groups(order, firsts, lows, highs))
