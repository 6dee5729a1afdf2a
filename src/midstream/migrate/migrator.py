"""Migrator: one bucket's pipeline and its migrations: which one runs, which ones wait, what has happened.

ask ──▶ same plan? ──▶ may it start now? ──▶ start: the execution is replaced ──▶ over: the new plan goes on alone
                             └──▶ wait until the running one is over
"""

import time
from dataclasses import replace

from midstream.migrate.hybrid import Hybrid
from midstream.migrate.just_in_time import JustInTime, start
from midstream.migrate.match import Matching, Moment
from midstream.migrate.moving_state import MovingState
from midstream.migrate.parallel_track import ParallelTrack
from midstream.migrate.promote import demote
from midstream.migrate.record import FINISHED, NO_OP, REFUSED, RUNNING, SUPERSEDED, MigrationRecord
from midstream.migrate.request import (
    HYBRID,
    JUST_IN_TIME,
    MOVING_STATE,
    PARALLEL_TRACK,
    MigrationRequest,
    last_old_us,
)
from midstream.model.batch import Arrival, Results
from midstream.model.errors import PlanError
from midstream.operators.build import TREE, build_tree
from midstream.operators.contract import Execution
from midstream.operators.difference.execution import DifferenceExecution
from midstream.operators.sliding.eddy import Eddy
from midstream.operators.sliding.pipeline import Pipeline
from midstream.operators.sliding.tree import JoinTree
from midstream.plan.plan import Plan
from midstream.plan.tree import leaves

RECOVERY = "recovery"
OVERLAPS = {JUST_IN_TIME: (JUST_IN_TIME, MOVING_STATE), RECOVERY: (JUST_IN_TIME, MOVING_STATE)}
"""Which strategies may start while another one is under way; all others wait until it is over."""


