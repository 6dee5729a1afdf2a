"""Migrator: one bucket's pipeline and its migrations: which one runs, which ones wait, what has happened.

ask ──▶ same plan? ──▶ may it start now? ──▶ start: the execution is replaced ──▶ over: the new plan goes on alone
                             └──▶ wait until the running one is over
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from midstream.migrate.gap import Gap
from midstream.migrate.match import Moment
from midstream.migrate.record import FINISHED, NO_OP, REFUSED, RUNNING, SUPERSEDED, MigrationRecord
from midstream.migrate.request import MOVING_STATE, PARALLEL_TRACK, MigrationRequest, last_old_us, overlap
from midstream.migrate.strategies import STRATEGY
from midstream.migrate.switch import Switch
from midstream.model.batch import Arrival, Results
from midstream.model.errors import PlanError
from midstream.operators.build import build_tree
from midstream.operators.contract.execution import Parts, Progress, Switched
from midstream.operators.contract.pipeline import Pipeline
from midstream.operators.sliding.tree import JoinTree
from midstream.operators.source.sources import Sources
from midstream.plan.plan import Plan
from midstream.plan.tree import leaves

RECOVERY, RECOVERING = "recovery", "recovering"


@dataclass(frozen=True)
class _PlanSwitch:
    """A migration that starts: what an execution needs to switch plan."""

    request: MigrationRequest
    target: Plan
    sources: Sources
    moment: Moment
    last_old_us: int | None

    @property
    def order(self) -> tuple[str, ...]:
        """Return the aliases of the new plan from left to right."""
        return tuple(leaves(self.target.tree))

    def rebuild(self, tree: JoinTree, gaps: Mapping[Parts, Gap]) -> Switched:
        """Let the strategy go on from a tree of joins."""
        new = build_tree(self.target, self.sources)
        position = self.sources.position(self.moment.seq + 1, self.moment.now_us)
        switch = Switch(tree, gaps, new, self.sources, position, self.moment, self.request, self.last_old_us)
        return STRATEGY[self.request.strategy](switch)


class Migrator:
    """A pipeline that can change its plan.

    Invariant: at most one migration runs; those that wait start in the order they were asked.
    """

    def __init__(self, plan: Plan, pipeline: Pipeline) -> None:
        self.plan = plan
        """The plan that runs, or is being migrated to."""
        self.pipeline = pipeline
        self.records: list[MigrationRecord] = []
        self.running: MigrationRecord | None = None
        self.bound_us: int | None = None
        """When no row from before the last migration can matter any more, if that is a matter of time.

        The same in all buckets and after a restart, wherever a migration that had to wait has begun in each.
        """
        self._after = ""
        """The strategy of the last migration, if it is over at a time of its own in each bucket, not where it began."""
        self.waiting: list[tuple[MigrationRequest, MigrationRecord]] = []
        self.last_us: int | None = None
        """Time of the last row taken in."""
        self.released_at_us: int | None = None
        """Set when a migration that held its output back has ended: the event time it leaves at."""
        self.current: MigrationRequest | None = None
        """The request that runs, with the event time it took effect at."""
        self.before = plan
        """The plan it started from."""
        self._tested = 0
        self._merges = False

    def merge_output(self) -> None:
        """Hold nothing back from now on, whatever migrations ask for: another version's results are merged in."""
        self._merges = True
        self.pipeline.execution.hold_nothing_back()

    def succeed(self, before: "Migrator") -> None:
        """Go on in place of one that has no migration under way: a black box has been replaced."""
        self.records, self.last_us = before.records, before.last_us
        self.load_bound(before.bound())
        # Buckets replace theirs each at its own time: what is held back later cannot begin in all at once.
        if before._merges or self.pipeline.one_of_many:
            self.merge_output()

    @property
    def phase(self) -> str:
        """Return what is going on, in a word or two."""
        if self.running is None:
            return "steady"
        return RECOVERING if self.running.strategy == RECOVERY else f"migrating ({self.running.strategy})"

    def ask(self, request: MigrationRequest, now_us: int, seq: int) -> MigrationRecord:
        """Migrate before the row that comes next, at `now_us` or later, after sequence number `seq`; or wait.

        The request says the event time it is for: the same in all buckets, whatever rows they have.
        """
        record = MigrationRecord.of(request, from_plan=str(self.plan))
        self.records.append(record)
        direct = not self.waiting
        self.waiting.append((request, record))
        self._start_waiting(now_us, seq, direct)
        return record

    def on_rows(self, arrivals: dict[str, Arrival], now_us: int, seq: int) -> list[Results]:
        """Take in a slice and return its results."""
        self.advance(now_us, seq)
        self.last_us = max((int(a.times[-1]) for a in arrivals.values() if len(a)), default=self.last_us)
        return self.pipeline.on_rows(arrivals, now_us, seq)

    @property
    def divides_work(self) -> bool:
        """Tell whether two plans divide the work between them: rows taken in again have to go through both."""
        return self.running is not None and self.pipeline.execution.divides_work

    def bound(self) -> list[Any]:
        """Return what a restart has to know of the last migration, though it is over here."""
        return [self.bound_us, self._after]

    def load_bound(self, bound: list[Any] | None) -> None:
        """Know of the last migration what was known before a restart, if it was written down."""
        if bound is not None:
            self.bound_us, self._after = bound

    def resume(self, record: MigrationRecord) -> None:
        """Go on with states that a restart has left incomplete, as with a just-in-time migration."""
        self.running = record
        self._tested = self.pipeline.predicate_evaluations

    def advance(self, now_us: int, seq: int) -> None:
        """See whether the running migration is over before the row at `now_us`, and start what waits."""
        if self.running is not None:
            execution = self.pipeline.execution
            successor = execution.successor(now_us, seq)
            self._note(execution.progress())
            if successor is not None:
                self.pipeline.execution = successor
                self._end(FINISHED, now_us)
                held_until_us = execution.released_at_us(now_us)
                if held_until_us is not None:
                    self.released_at_us = held_until_us
        self._start_waiting(now_us, seq)

    def work(self, seq: int) -> None:
        """Do what can be done between micro-batches; `seq` is the last sequence number."""
        if self.last_us is not None:
            self.pipeline.execution.work(self.last_us, seq)

    def next_cut_us(self) -> int | None:
        """Return the next event time at which something happens here that must not wait for the end of a slice."""
        cut_us = self.pipeline.execution.next_cut_us()
        return self.bound_us if cut_us is None and self.waiting else cut_us

    def _start_waiting(self, now_us: int, seq: int, direct: bool = False) -> None:
        """Start what may start; `direct` when it takes effect where it was asked for."""
        while self.waiting:
            request, record = self.waiting[0]
            at_us = (
                request.at_us if direct and request.at_us is not None else min(now_us, self._known_at(request, now_us))
            )
            try:
                checked = request.checked(self.plan, self._complete_at(at_us))
            except PlanError as error:
                record.state, record.reason = REFUSED, str(error)
                self.waiting.pop(0)
                continue
            if self._merges and _holds_back(checked):
                checked = replace(checked, output="merged")
            if not self._may_start(checked, now_us, seq):
                return
            self.waiting.pop(0)
            if _holds_back(checked):
                at_us = self._known_at(checked, now_us)
            record.strategy, record.options = checked.strategy, checked.options
            self._start(replace(checked, at_us=at_us), record, now_us, seq)

    def _complete_at(self, at_us: int) -> bool:
        """Tell whether no state lacks anything, whatever the bucket: also where the last migration is over by now."""
        return not self._after or (self.bound_us is not None and at_us >= self.bound_us)

    def _known_at(self, request: MigrationRequest, now_us: int) -> int:
        """Return by when a migration has begun in all buckets: in some it may have had to wait."""
        asked_us = now_us if request.at_us is None else request.at_us
        waited = self.bound_us is not None and not overlap(self._after, request.strategy)
        return max(asked_us, self.bound_us) if waited and self.bound_us is not None else asked_us

    def _may_start(self, request: MigrationRequest, now_us: int, seq: int) -> bool:
        # Buckets end a migration each at its own time; what is held back must begin at the same time in all of them.
        if _holds_back(request) and self.bound_us is not None and now_us < self.bound_us:
            return False
        overlaps = self.running is None or self.pipeline.execution.overlaps(request.strategy)
        if not overlaps and self.phase == RECOVERING:
            self._complete_restart(now_us, seq)
            return True
        return overlaps

    def _complete_restart(self, now_us: int, seq: int) -> None:
        """Compute at once what a restart has left incomplete: no migration waits for it, it begins where it would."""
        request = MigrationRequest(str(self.plan.tree), MOVING_STATE)
        switch = _PlanSwitch(request, self.plan, self.pipeline.sources, Moment(now_us, seq), None)
        self.pipeline.execution = self.pipeline.execution.switch_plan(switch).execution
        self._end(FINISHED, now_us)

    def _start(self, request: MigrationRequest, record: MigrationRecord, now_us: int, seq: int) -> None:
        started = time.perf_counter()
        target = request.target(self.plan)
        record.from_plan = str(self.plan)
        record.plan = str(target)
        at_us = request.at_us if request.at_us is not None else now_us
        record.position_us, record.position_seq = at_us, seq + 1
        if target == self.plan:
            record.state, record.ended_us = NO_OP, at_us
            return
        if self.running is not None:
            self._note(self.pipeline.execution.progress())
            self._end(SUPERSEDED, now_us)
        self.running, record.state = record, RUNNING
        self.current, self.before = request, self.plan
        self._tested = self.pipeline.predicate_evaluations
        bound_us = last_old_us(target, at_us)
        switch = _PlanSwitch(request, target, self.pipeline.sources, Moment(now_us, seq), bound_us)
        running = self.pipeline.execution
        switched = running.switch_plan(switch)
        # Where the same execution goes on with nothing missing, the switch leaves no trace.
        unnoticed = switched.execution is running and not switched.progress.states_incomplete
        at_once = request.strategy == MOVING_STATE and switched.execution is not running
        if not unnoticed:
            known_us = self._known_at(request, now_us)
            self.bound_us = known_us if at_once else last_old_us(target, known_us)
            self._after = "" if at_once else request.strategy
        self.pipeline.execution, self.plan = switched.execution, target
        self._note(switched.progress)
        record.start_ms = (time.perf_counter() - started) * 1000
        self.advance(now_us, seq)
        if record.state == FINISHED:
            record.ended_us = at_us

    def report(self) -> list[MigrationRecord]:
        """Return the records of all migrations, up to date."""
        if self.running is not None:
            self._note(self.pipeline.execution.progress())
        return self.records

    def _note(self, progress: Progress | None) -> None:
        """Write down what the running migration has done so far."""
        record = self.running
        assert record is not None
        record.predicate_evaluations = self.pipeline.predicate_evaluations - self._tested
        if progress is not None:
            record.note(progress)

    def _end(self, state: str, now_us: int) -> None:
        record = self.running
        assert record is not None
        record.state, record.ended_us = state, now_us
        self.running = self.current = None


def _holds_back(request: MigrationRequest) -> bool:
    return request.strategy == PARALLEL_TRACK and request.output == "buffered"
