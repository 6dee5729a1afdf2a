"""Text order: the ranks of strings in the order of their bytes, found by sorting numbers where that tells.

what all begin with is passed over ──▶ eight bytes of each, sorted ──▶ a few groups are alike: each for itself
                                                                  └──▶ many are: these strings are compared whole
"""

import numpy as np
import pyarrow.compute as pc

from midstream.kernels.arrays import Mask, Vector
from midstream.operators.hopping.numbered import Numbered

FEW = 16
"""Groups that are looked at one by one."""
DEEPEST = 3
"""How often a group is split again. Comparing strings whole takes several times as long as sorting numbers."""


def text_ranks(known: Numbered, numbers: Vector) -> Vector:
    """Return the rank of the value of each number from 1 on; equal values have one."""
    order, begins = _in_order(known, numbers, 0)
    out = np.empty(len(numbers), np.int64)
    out[order] = np.cumsum(begins)
    return out


def _in_order(known: Numbered, numbers: Vector, depth: int) -> tuple[Vector, Mask]:
    """Return the places of numbers in the order of their values, and where in that order another value begins."""
    keys = known.words(numbers, known.shared(numbers))
    order = np.argsort(keys)
    keys, held = keys.take(order), numbers.take(order)
    begins = np.ones(len(order), np.bool_)
    begins[1:] = keys[1:] != keys[:-1]
    groups = np.cumsum(begins) - 1
    alike = np.unique(groups[1:][~begins[1:] & (held[1:] != held[:-1])])
    """Groups of different values that are not told apart."""
    if len(alike) <= FEW and depth < DEEPEST:
        starts = np.append(np.flatnonzero(begins), len(order))
        for group in alike.tolist():
            part = slice(starts[group], starts[group + 1])
            lines = order[part]
            again, begins[part] = _in_order(known, numbers.take(lines), depth + 1)
            order[part] = lines.take(again)
    else:
        is_alike = np.zeros(len(order), np.bool_)
        is_alike[alike] = True
        places = np.flatnonzero(is_alike.take(groups))
        lines = order.take(places)
        ranks = np.asarray(pc.rank(known.values(numbers.take(lines), None, large=True), tiebreaker="dense").to_numpy())
        again = np.argsort(ranks)  # groups are in order already
        order[places], ranks = lines.take(again), ranks.take(again)
        begins[places[1:][ranks[1:] != ranks[:-1]]] = True
    return order, begins
