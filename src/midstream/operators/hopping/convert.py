"""Conversion: from deltas to the complete relation and back, by the operator whose output it is.

delta    ──▶ Cache: what is valid is held, and brought up to date ──▶ complete
complete ──▶ Compare: the last relation is held, and compared     ──▶ delta
"""

import numpy as np

from midstream.kernels.bag import cancel
from midstream.operators.hopping.bag import Bag
from midstream.operators.hopping.tuples import Tuples, nothing, together


class Cache:
    """The relation that deltas add up to."""

    def __init__(self, width: int) -> None:
        self.bag = Bag(width, np.arange(width))

    def apply(self, now_us: int, delta: Tuples) -> None:
        """Take in what comes and goes until a time."""
        self.bag.expire(now_us)
        self.bag.apply(delta)

    def complete(self) -> Tuples:
        """Return the relation."""
        return self.bag.all()


class Compare:
    """The relation as it was; says what is new and what has gone before its time."""

    def __init__(self, width: int) -> None:
        self.last = nothing(width, False)

    def delta(self, now_us: int, complete: Tuples) -> Tuples:
        """Return what has come and gone since the last time."""
        last, self.last = self.last, own(complete)
        new, gone = cancel(complete.rows, complete.until, last.rows, last.until, True)
        gone &= last.until >= now_us
        return together([complete.where(new).signed(1), last.where(gone).signed(-1)])


def own(tuples: Tuples) -> Tuples:
    """Return tuples that nobody else changes: a view of what another operator holds is copied."""
    if tuples.rows.base is None and tuples.until.base is None:
        return tuples
    return Tuples(tuples.rows.copy(), tuples.until.copy(), tuples.signs)
