"""Conversion: from complete relations to deltas, by the operator whose output it is; the way back is a bag.

complete ──▶ the last relation is held, and compared ──▶ delta
"""

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.bag import cancel
from midstream.operators.hopping.tuples import Tuples, nothing, together, valid
from midstream.operators.source.memory import check_room

COMPARED_BYTES = 64
"""What a row of an answer takes while it is compared with another answer; one of the other takes half of it."""


class Compare:
    """The relation as it was; says what is new and what has gone before its time."""

    def __init__(self, width: int) -> None:
        self.last = nothing(width, False)

    def delta(self, now_us: int, complete: Tuples) -> Tuples:
        """Return what has come and gone since the last time."""
        last, self.last = valid(self.last, now_us), own(complete)
        new, gone = cancelled(complete.rows, complete.until, last.rows, last.until, True)
        return together([complete.where(new).signed(1), last.where(gone).signed(-1)])


def cancelled(rows: Matrix, until: Vector, other: Matrix, other_until: Vector, by_until: bool) -> tuple[Mask, Mask]:
    """Return which rows of two bags are left when equal ones cancel out: see `cancel`."""
    check_room(COMPARED_BYTES * len(rows) + (COMPARED_BYTES // 2) * len(other), "answers that are compared")
    found: tuple[Mask, Mask] = cancel(rows, until, other, other_until, by_until)
    return found


def own(tuples: Tuples) -> Tuples:
    """Return tuples that nobody else changes: a view of what another operator holds is copied."""
    if tuples.rows.base is None and tuples.until.base is None:
        return tuples
    check_room(tuples.rows.nbytes + tuples.until.nbytes, "an answer that is kept for the next one")
    return Tuples(tuples.rows.copy(), tuples.until.copy(), tuples.signs)
