"""Succession: the run that answers a version in a bucket, and one of another plan that is to answer after it.

    released rows ──▶ run ──▶ what leaves
         └──▶ (queues) ──▶ coming run ──▶ nowhere, until it is in the state of the other one; then it answers

Runs are black boxes here: a general strategy (`migrate/general.py`) says which rows the coming one gets, and when.
Migrations by other strategies are the run's own; those asked for while a general one is under way wait for its end.
State: the coming run, which can be built again from the rows in the windows, and how far it has come.
"""

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from midstream.engine.bucket.backlog import Backlog
from midstream.engine.bucket.intake import Intake
from midstream.engine.bucket.state import VersionState
from midstream.engine.planning.gathering import statistics_of_rows
from midstream.engine.rows.rows import Rows
from midstream.engine.run.contract import Kept, RunSpec, VersionRun
from midstream.migrate.general import FEED, Feed
from midstream.migrate.record import (
    FINISHED,
    NO_OP,
    REFUSED,
    RUNNING,
    SUPERSEDED,
    UNFINISHED,
    MigrationRecord,
)
from midstream.migrate.request import MigrationRequest, last_old_us
from midstream.model.effort import Effort
from midstream.model.errors import MidstreamError
from midstream.model.time import NEVER
from midstream.operators.contract.execution import StateSize
from midstream.optimize.general_cost import forecast_general, times_ms, work_of
from midstream.optimize.guesses import EVALUATIONS_PER_S
from midstream.plan.json import own_aggregates, read_plan, write_plan
from midstream.plan.plan import Plan

AT_ONCE = 1 << 16
"""Rows that a coming run takes in at a time: what it answers is forgotten after each."""


@dataclass(frozen=True)
class Asked:
    """A migration that waits: what was asked for, and its plan as plain values, where it was made elsewhere."""

    request: MigrationRequest
    plan: Any | None = None
    row: str = ""


@dataclass
class Replacement:
    """A general migration under way."""

    asked: Asked
    record: MigrationRecord
    coming: VersionRun
    position_us: int
    fed_us: int
    """Rows before this time have been through the coming run."""
    bound_us: int | None = None
    """When no row from before the position can matter any more, if that is a matter of time."""
    backlog: Backlog | None = None
    """The rows from there on, but for those that are still to be released; None: to be found among those held."""

    @property
    def feed(self) -> Feed:
        """Return how the coming run gets its rows."""
        return FEED[self.asked.request.strategy]


