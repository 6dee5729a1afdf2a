"""Drains in a bucket: which are over, and which changes that are over still matter to what leaves here.

results, drains that are over ──▶ control manager of the bucket ──▶ versions that drain, start or stop
                           └──▶ reported to where all buckets meet
"""

from collections.abc import Sequence

from midstream.change.request import GRACEFUL
from midstream.engine.bucket.version import VersionInBucket
from midstream.engine.bucket.versions import BucketVersions
from midstream.engine.results.output import Leaving
from midstream.model.time import NEVER


class Drains:
    """Follows first results and the ends of drains."""

    def __init__(self, versions: BucketVersions) -> None:
        self._versions = versions
        self._control = versions.control
        self.over: list[tuple[int, int, int, int]] = []
        """Drains that were over in this micro-batch: version, position, since when, and when that was known."""
        self._answered: set[int] = set()
        """Versions of which a result has left here."""

    def begin_batch(self) -> None:
        """Start reporting for a micro-batch."""
        self.over = []

    def see(self, version: VersionInBucket, fresh: Sequence[Leaving]) -> None:
        """Take notice of results; they matter here where first results are decided here."""
        if not fresh:
            return
        control = self._control
        self._answered.add(version.number)
        if control.decides and any(c.waits_for_result for c in control.open_changes):
            control.see(version.number, [item.results for item in fresh])

    def follow(self) -> None:
        """Let first results and ended drains take effect where that is decided here; watch for further ends."""
        if self._control.untouched:
            return
        for number, version in self._versions.open.items():
            position_us = version.run.drain_us
            over = None if position_us is None else version.run.drained()
            if over is None or position_us is None or (number < 0 and not self._same(number)):
                continue
            if (number, position_us, *over) not in self.over:
                self.over.append((number, position_us, *over))
            # Others have to say when a drain of all buckets together is over.
            if version.run.drains_with_others and not self._versions.spec.alone:
                continue
            if number > 0:
                self._control.see_drained(number, position_us, *over)
            else:
                self._control.end_reference(-number)
        self._control.follow()
        self._versions.watch()

    def _same(self, number: int) -> bool:
        """Return whether a version and its reference are alike: from here on they give the same."""
        reference, version = self._versions.open[number], self._versions.open.get(-number)
        if version is None:
            return True
        return version.state.released_us == reference.state.released_us and reference.run.same_as(version.run)

    def forget_passed(self) -> None:
        """Let versions that wait for a drain forget the rows from before where it can be over: they start there."""
        versions, lives = self._versions.open, self._control.lives
        for change in self._control.open_changes:
            if change.waits_for_drain and change.new in versions:
                runs = [versions[v].run for v in change.old if v in versions and lives[v].alive]
                drains = [run.not_drained_us for run in runs if run.drain_us is not None]
                versions[change.new].intake.start_at(max(drains, default=NEVER))

    def oldest(self) -> dict[str, int]:
        """Return how old the rows are that versions hold whose results may repeat others."""
        versions = self._versions.open
        graceful = [c.new for c in self._control.changes if c.counts and c.request.method in GRACEFUL]
        return {str(new): versions[new].run.oldest_us for new in graceful if new in versions}

    def stop_following(self) -> None:
        """Note changes that are over, and to which nothing matters any more that leaves here."""
        for change in self._control.changes:
            ended_us = change.record.ended_us
            if change.open or change.followed or ended_us is None:
                continue
            version = self._versions.open.get(change.new)
            graceful = change.request.method in GRACEFUL
            repeats = version is not None and graceful and version.run.oldest_us < ended_us
            change.followed = version is None or (change.new in self._answered and not repeats)
