"""Account: what really happened in a change, counted on the results themselves as they leave.

results of all versions in the order they leave ──▶ disorder of both kinds, duplicates, extra results, response
results that did not leave but belong to the reference ──▶ loss
"""

import time
from collections import Counter

import numpy as np
import numpy.typing as npt

from midstream.change.gatekeeper import left_before
from midstream.change.merger import TRIGGER, Emission
from midstream.change.record import ChangeRecord

Matrix = npt.NDArray[np.int64]


class Account:
    """The counting of one change.

    State: the latest trigger that has left, and fingerprints of results that another version may repeat.
    """

    def __init__(
        self,
        record: ChangeRecord,
        old: tuple[int, ...],
        new: int,
        position_us: int,
        last_left: tuple[int, float] | None = None,
    ) -> None:
        self.record = record
        self._old, self._new, self._position_us = old, new, position_us
        self.latest: tuple[int, ...] = (-(2**63),) * TRIGGER
        self.prints: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
        self.last_old = last_left
        self.after_old_us: int | None = None
        """The first position after every result of an old version that has left."""
        self.first_new: tuple[int, float] | None = None

    def on_emission(self, emission: Emission) -> None:
        """Count results that leave."""
        old = np.isin(emission.versions, self._old) & ~left_before(emission.triggers, self._position_us)
        new = emission.versions == self._new
        before = self.first_new is not None
        self._time(emission, old, new)
        self._count(emission, old, new, before)

    def _count(self, emission: Emission, old: npt.NDArray[np.bool_], new: npt.NDArray[np.bool_], before: bool) -> None:
        record = self.record
        record.old_results += int(old.sum())
        record.new_results += int(new.sum())
        first = 0 if before else int(new.argmax()) if new.any() else len(new)
        record.query_disorder += int(old[first:].sum())
        mine = old | new
        record.stream_disorder += int((mine & earlier(emission.triggers, self.latest)).sum())
        if mine.any():
            last = emission.triggers[np.flatnonzero(mine)[-1]]
            self.latest = max(self.latest, tuple(int(x) for x in last))
        extra = old & (emission.lineage.oldest_us >= self._position_us)
        record.extra += int(extra.sum())
        # Only these can be over the same rows as a result of the new version.
        for mask, is_old in ((extra, True), (new, False)):
            found = Counter(emission.lineage.prints[mask].tolist())
            others = self.prints[not is_old]
            record.duplicates += sum(count * others[print_] for print_, count in found.items())
            self.prints[is_old] += found

    def _time(self, emission: Emission, old: npt.NDArray[np.bool_], new: npt.NDArray[np.bool_]) -> None:
        clock = time.perf_counter()
        # What had to wait for others left with the last of them.
        left = np.maximum(emission.triggers[:, 0], self.latest[0])
        if old.any():
            self.last_old = (int(left[np.flatnonzero(old)[-1]]), clock)
            # What time alone brings leaves before the rows of that time.
            after = emission.triggers[:, 0] + (emission.triggers[:, 1] >= 0)
            self.after_old_us = max(
                [int(after[old].max()), *([] if self.after_old_us is None else [self.after_old_us])]
            )
        if new.any() and self.first_new is None:
            self.first_new = (int(left[new.argmax()]), clock)
            self.record.first_result_us = self.first_new[0]

    def lose(self, count: int) -> None:
        """Count results of the reference that did not leave."""
        self.record.loss = (self.record.loss or 0) + count

    def close(self) -> None:
        """Complete the record."""
        if self.last_old is not None and self.first_new is not None:
            self.record.response_us = self.first_new[0] - self.last_old[0]
            self.record.response_ms = (self.first_new[1] - self.last_old[1]) * 1000


def earlier(triggers: Matrix, than: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Return which triggers come before a given one.

    >>> earlier(np.array([[1, 0, 5], [2, 0, 3], [2, 0, 4]]), (2, 0, 4))
    array([ True,  True, False])
    """
    out = np.zeros(len(triggers), np.bool_)
    same = np.ones(len(triggers), np.bool_)
    for k, value in enumerate(than):
        out |= same & (triggers[:, k] < value)
        same &= triggers[:, k] == value
    return out
