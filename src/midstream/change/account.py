"""Account: what really happened in a change, counted on the results themselves as they leave.

results of all versions in the order they leave ──▶ disorder of both kinds, duplicates, extra results, response
results that did not leave but belong to the reference ──▶ loss
"""

import time

import numpy as np
import numpy.typing as npt

from midstream.change.merger import Emission
from midstream.change.prints import Prints
from midstream.change.record import FINISHED, ChangeRecord
from midstream.change.request import DRAIN, GRACEFUL, GRACEFUL_DRAIN, QUERY_ORDER
from midstream.change.trigger import TRIGGER, earlier, left_before
from midstream.model.time import FOREVER

Mask = npt.NDArray[np.bool_]
LATE_EMISSIONS = 4
"""After so many emissions all buckets know that the old version drains, and report its end in time."""
LeftAt = tuple[int, float]
"""When something left: event time, and the clock."""


class Account:
    """The counting of one change.

    State: the latest trigger that has left. Only a graceful change keeps fingerprints: by other methods no result of
    the old version is over new rows alone, so that no result of the new one can repeat it.
    """

    def __init__(
        self, record: ChangeRecord, old: tuple[int, ...], new: int, position_us: int, last_left: LeftAt | None = None
    ) -> None:
        self.record = record
        self._old, self._new, self._position_us = old, new, position_us
        self.latest: tuple[int, ...] = (-(2**63),) * TRIGGER
        self.old_prints, self.new_prints = Prints(), Prints()
        self.drained_from_us: int = FOREVER
        """Where the old version began to drain, of a graceful drain; results over later rows alone are not repeated."""
        self.uncertain: list[npt.NDArray[np.int64]] = []
        """Times of new results that left when buckets did not know yet that the old version drains, or no later hop
        had shown whether it does."""
        self.ends_late = False
        """An old version hops: that its drain is over is known at the next hop."""
        self.valued = False
        """A version hops: duplicates are equal rows, too."""
        self.last_old = last_left
        self.first_new: LeftAt | None = None

    @property
    def listens(self) -> bool:
        """Return whether there is something to count in what leaves after the change is over."""
        return self.first_new is None or len(self.old_prints) > 0

    def on_emission(self, emission: Emission) -> None:
        """Count results that leave; the record says whether the change is over, and since when."""
        old = np.isin(emission.versions, self._old) & ~left_before(emission.triggers, self._position_us)
        new = emission.versions == self._new
        if not (old.any() or new.any()):
            return
        before = self.first_new is not None
        self._time(emission, old, new)
        self._count(emission, old, new, before)
        self._repeated(emission, old, new)
        last = emission.triggers[np.flatnonzero(old | new)[-1]]
        self.latest = max(self.latest, tuple(int(x) for x in last))

    def _count(self, emission: Emission, old: Mask, new: Mask, before: bool) -> None:
        record = self.record
        triggers = emission.triggers
        record.old_results += int(old.sum())
        in_time = new
        if record.state == FINISHED:
            assert record.ended_us is not None, "it is over"
            in_time = new & (triggers[:, 0] < record.ended_us)
        record.new_results += int(in_time.sum())
        early = record.method == GRACEFUL_DRAIN and len(self.uncertain) < LATE_EMISSIONS
        if new.any() and record.state != FINISHED and (self.ends_late or early):
            self.uncertain.append(triggers[new, 0])
        if (record.method, record.order) == (DRAIN, QUERY_ORDER):
            record.rows_held = int(in_time.sum()) + (record.rows_held if before else 0)
        first = 0 if before else int(new.argmax()) if new.any() else len(new)
        record.query_disorder += int(old[first:].sum())
        record.stream_disorder += int(((old | new) & earlier(triggers, self.latest)).sum())

    def _repeated(self, emission: Emission, old: Mask, new: Mask) -> None:
        """Count pairs over the same rows: of the old version only what holds no row from before can be in one."""
        extra = old & (emission.lineage.oldest_us >= self._position_us)
        self.record.extra += int(extra.sum())
        if self.record.method not in GRACEFUL:
            return
        lineage = emission.lineage.with_values() if self.valued else emission.lineage
        repeats, repeated = lineage.where(extra), lineage.where(new)
        self.record.duplicates += self.new_prints.pairs(repeats.prints)
        self.old_prints.add(repeats)
        self.record.duplicates += self.old_prints.pairs(repeated.prints)
        if self.record.method == GRACEFUL_DRAIN and self.record.state != FINISHED:
            self.new_prints.add(repeated.where(repeated.oldest_us < self.drained_from_us))

    def _time(self, emission: Emission, old: Mask, new: Mask) -> None:
        clock = time.perf_counter()
        # What had to wait for others left with the last of them.
        left = np.maximum(emission.triggers[:, 0], self.latest[0])
        if old.any():
            self.last_old = (int(left[np.flatnonzero(old)[-1]]), clock)
        if new.any() and self.first_new is None:
            self.first_new = (int(left[new.argmax()]), clock)
            self.record.first_result_us = self.first_new[0]

    def not_over(self, time_us: int) -> None:
        """Know that the change is not over before a time: what left until then has been counted rightly."""
        left = [times_us[times_us >= time_us] for times_us in self.uncertain]
        self.uncertain = [times_us for times_us in left if len(times_us)]

    def correct(self, ended_us: int) -> None:
        """Take back what was counted of new results that left after the end, which was known a little later."""
        self.record.new_results -= sum(int((times_us >= ended_us).sum()) for times_us in self.uncertain)
        self.uncertain = []

    def forget(self, before_us: int) -> None:
        """Drop fingerprints of results that the new version cannot repeat: it holds no row from before a time."""
        self.old_prints.forget(before_us)

    def lose(self, count: int) -> None:
        """Count results of the reference that did not leave."""
        self.record.loss = (self.record.loss or 0) + count

    def close(self) -> None:
        """Complete the record."""
        if self.last_old is not None and self.first_new is not None:
            self.record.response_us = self.first_new[0] - self.last_old[0]
            self.record.response_ms = (self.first_new[1] - self.last_old[1]) * 1000
