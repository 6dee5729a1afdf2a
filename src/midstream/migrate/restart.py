"""Restart: after a crash, take the window rows in again and leave the intermediate states to be completed on demand."""

from collections.abc import Mapping
from dataclasses import dataclass

from midstream.migrate.gap import Gap
from midstream.migrate.just_in_time import JustInTime
from midstream.migrate.match import Matching, Moment
from midstream.migrate.migrator import RECOVERY, Migrator
from midstream.migrate.record import RUNNING, MigrationRecord
from midstream.model.batch import Arrival
from midstream.operators.contract.execution import Parts, Progress, Switched
from midstream.operators.sliding.tree import JoinTree
from midstream.operators.source.sources import Sources


def refill(migrator: Migrator, arrivals: dict[str, Arrival], now_us: int, seq: int) -> None:
    """Take in rows that have brought their results before; for executions that do not `replay` them."""
    pipeline = migrator.pipeline
    for change in pipeline.sources.expire(now_us, seq):
        pipeline.execution.renumber(change)
    pipeline.execution.refill(pipeline.sources.take_in(arrivals), now_us, seq)
    migrator.last_us = max((int(a.times[-1]) for a in arrivals.values() if len(a)), default=migrator.last_us)


def resume(migrator: Migrator, now_us: int, seq: int) -> None:
    """Go on after all rows are refilled: intermediate states are incomplete since now, and completed just in time."""
    pipeline = migrator.pipeline
    switched = pipeline.execution.switch_plan(
        _Restart(pipeline.execution.components, pipeline.sources, Moment(now_us, seq))
    )
    if not switched.progress.states_incomplete:
        return
    pipeline.execution = switched.execution
    record = MigrationRecord("", str(migrator.plan), RECOVERY, state=RUNNING, from_plan=str(migrator.plan))
    record.position_us, record.position_seq = now_us, seq + 1
    migrator.resume(record)


@dataclass(frozen=True)
class _Restart:
    """The same plan again, with nothing but the rows of its sources."""

    order: tuple[str, ...]
    sources: Sources
    moment: Moment

    def rebuild(self, tree: JoinTree, gaps: Mapping[Parts, Gap]) -> Switched:
        """Declare every intermediate state of a tree incomplete."""
        position = self.sources.position(self.moment.seq + 1, self.moment.now_us)
        inputs = [source for step in tree.steps for source in step.inputs]
        missing = {source.parts: Gap(position) for source in inputs if source.leaf is None}
        if not missing:
            return Switched(tree, Progress())
        running = JustInTime(tree, self.sources, missing, Matching(missing=list(missing)), self.moment)
        return Switched(running, running.progress())
