"""One version of a query in one bucket and one micro-batch: release what is in order, run it, keep what must last.

packed rows ──▶ late? ──▶ wait ──▶ released in order ──▶ operators ──▶ results
                                        │                    │
                                        └──▶ durable window rows, of sources and of stages
"""

from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from midstream.change.request import ChangeRequest, ControlRequest
from midstream.engine.numbering import number_rows
from midstream.migrate.migrator import Migrator
from midstream.migrate.record import REFUSED, MigrationRecord
from midstream.migrate.request import MigrationRequest
from midstream.model.batch import Arrival
from midstream.model.errors import MidstreamError
from midstream.model.time import FOREVER, NEVER
from midstream.operators.build import TREE, build
from midstream.operators.contract.pipeline import Pipeline
from midstream.operators.snapshot import put_together, take_apart
from midstream.plan.nodes import MethodChoice
from midstream.plan.plan import Plan, ordered_plan
from midstream.plan.tree import parse_tree
from midstream.spark.blobs import Rows, in_order
from midstream.spark.control import MIGRATE
from midstream.spark.course import Course
from midstream.spark.durable import DurableBucket, Head, StageState, Store
from midstream.spark.intake import Intake, Packed
from midstream.spark.mapped import MappedState

Request = MigrationRequest | ChangeRequest | ControlRequest
RESULT, EVENT, LATE = 0, 1, 2
"""Kinds of output lines."""


@dataclass(frozen=True)
class BucketSpec:
    """What all buckets of a query share."""

    plan: Plan
    lateness_us: dict[int, int]
    """Allowed lateness per stream position."""
    mapped_folder: str
    ordered: bool
    recorded: bool
    first_label: int
    """The bucket that counts rows every bucket gets."""
    framework: str = TREE
    routing: str = "selectivity"
    schedule: tuple[Request, ...] = ()
    """What is to happen in a rehearsal, in order of time."""
    batches: int | None = None
    """In a rehearsal: after how many micro-batches nothing more comes."""
    versions: tuple[Plan, ...] = ()
    """In a rehearsal: the plans of the changes in the schedule."""
    repository: str | None = None
    """In a live query: the folder its later versions are in."""
    last_us: dict[int, int] = field(default_factory=dict)
    """In a rehearsal: per stream position the time of its last row."""
    labels: tuple[int, ...] = ()
    """What all buckets are called."""


