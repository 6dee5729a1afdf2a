"""Gatekeeper: which results of a version may leave, by its control elements.

No operator knows of them: results say what made them leave and how old their oldest row is.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from midstream.change.lifecycle import Life
from midstream.change.trigger import left_before


@dataclass(frozen=True)
class Gatekeeper:
    """The gate of one version."""

    life: Life

    def lets_out(
        self, order: npt.NDArray[np.int64] | None, oldest_us: npt.NDArray[np.int64] | None, count: int
    ) -> npt.NDArray[np.bool_] | None:
        """Return which results may leave, by what made them leave and their oldest row; None: all of them."""
        life = self.life
        if (life.stop_us is None and life.drain_us is None) or order is None or oldest_us is None or not count:
            return None
        keep = np.ones(count, np.bool_)
        if life.drain_us is not None:
            keep &= (oldest_us < life.drain_us) | _left(order, life.drain_us, life.drained_by_result)
        if life.stop_us is not None:
            keep &= _left(order, life.stop_us, life.stopped_by_result)
        return keep


def _left(order: npt.NDArray[np.int64], at_us: int, by_result: bool) -> npt.NDArray[np.bool_]:
    """Return which results left before an element; before one that a result caused, at an earlier time."""
    return order[:, 0] < at_us if by_result else left_before(order, at_us)