class Succession:
    """The run of a version, and what is to take its place.

    Invariant: what leaves is of one of the runs at a time, and both have had the same rows when they change.
    """

    def __init__(self, version: int, spec: RunSpec, run: VersionRun, intake: Intake, state: VersionState) -> None:
        self.run = run
        """The run that answers."""
        self._version = version
        self._spec = spec
        self._intake = intake
        self._state = state
        self._queue: list[Asked] = []
        self._under: Replacement | None = None
        self._over: list[MigrationRecord] = []
        """General migrations that have ended in this micro-batch."""
        self._clock_us = NEVER
        self._arrived = 0
        """Rows of this micro-batch."""
        self._batches = 0
        """Micro-batches since this was made."""
        self._from_us: int | None = None
        """The time the first of them came to."""
        self._spent, self._flips = Effort(), 0
        """What runs have counted that are gone, less what the one that answers had when it took over."""
        self._phase = "steady"
        self._traced = False

    def begin_batch(self) -> None:
        """Start counting for a micro-batch."""
        self.run.begin_batch()
        if self._under is not None:
            self._under.coming.begin_batch()
        self._over, self._arrived, self._phase = [], 0, self.phase_now

    @property
    def phase(self) -> str:
        """Return what has been going on in this micro-batch, in a word or two."""
        return self.run.phase if self._phase == "steady" else self._phase

    @property
    def phase_now(self) -> str:
        """Return what is going on now."""
        return self.run.phase_now if self._under is None else f"migrating ({self._under.asked.request.strategy})"

    @property
    def effort(self) -> Effort:
        """Return what all runs have done."""
        return sum((run.effort for run in self._runs), self._spent)

    @property
    def flips(self) -> int:
        """Return how often values came into differences or left them before their time, in the run that answers."""
        return self._flips + self.run.flips

    @property
    def _runs(self) -> list[VersionRun]:
        return [self.run] if self._under is None else [self.run, self._under.coming]

    def size(self) -> StateSize:
        """Return what the states of the runs hold, and the rows they could be built from."""
        size = StateSize(0, self._intake.nbytes)
        for run in self._runs:
            size.add(run.size())
        return size

    def trace(self, on: bool) -> None:
        """Let results say from now on what brought them and what they depend on; or not."""
        self._traced = on
        for run in self._runs:
            run.trace(on)

    def migrate(self, request: MigrationRequest, plan: Any | None = None, row: str = "") -> None:
        """Note a migration, which takes effect at its position, or when those before it are over."""
        if request.general or self._queue or self._under is not None:
            self._queue.append(Asked(request, plan, row))
        else:
            self.run.migrate(request, plan, row)

    def records(self) -> list[MigrationRecord]:
        """Return the records of migrations under way, or ended in this micro-batch."""
        waiting = [MigrationRecord.of(asked.request, from_plan=str(self.run.plan)) for asked in self._queue]
        return [*self.general_records(), *waiting, *self.run.records()]

    def general_records(self) -> list[MigrationRecord]:
        """Return the records of general migrations under way, or ended in this micro-batch."""
        return [*self._over, *([] if self._under is None else [self._under.record])]

    def stop_us(self, upto_us: int, clock_us: int) -> int:
        """Return up to where rows may go before something happens here."""
        stops = [] if self._under is None else [self._under.bound_us]
        if self._under is None and self._queue and not self.run.migrating:
            stops.append(self._queue[0].request.at_us)
        reached_us = min(upto_us, clock_us)
        return min(
            (us for us in stops if us is not None and self._state.released_us < us < reached_us), default=upto_us
        )

    def begin(self) -> None:
        """Start what has been asked for since rows were last taken in, where that is due here."""
        if self._clock_us != NEVER:
            self._start()

    def take(self, rows: dict[str, Rows], upto_us: int, clock_us: int) -> None:
        """Take in the rows below a time, all there are; time itself has come to `clock_us`."""
        started, under = time.perf_counter(), self._under
        self.run.take(rows, upto_us, clock_us)
        self._clock_us = min(upto_us, clock_us)
        self._arrived += sum(map(len, rows.values()))
        if under is not None and under.feed.at_once:
            self._feed(under, rows, upto_us)
        elif under is not None and under.backlog is not None:
            under.backlog.add(rows)
        self._clock(under, started)
        self._see()
        self._start()

    def work(self) -> None:
        """Do what can be done between micro-batches: what answers comes first."""
        started, under = time.perf_counter(), self._under
        self.run.work()
        if self._clock_us != NEVER:
            self._from_us = self._clock_us if self._from_us is None else self._from_us
            self._batches += 1
        if under is None or self._clock_us == NEVER:
            return
        under.record.batches += 1
        if under.feed.at_once:
            return
        if under.backlog is None:
            under.backlog = Backlog({a: rows.since(under.fed_us) for a, rows in self._held().items()})
        rows, before_us = under.backlog.take(self._arrived + under.asked.request.rows)
        self._feed(under, rows, min(before_us, self._state.released_us))
        self._clock(under, started)
        self._see()
        self._start()

    def _clock(self, under: Replacement | None, started: float) -> None:
        """Note what both runs have taken of the clock."""
        if under is not None:
            under.record.work_ms += (time.perf_counter() - started) * 1000

    def _feed(self, under: Replacement, rows: dict[str, Rows], upto_us: int) -> None:
        """Let the coming run have rows; what it answers nobody wants."""
        under.coming.take(rows, upto_us, self._clock_us)
        under.coming.begin_batch()
        under.fed_us = upto_us
        new = sum(len(mine.since(under.position_us)) for mine in rows.values())
        under.record.rows_old += sum(map(len, rows.values())) - new
        under.record.rows_new += new

    def _start(self) -> None:
        """Start the migrations whose turn it is."""
        reached_us = min(self._state.released_us, self._clock_us)
        while self._under is None and self._queue and not self.run.migrating:
            request = self._queue[0].request
            if not request.general:
                asked = self._queue.pop(0)
                # It has waited: it takes effect here, or later.
                at_us = max(self._state.released_us, NEVER if request.at_us is None else request.at_us)
                self.run.migrate(replace(request, at_us=at_us), asked.plan, asked.row)
                self.run.take({}, self._state.released_us, self._clock_us)
            elif request.at_us is not None and request.at_us > reached_us:
                return
            else:
                self._start_general(self._queue.pop(0))

    def _start_general(self, asked: Asked) -> None:
        started, position_us = time.perf_counter(), self._state.released_us
        request = asked.request
        record = MigrationRecord.of(request, from_plan=str(self.run.plan), position_us=position_us)
        try:
            target = self.run.target(request, asked.plan)
        except MidstreamError as error:
            record.state, record.reason = REFUSED, str(error)
            self._over.append(record)
            return
        record.plan = str(target)
        if target == self.run.plan:
            record.state, record.ended_us = NO_OP, position_us
            self._over.append(record)
            return
        record.state = RUNNING
        asked = replace(asked, plan=write_plan(target))
        record.predicted = self._predicted(request, target)
        bound_us = last_old_us(target, position_us)
        if bound_us is not None:
            bound_us = target.query.next_answer_us(bound_us + target.query.timed_us)
        self._under = under = self._beside(asked, record, target, position_us, bound_us)
        self._phase = self.phase_now if self._phase == "steady" else self._phase
        self._account(under)
        if under.feed.seeded:
            under.backlog = Backlog(self._held())
            under.fed_us = NEVER
            if under.feed.at_once or not under.backlog:
                self._drain(under, position_us)
        else:
            self._feed(under, {}, position_us)
        record.start_ms = (time.perf_counter() - started) * 1000
        record.work_ms += record.start_ms
        self._see()

    def _predicted(self, request: MigrationRequest, target: Plan) -> dict[str, float]:
        """Return what the migration is expected to take, by the rows that are held."""
        known = statistics_of_rows(target.query, self._held())
        work = work_of(self.run.plan, target, known)
        batch_s = None
        if self._from_us is not None and self._batches > 1:
            batch_s = (self._clock_us - self._from_us) / (self._batches - 1) / 1e6
        counts = forecast_general(request.strategy, work, request.rows, batch_s).counts
        return counts | times_ms(request.strategy, work, EVALUATIONS_PER_S)

    def _held(self) -> dict[str, Rows]:
        """Return the rows from which a run can be built that is in the state of the one that answers."""
        return self._intake.held(self.run.expiry(self._state.released_us))

    def _drain(self, under: Replacement, upto_us: int) -> None:
        """Let the coming run have all that waits for it."""
        assert under.backlog is not None, "rows wait for it"
        while under.fed_us < upto_us:
            rows, before_us = under.backlog.take(AT_ONCE)
            self._feed(under, rows, min(before_us, upto_us))

    def _beside(
        self, asked: Asked, record: MigrationRecord, target: Plan, position_us: int, bound_us: int | None
    ) -> Replacement:
        """Return a migration with a coming run that has had no row."""
        coming = type(self.run).rebuild(self._version, target, self._spec, Kept())
        coming.trace(self._traced)
        under = Replacement(asked, record, coming, position_us, position_us, bound_us)
        first_us = position_us
        if under.feed.seeded:
            first_us = min([position_us, *(int(rows.times[0]) for rows in self._held().values() if len(rows))])
        coming.begin_beside(self.run, first_us)
        return under

    def _account(self, under: Replacement) -> None:
        """Note what all runs have tested when a migration begins, or goes on."""
        self._tested_before = self.effort.evaluations - under.record.predicate_evaluations

    def _see(self) -> None:
        """See whether the coming run is in the state of the one that answers: it takes its place then."""
        under = self._under
        if under is None:
            return
        under.record.predicate_evaluations = self.effort.evaluations - self._tested_before
        if under.fed_us < self._state.released_us:
            return
        if not under.feed.seeded and self.run.holds_before(under.position_us):
            return
        before, self._under = self.run, None
        self._spent += before.effort
        self._flips += before.flips - under.coming.flips
        self.run = under.coming
        self.run.succeed(before, under.asked.row)
        self._end(under.record, FINISHED)

    def _end(self, record: MigrationRecord, state: str, reason: str = "") -> None:
        record.state, record.reason = state, reason
        record.ended_us = None if state == UNFINISHED else self._state.released_us
        self._over.append(record)

    def supersede(self, reason: str) -> None:
        """Go on as it is: what was to take its place is forgotten."""
        under, self._under = self._under, None
        if under is not None:
            self._spent += under.coming.effort
            self._end(under.record, SUPERSEDED, reason)
        queue, self._queue = self._queue, []
        for asked in queue:
            if asked.request.general:
                record = MigrationRecord.of(asked.request, from_plan=str(self.run.plan))
                self._end(record, SUPERSEDED, reason)
            else:
                self.run.migrate(asked.request, asked.plan, asked.row)

    def finish(self) -> None:
        """Say of migrations that are not over that they never will be: nothing more comes."""
        self.run.finish()
        if self._under is not None:
            self._end(self._under.record, UNFINISHED)
            self._spent += self._under.coming.effort
            self._under = None
        for asked in self._queue:
            self._end(MigrationRecord.of(asked.request, from_plan=str(self.run.plan)), UNFINISHED)
        self._queue = []

    def export(self) -> Any:
        """Return the operators with their states, to go on with elsewhere."""
        return self.run.export() if self._under is None else [run.export() for run in self._runs]

    def remember(self) -> dict[str, Any]:
        """Return as plain values what a restart has to know besides rows."""
        plain, under = self.run.remember(), self._under
        if self._queue:
            plain["queue"] = [asdict(asked) for asked in self._queue]
        if under is not None:
            plain["general"] = {
                "asked": asdict(under.asked),
                "record": asdict(under.record),
                "position_us": under.position_us,
                "fed_us": under.fed_us,
                "bound_us": under.bound_us,
                "clock_us": self._clock_us,
                "coming": under.coming.remember(),
            }
        return plain

    @staticmethod
    def split(exported: Any, remembered: dict[str, Any]) -> tuple[Any, Any]:
        """Return what was exported of the run that answers, and of the one that comes."""
        return (exported[0], exported[1]) if exported is not None and "general" in remembered else (exported, None)

    def go_on(self, remembered: dict[str, Any], coming: Any) -> None:
        """Go on as it was remembered, with a coming run as it was exported, or built again from the rows held."""
        self._queue = [_asked(plain) for plain in remembered.get("queue", [])]
        plain = remembered.get("general")
        if plain is None:
            return
        asked, record = _asked(plain["asked"]), MigrationRecord(**plain["record"])
        self._clock_us = plain["clock_us"]
        if coming is not None:
            run = type(self.run).adopt(self._version, self._spec, coming, plain["coming"])
            self._under = Replacement(asked, record, run, plain["position_us"], plain["fed_us"], plain["bound_us"])
        else:
            assert asked.plan is not None, "its plan was written down when it started"
            target = read_plan(asked.plan, own_aggregates(self.run.plan.query.root))
            self._under = under = self._beside(asked, record, target, plain["position_us"], plain["bound_us"])
            first_us = NEVER if under.feed.seeded else under.position_us
            held = {a: rows.since(first_us) for a, rows in self._held().items()}
            under.fed_us = plain["fed_us"]
            if under.fed_us != NEVER:
                fed = {a: rows.between(0, len(rows) - len(rows.since(under.fed_us))) for a, rows in held.items()}
                under.coming.take(fed, under.fed_us, min(self._clock_us, under.fed_us))
        self._account(self._under)


def _asked(plain: dict[str, Any]) -> Asked:
    return Asked(MigrationRequest(**plain["request"]), plain["plan"], plain["row"])