class VersionBucket:
    """One version in one bucket, for the length of one micro-batch."""

    def __init__(
        self, spec: BucketSpec, label: int, store: Store, head: Head, version: int, mapped: MappedState, traced: bool
    ) -> None:
        self.spec = spec
        self.label = label
        self.version = version
        self.durable = DurableBucket(store, head, version)
        self.sources = spec.plan.query.sources
        self.intake = Intake(spec.plan, self.durable, spec.lateness_us, spec.recorded, version)
        self._mapped = mapped
        self._traced = traced
        self.rows_in = 0

    def open(self, packed: Packed, start_us: int | None) -> None:
        """Take in what a micro-batch brings, without the rows before the start of the version."""
        self.intake.take_in(packed, start_us)
        self.course, self.rebuilt = self._attach()
        self.migrator = self.course.migrator
        self.migrator.pipeline.trace(self._traced)
        self.course.version = self.version
        self._tested = self.migrator.pipeline.predicate_evaluations

    def go_on_from(self, before: "VersionBucket") -> None:
        """Take over the rows that wait, and what has come out, from before the version started anew."""
        self.intake.go_on_from(before.intake)
        self.course.leaving = before.course.leaving
        self.rows_in = before.rows_in

    def advance(self, upto_us: int, clock_us: int, count_from_us: int = NEVER) -> None:
        """Run the rows below a time through the operators; time itself has come to `clock_us`.

        Rows before `count_from_us` were counted in another version.
        """
        course, head = self.course, self.durable.head
        released = self.intake.release(upto_us)
        for rank, rows in released.items():
            if self.counts(rank):
                self.rows_in += len(rows) - int(np.searchsorted(rows.times, count_from_us))
        if released:
            course.run(self._number(released, course.next_seq))
        course.advance(head.released_us)
        course.tick(min(clock_us, upto_us))

    def watch(self, position_us: int) -> None:
        """Watch from now on for the end of what began before a position."""
        if not self.migrator.pipeline.drains:
            self.migrator.pipeline.drain(position_us)

    def drained_us(self) -> int | None:
        """Return from which time on nothing from before the watched position is left; None: there may be."""
        pipeline = self.migrator.pipeline
        return pipeline.drained_us(self.course.next_seq - 1) if pipeline.drains else None

    def close(self, drain: bool, last: bool) -> bool:
        """Keep what must last; return whether the states are shared with other workers of this host."""
        head, course = self.durable.head, self.course
        self.migrator.work(course.next_seq - 1)
        if drain or last:
            course.end()
        if last:
            course.give_up()
        self.intake.keep()
        self.intake.let_go(self.migrator.pipeline.expires_upto_us(self.migrator.last_us, head.released_us))
        self._keep_stages()
        self._remember(course)
        head.rows_in += self.rows_in
        self.durable.commit()
        return self._mapped.publish(head.token, *take_apart((self.migrator, course.next_seq)))

    def told(self) -> dict[str, Any]:
        """Return what there is to tell of this micro-batch."""
        size = self.migrator.pipeline.size()
        tested = self.migrator.pipeline.predicate_evaluations - self._tested
        return {
            "waiting": sum(self.durable.head.pending.values()), "predicate_evaluations": tested,
            "state_tuples": size.tuples, "state_bytes": size.nbytes,
        }  # fmt: skip

    def _keep_stages(self) -> None:
        """Write down what the windows over the results have taken in."""
        for k, stage in enumerate(self.migrator.pipeline.stages):
            anew = stage.sparse
            rows = stage.needed_rows() if anew else stage.fresh_rows()
            counters = stage.counters()
            state = StageState([], counters, stage.first_number, counters["next"])
            self.durable.keep_stage(k, rows, state, anew)

    def _restore_stages(self, pipeline: Pipeline) -> None:
        head = self.durable.head
        for k, stage in enumerate(pipeline.stages):
            if k in head.stages:
                tables = self.durable.stage_rows(k)
                rows = pa.concat_tables(tables) if tables else pa.table({})
                stage.restore(rows, head.stages[k].counters)

    def ask(self, controls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Note the migrations that control rows ask for, from here on; return the records of those refused."""
        head, refused = self.durable.head, []
        for control in controls:
            if control["do"] != MIGRATE:
                continue
            try:
                asked = MigrationRequest(**{**control["migration"], "identity": control["id"]})
                asked = replace(asked, at_us=max(head.released_us, -FOREVER))
                asked.checked(self._plan(head.plan))
                self.course.due.append(asked)
            except (MidstreamError, TypeError) as error:
                asked_for = control["migration"]
                record = MigrationRecord(control["id"], str(asked_for.get("plan")), str(asked_for.get("strategy")))
                record.state, record.reason = REFUSED, str(error)
                refused.append(record.to_dict())
        return refused

    def _plan(self, written: tuple[str, str] | None) -> Plan:
        """Return a plan of the query from its join order and method; None is the plan it was started with."""
        if written is None:
            return self.spec.plan
        query = self.spec.plan.query
        return ordered_plan(query, parse_tree(written[0], query.aliases), cast(MethodChoice, written[1]))

    def _attach(self) -> tuple[Course, bool]:
        """Return the operators with their states: mapped from this host's memory, or rebuilt from the window rows."""
        head = self.durable.head
        taken = self._mapped.take(head.token) if head.token else None
        if taken is not None:
            migrator, next_seq = put_together(*taken)
            waiting = {request.identity for request, _ in migrator.waiting}
            due = [r for r in head.due if r.identity not in waiting]
            return Course(migrator, next_seq, due, self.durable.let_go), False
        return self._rebuilt(), bool(head.token)

    def _rebuilt(self) -> Course:
        """Return operators whose states come from the durable window rows.

        Where two plans divide the work, the rows go through them again, with the migration at its position; so they do
        in a difference, which is then as it was after the last row it has seen. Else they only enter the states of
        their sources: the others are incomplete from now on and completed on demand.
        """
        head, spec = self.durable.head, self.spec
        plan = self._plan(head.plan if head.before is None else head.before)
        due = head.due if head.running is None else [head.running, *head.due]
        pipeline = build(plan, spec.ordered, spec.framework, spec.routing)
        migrator = Migrator(plan, pipeline, spec.framework)
        # What the stages hold is kept by itself; rows that go through the joins again have been there.
        stages, pipeline.stages = pipeline.stages, []
        course = Course(migrator, 0, due, self.durable.let_go)
        held = {rank: self.durable.window_rows(rank) for rank in range(len(self.sources))}
        rows = {rank: in_order(parts) for rank, parts in held.items() if parts}
        again = head.running is not None or pipeline.execution.replays
        if rows and again:
            course.repeat(self._number(rows, 0))
        elif rows:
            course.take_in_again(self._number(rows, 0), head.released_us)
        pipeline.stages = stages
        self._restore_stages(pipeline)
        return course

    def _remember(self, course: Course) -> None:
        """Write into the head what a restart needs to know: the plan, migrations under way, output held back."""
        head, migrator = self.durable.head, course.migrator
        head.plan = _written(migrator.plan)
        head.running = migrator.current if migrator.divides_work else None
        head.before = _written(migrator.before) if migrator.divides_work else None
        head.due = [*(request for request, _ in migrator.waiting), *course.due]
        if course.held:
            self.durable.hold_back(pa.concat_tables(course.held))

    def _number(self, rows: dict[int, Rows], next_seq: int) -> dict[str, Arrival]:
        by_alias = {}
        for rank, source in enumerate(self.sources):
            mine = self.intake.numbered(rank, rows.get(rank))
            by_alias[source.alias] = mine.alias_rows(self.intake.names[rank])
        return number_rows(self.spec.plan.query, by_alias, next_seq)

    def counts(self, rank: int) -> bool:
        """Tell whether rows of an alias count as input here: each row of a stream counts once."""
        alias = self.sources[rank].alias
        here = alias not in self.spec.plan.partitioning.broadcast or self.label == self.spec.first_label
        return here and self.intake.counted(rank)


def _written(plan: Plan) -> tuple[str, str]:
    """Return what a plan of the same query is made from."""
    return str(plan), plan.method