class Migrator:
    """A pipeline that can change its plan.

    Invariant: at most one migration runs; those that wait start in the order they were asked.
    """

    def __init__(self, plan: Plan, pipeline: Pipeline, framework: str = TREE) -> None:
        self.framework = framework
        self.plan = plan
        """The plan that runs, or is being migrated to."""
        self.pipeline = pipeline
        self.records: list[MigrationRecord] = []
        self.running: MigrationRecord | None = None
        self._bound_us: int | None = None
        """When no row from before the running migration can matter any more, if that is a matter of time."""
        self.waiting: list[tuple[MigrationRequest, MigrationRecord]] = []
        self.last_us: int | None = None
        """Time of the last row taken in."""
        self.lets_go_us: int | None = None
        """Set when a migration that held its output back has ended: the event time it leaves at."""
        self.current: MigrationRequest | None = None
        """The request that runs, with the event time it took effect at."""
        self.before = plan
        """The plan it started from."""
        self._tested = 0

    @property
    def phase(self) -> str:
        """Return what is going on, in a word or two."""
        if self.running is None:
            return "steady"
        return "recovering" if self.running.strategy == RECOVERY else f"migrating ({self.running.strategy})"

    def ask(self, request: MigrationRequest, now_us: int, seq: int) -> MigrationRecord:
        """Migrate before the row that comes next, at `now_us` or later, after sequence number `seq`; or wait.

        The request says the event time it is for: the same in all buckets, whatever rows they have.
        """
        record = MigrationRecord(
            request.identity, request.plan, request.strategy, request.options, request.at_us, str(self.plan)
        )
        self.records.append(record)
        direct = not self.waiting
        self.waiting.append((request, record))
        self._start_waiting(now_us, seq, direct)
        return record

    def on_rows(
        self, arrivals: dict[str, Arrival], now_us: int, seq: int, clock_us: int | None = None
    ) -> tuple[list[Results], Results]:
        """Take in a slice; return what was held back until now, and the results of the slice."""
        released = self.advance(now_us, seq)
        self.last_us = max((int(a.times[-1]) for a in arrivals.values() if len(a)), default=self.last_us)
        return released, self.pipeline.on_rows(arrivals, now_us, seq, clock_us)

    @property
    def divides(self) -> bool:
        """Tell whether two plans divide the work between them: rows taken in again have to go through both."""
        if isinstance(self.pipeline.execution, DifferenceExecution):
            return self.running is not None
        return isinstance(self.pipeline.execution, ParallelTrack | Hybrid)

    def resume(self, record: MigrationRecord) -> None:
        """Go on with states that a restart has left incomplete, as with a just-in-time migration."""
        self.running = record
        self._tested = self.pipeline.predicate_evaluations

    def advance(self, now_us: int, seq: int) -> list[Results]:
        """See whether the running migration is over before the row at `now_us`, and start what waits."""
        released: list[Results] = []
        if self.running is not None:
            execution = self.pipeline.execution
            # A plan whose states were moved to it goes on as it is.
            successor = execution if isinstance(execution, JoinTree) else execution.successor(now_us, seq)
            self._note(execution)
            if successor is not None:
                self.pipeline.execution = successor
                self._end(FINISHED, now_us)
                released = self.pipeline.release()
                if isinstance(execution, ParallelTrack) and execution.buffered:
                    self.lets_go_us = now_us if execution.end_us is None else execution.end_us
        self._start_waiting(now_us, seq)
        return released

    def work(self, seq: int) -> None:
        """Do what can be done between micro-batches; `seq` is the last sequence number."""
        if self.last_us is not None:
            self.pipeline.execution.work(self.last_us, seq)

    def cut_us(self) -> int | None:
        """Return the next event time at which something happens here that must not wait for the end of a slice."""
        execution = self.pipeline.execution
        if isinstance(execution, ParallelTrack):
            return execution.end_us
        return self._bound_us if self.waiting else None

    def _start_waiting(self, now_us: int, seq: int, direct: bool = False) -> None:
        """Start what may start; `direct` when it takes effect where it was asked for."""
        while self.waiting:
            request, record = self.waiting[0]
            if not self._may_start(request, now_us):
                return
            self.waiting.pop(0)
            try:
                checked = request.checked(self.plan)
            except PlanError as error:
                record.state, record.reason = REFUSED, str(error)
                continue
            at_us = request.at_us if direct and request.at_us is not None else now_us
            if _holds_back(checked):
                at_us = max((t for t in (request.at_us, self._bound_us) if t is not None), default=now_us)
            record.strategy, record.options = checked.strategy, checked.options
            self._start(replace(checked, at_us=at_us), record, now_us, seq)

    def _may_start(self, request: MigrationRequest, now_us: int) -> bool:
        if self.running is not None:
            # A difference has one strategy, whose migrations overlap.
            return bool(self.plan.query.subtracted) or request.strategy in OVERLAPS.get(self.running.strategy, ())
        # Buckets end a migration each at its own time; what is held back must begin at the same time in all of them.
        return not (_holds_back(request) and self._bound_us is not None and now_us < self._bound_us)

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
        if isinstance(self.pipeline.execution, Eddy):
            # Nothing but the sources' rows is kept: another plan is another route.
            self.pipeline.execution.reroute(leaves(target.tree))
            self.plan = target
            record.state, record.ended_us = FINISHED, at_us
            record.states_matched = len(self.pipeline.execution.joins())
            return
        if self.running is not None:
            self._note(self.pipeline.execution)
            self._end(SUPERSEDED, now_us)
        self.running, record.state = record, RUNNING
        self.current, self.before = request, self.plan
        self._tested = self.pipeline.predicate_evaluations
        self._bound_us = last_old_us(target, at_us)
        self.pipeline.execution = self._execution(request, target, now_us, seq)
        self.plan = target
        record.start_ms = (time.perf_counter() - started) * 1000
        self.advance(now_us, seq)
        if record.state == FINISHED:
            record.ended_us = at_us

    def _execution(self, request: MigrationRequest, target: Plan, now_us: int, seq: int) -> Execution:
        """Return what runs from the position on."""
        moment = Moment(now_us, seq)
        sources = self.pipeline.sources
        position = sources.position(seq + 1, now_us)
        current = self.pipeline.execution
        if isinstance(current, DifferenceExecution):
            found = current.reorder(tuple(leaves(target.tree)))
            assert self.running is not None
            self.running.states_matched = len(found.matched)
            self.running.states_incomplete = len(found.incomplete)
            return current
        gaps = current.completion.gaps if isinstance(current, JustInTime) else {}
        old = current.tree if isinstance(current, JustInTime) else current
        assert isinstance(old, JoinTree)
        new = build_tree(target, sources, self.framework)
        if request.strategy in (MOVING_STATE, JUST_IN_TIME):
            assert self.running is not None
            wanted = {source.parts for step in new.steps for source in step.inputs}
            self.running.entries_demoted = demote(old, wanted, moment)
        if request.strategy == MOVING_STATE:
            moving = MovingState(old, new, moment)
            moving.run()
            assert self.running is not None
            self._note_matching(self.running, moving.matching)
            self.running.states_completed = len(moving.matching.missing)
            self.running.entries_completed = moving.entries_completed
            return new
        if request.strategy == PARALLEL_TRACK:
            buffered = request.output == "buffered"
            assert self.running is not None
            self.running.states_incomplete = 2 * len(new.steps)
            return ParallelTrack(old, new, sources, position, buffered, self._bound_us)
        if request.strategy == HYBRID:
            budget = request.budget if request.background else 0
            ordering = request.ordering
            return Hybrid(old, new, sources, position, moment, request.sharing, ordering, budget)  # type: ignore[arg-type]
        return start(old, gaps, new, sources, position, moment)

    def told(self) -> list[MigrationRecord]:
        """Return the records of all migrations, up to date."""
        if self.running is not None:
            self._note(self.pipeline.execution)
        return self.records

    def _note(self, execution: Execution) -> None:
        """Write down what the running migration has done so far."""
        record = self.running
        assert record is not None
        record.predicate_evaluations = self.pipeline.predicate_evaluations - self._tested
        if isinstance(execution, ParallelTrack):
            record.rows_buffered = execution.rows_buffered
        elif isinstance(execution, Hybrid):
            self._note_matching(record, execution.matching)
            record.states_completed = sum(t.states_completed for t in execution.tasks)
            record.entries_completed = sum(t.entries_completed for t in execution.tasks)
        elif isinstance(execution, DifferenceExecution):
            record.states_completed = record.states_incomplete - len(execution.chain.pending)
        elif isinstance(execution, JustInTime):
            self._note_matching(record, execution.matching)
            completion = execution.completion
            record.states_completed = completion.states_completed
            record.entries_completed = completion.entries_completed
            record.keys_attempted = completion.keys_attempted

    @staticmethod
    def _note_matching(record: MigrationRecord, matching: Matching) -> None:
        record.states_matched = matching.matched
        record.states_moved = len(matching.moved)
        record.states_incomplete = len(matching.missing)

    def _end(self, state: str, now_us: int) -> None:
        record = self.running
        assert record is not None
        record.state, record.ended_us = state, now_us
        self.running = self.current = None


def _holds_back(request: MigrationRequest) -> bool:
    return request.strategy == PARALLEL_TRACK and request.output == "buffered"
