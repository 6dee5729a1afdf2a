"""Restart: after a crash, take the window rows in again and leave the intermediate states to be completed on demand."""

from midstream.migrate.gap import Gap
from midstream.migrate.just_in_time import JustInTime
from midstream.migrate.match import Matching
from midstream.migrate.migrator import RECOVERY, Migrator
from midstream.migrate.record import RUNNING, MigrationRecord
from midstream.model.batch import Arrival
from midstream.model.coverage import Coverage
from midstream.operators.sliding.key_set import KeySet
from midstream.operators.sliding.tree import JoinTree


def take_in_again(migrator: Migrator, arrivals: dict[str, Arrival], now_us: int, seq: int) -> None:
    """Take in rows that have been through the joins before: they enter the states of their sources only."""
    pipeline = migrator.pipeline
    tree = pipeline.execution
    assert isinstance(tree, JoinTree)
    for change in pipeline.sources.expire(now_us, seq):
        tree.renumber(change)
    taken = pipeline.sources.take_in(arrivals)
    for step, side, _ in tree.inputs():
        leaf = step.inputs[side].leaf
        if leaf is not None:
            step.join.fill(side, taken[leaf.alias].batch(leaf), now_us, seq)
    migrator.last_us = max((int(a.times[-1]) for a in arrivals.values() if len(a)), default=migrator.last_us)


def go_on(migrator: Migrator, now_us: int, seq: int) -> None:
    """Declare the intermediate states incomplete since now, to be completed just in time."""
    pipeline = migrator.pipeline
    tree = pipeline.execution
    assert isinstance(tree, JoinTree)
    position = pipeline.sources.position(seq + 1, now_us)
    gaps = {}
    for step, side, state in tree.inputs():
        if step.inputs[side].leaf is None:
            state.coverage = Coverage(position.seq)
            gaps[step.inputs[side].parts] = Gap(position, KeySet())
    if not gaps:
        return
    matching = Matching(missing=list(gaps))
    execution = JustInTime(tree, pipeline.sources, gaps, matching)
    execution.completion.count_all(now_us, seq)
    record = MigrationRecord("", str(migrator.plan), RECOVERY, state=RUNNING, from_plan=str(migrator.plan))
    record.position_us, record.position_seq = now_us, seq + 1
    pipeline.execution = execution
    migrator.resume(record)
