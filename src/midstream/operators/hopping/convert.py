"""Conversion: from complete relations to deltas, by the operator whose output it is; the way back is a bag.

complete ──▶ the last relation is held, and compared ──▶ delta
"""

from midstream.kernels.bag import cancel
from midstream.operators.hopping.tuples import Tuples, nothing, together, valid


class Compare:
    """The relation as it was; says what is new and what has gone before its time."""

    def __init__(self, width: int) -> None:
        self.last = nothing(width, False)

    def delta(self, now_us: int, complete: Tuples) -> Tuples:
        """Return what has come and gone since the last time."""
        last, self.last = valid(self.last, now_us), own(complete)
        new, gone = cancel(complete.rows, complete.until, last.rows, last.until, True)
        return together([complete.where(new).signed(1), last.where(gone).signed(-1)])


def own(tuples: Tuples) -> Tuples:
    """Return tuples that nobody else changes: a view of what another operator holds is copied."""
    if tuples.rows.base is None and tuples.until.base is None:
        return tuples
    return Tuples(tuples.rows.copy(), tuples.until.copy(), tuples.signs)
