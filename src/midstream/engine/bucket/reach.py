"""Reach: how far the versions of a query go in a micro-batch, which is the same in all buckets.

    how far streams have come ──▶ each version: its own streams ──▶ those that live go together, as far as the slowest
                                                            └──▶ those that only count go on their own

A bucket may have nothing left to do for a version that drains, while others have. What takes effect where, and which
hops there are, must not depend on that. State: how far the versions that live have got.
"""

from midstream.engine.bucket.versions import BucketVersions
from midstream.model.time import NEVER


class Reach:
    """How far versions go in one bucket."""

    def __init__(self, versions: BucketVersions) -> None:
        self._versions = versions
        self._state = versions.state
        self._control = versions.control

    def safe_us(self, drain: bool) -> int:
        """Return up to where all rows have come, for the versions that live: here, or in another bucket.

        Where none lives, nothing is waited for. `drain`: nothing is waited for in any case.
        """
        nobody_us = max(self._state.progress.latest_us, self._state.reached_us)
        return min((self.of(life.version, drain) for life in self._control.alive), default=nobody_us)

    def of(self, number: int, drain: bool) -> int:
        """Return up to where all rows of a version have come; no less than where it has got."""
        spec, progress = self._versions.spec, self._state.progress
        start_us, version = self._versions.start_us(number), self._versions.open.get(number)
        got_us = self._state.reached_us if version is None else version.state.released_us
        got_us = max(got_us, NEVER if start_us is None else start_us)
        if drain and progress.high:
            return max(progress.latest_us + 1, got_us)
        positions = {source.position for source in spec.plan_of(abs(number)).query.sources}
        return max(progress.safe_us(positions, spec.timings), got_us)

    def note(self, upto_us: int) -> None:
        """Note how far the versions that live have got, when those that run here were run up to a time."""
        numbers = [life.version for life in self._control.alive]
        here = [self._versions.open[n].state.released_us for n in numbers if n in self._versions.open]
        # Those that have nothing left to do here go on elsewhere, as far as all others.
        self._state.reached_us = min(here, default=max(self._state.reached_us, upto_us))
