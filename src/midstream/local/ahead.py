"""Ahead: rows of a recorded stream whose time is too far ahead are set aside, unless what follows bears them out.

    chunks ──▶ step forward longer than allowed? ──▶ do most of the next rows follow? ──▶ counts; if not, set aside

State: the largest time that counts, and the last rows read, which the next ones have yet to bear out.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from midstream.engine.rows.rows import Rows, Vector, in_arrival_order
from midstream.model.time import NEVER

WITNESSES = 20
"""Rows after one that is too far ahead: it counts if most of them are not earlier, by more than it may be ahead."""
STEP = 4096
"""Rows looked at together for one that is too far ahead."""


class AheadFilter:
    """Tells rows of one stream that count from those that are too far ahead.

    The first row is borne out by the next ones alone. Of the last row of a stream, which nothing follows, `others` say
    whether they have come as far.
    """

    def __init__(self, ahead_us: int, others: Callable[[int], bool] | None = None) -> None:
        self.largest_us = NEVER
        self._ahead_us = ahead_us
        self._others = others
        self._undecided: Rows | None = None

    def take(self, chunk: Rows | None) -> tuple[Rows | None, Rows | None]:
        """Take the next rows, None at the end; return rows that count and rows that are too far ahead."""
        rows = chunk if self._undecided is None else self._undecided
        if chunk is not None and self._undecided is not None:
            rows = in_arrival_order([self._undecided, chunk])
        if rows is None:
            return None, None
        decided = len(rows) if chunk is None else max(len(rows) - WITNESSES, 0)
        far = self._far(rows.times, decided)
        self._undecided = rows.between(decided, len(rows)) if chunk is not None else None
        now = rows.between(0, decided)
        return (now, None) if not far.any() else (now.where(~far), now.where(far))

    def _far(self, times: Vector, decided: int) -> npt.NDArray[np.bool_]:
        """Tell which of the first rows, so many, are too far ahead."""
        far, start = np.zeros(decided, np.bool_), 0
        while start < decided:
            part = times[start : min(start + STEP, decided)]
            before = np.maximum.accumulate(np.concatenate([[self.largest_us], part]))
            # Times near the ends of int64 must not wrap around.
            bound = np.where(before[:-1] > NEVER, np.maximum(before[:-1], NEVER + 1), NEVER)
            steps = np.flatnonzero((part > bound) & ((bound == NEVER) | (part - bound > self._ahead_us)))
            until = int(steps[0]) if len(steps) else len(part)
            self.largest_us = int(before[until])
            start += until
            if until < len(part):
                if self._borne_out(times, start):
                    self.largest_us = max(self.largest_us, int(times[start]))
                else:
                    far[start] = True
                start += 1
        return far

    def _borne_out(self, times: Vector, place: int) -> bool:
        """Tell whether a row that is far ahead counts."""
        time_us = int(times[place])
        after = times[place + 1 : place + 1 + WITNESSES]
        if not len(after):
            others = self._others
            return self.largest_us == NEVER or (others is not None and others(time_us - self._ahead_us))
        return 2 * int(np.count_nonzero(after >= time_us - self._ahead_us)) > len(after)
