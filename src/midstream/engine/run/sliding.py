"""Sliding run: rows through the joins, differences and windows of a query that answers with each row.

numbered rows ──▶ slices, cut where a migration is due ──▶ migrator ──▶ leaves at once, or is held back
"""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, cast

import pyarrow as pa

from midstream.engine.planning.join_looks import look_at_joins
from midstream.engine.planning.optimizing import look_every_us, widest_us
from midstream.engine.results.output import Leaving
from midstream.engine.rows.numbering import number_rows, slices, stop_at, time_of
from midstream.engine.rows.rows import Rows
from midstream.engine.run.contract import Expiry, Kept, RunSpec, StageRows, StageState, VersionRun
from midstream.migrate.migrator import RECOVERY, Migrator
from midstream.migrate.record import QUEUED, RUNNING, UNFINISHED, MigrationRecord
from midstream.migrate.request import MigrationRequest
from midstream.migrate.restart import refill, resume
from midstream.migrate.warm import load_kernels
from midstream.model.batch import Arrival, Results
from midstream.model.effort import Effort
from midstream.model.time import FOREVER, NEVER
from midstream.operators.build import build
from midstream.operators.contract.execution import StateSize
from midstream.plan.json import own_aggregates, read_plan, write_plan
from midstream.plan.plan import Plan
from midstream.plan.window import RangeWindow


class SlidingRun(VersionRun):
    """The operators of a sliding query, the next sequence number, and the migrations to come."""

    def __init__(self, version: int, migrator: Migrator, spec: RunSpec, next_seq: int = 0) -> None:
        self.version = version
        self.migrator = migrator
        self.next_seq = next_seq
        self.due: list[MigrationRequest] = []
        """Migrations whose position has not been reached, in order."""
        self.held: list[Leaving] = []
        """Output that is held back and that nobody else keeps."""
        self.held_elsewhere = list
        self._first: Plan | None = None if next_seq else migrator.plan
        """The plan the version was started with, where that is known."""
        self._plans_written: dict[Plan, dict[str, Any]] = {}
        self._phase = "steady"
        self._look_us = look_every_us(migrator.plan.query) if spec.optimizes else FOREVER
        """Event time between two looks at the windows."""
        self._asked = spec.asked
        self._looked_us: int | None = None
        """When they were last looked at, or the first row came."""
        self._now_us = NEVER
        """How far time has come."""
        self._before: dict[str, str] = {}
        """States of migrations at the beginning of the micro-batch."""
        self._columns = {a: migrator.plan.query.columns_of(a) for a in migrator.plan.query.aliases}
        self.begin_batch()

    @staticmethod
    def start(version: int, plan: Plan, spec: RunSpec) -> "SlidingRun":
        """Return a run with empty states."""
        watched = spec.optimizes and look_every_us(plan.query) < FOREVER
        pipeline = build(plan, spec.ordered, spec.framework.name, spec.framework.routing, watched)
        return SlidingRun(version, Migrator(plan, pipeline), spec)

    @classmethod
    def adopt(cls, version: int, spec: RunSpec, exported: Any, remembered: dict[str, Any]) -> "SlidingRun":
        """Go on with operators as they were exported."""
        migrator, next_seq = exported
        run = SlidingRun(version, migrator, spec, next_seq)
        run._looked_us = remembered.get("looked_us")
        run._know_written(remembered)
        waiting = {request.identity for request, _ in migrator.waiting}
        run.due = [r for r in _requests(remembered["due"]) if r.identity not in waiting]
        return run

    @classmethod
    def fits(cls, spec: RunSpec, exported: Any) -> bool:
        """Tell whether rows keep what statistics are made of, where somebody wants to know."""
        migrator, _ = exported
        wanted = spec.optimizes and look_every_us(migrator.plan.query) < FOREVER
        return not wanted or migrator.pipeline.sources.watched

    @classmethod
    def rebuild(cls, version: int, plan: Plan, spec: RunSpec, kept: Kept) -> "SlidingRun":
        """Return operators whose states come from the window rows.

        Where two plans divide the work, the rows go through them again, with the migration at its position; so they do
        in a difference, which is then as it was after the last row it has seen. Else they only enter the states of
        their sources: the others are incomplete from now on and completed on demand.
        """
        remembered, running = kept.remembered, kept.remembered.get("running")
        written = remembered.get("before" if running else "plan")
        first, plan = plan, plan if written is None else read_plan(written, own_aggregates(plan.query.root))
        run = SlidingRun.start(version, plan, spec)
        run._first, run._looked_us = first, remembered.get("looked_us")
        run.due = _requests([*([running] if running else []), *remembered.get("due", [])])
        pipeline = run.migrator.pipeline
        # What the stages hold is kept by itself; rows that go through the joins again have been there.
        held, pipeline.stages = pipeline.stages, []
        again = bool(running) or pipeline.execution.replays
        if not running:  # one that is repeated begins where it has begun
            run.migrator.load_bound(remembered.get("bound"))
        if kept.rows and again:
            run._repeat(run._number(kept.rows))
        elif kept.rows:
            run._take_in_again(run._number(run._joined(kept.rows, kept.released_us)), kept.released_us)
        if running:  # no row may have come since it began
            run._start_due(kept.released_us)
        run.migrator.load_bound(remembered.get("bound"))
        pipeline.stages = held
        for k, table, counters in kept.stages:
            held[k].restore(table, counters)
        pipeline.ends.load(remembered.get("ends", []))
        if remembered.get("drain") is not None:
            pipeline.drain(*remembered["drain"])
        run.begin_batch()
        return run

    @classmethod
    def migrated(cls, running: Plan, request: MigrationRequest) -> Plan:
        """Return the plan a migration asks for; refuse a strategy that the query does not allow."""
        request.checked(running)
        return request.target(running)

    def target(self, request: MigrationRequest, written: Any | None = None) -> Plan:
        """Return the plan a migration asks for, from the one that runs."""
        return self.migrated(self.plan, request)

    @property
    def migrating(self) -> bool:
        """Return whether a migration is under way, or waits; not what a restart has left to be completed."""
        running = self.migrator.running
        return bool(self.due or self.migrator.waiting) or (running is not None and running.strategy != RECOVERY)

    def holds_before(self, position_us: int) -> bool:
        """Tell whether joins, differences or windows of time over them hold a row from before a position."""
        pipeline, timed = self.migrator.pipeline, len(self.plan.query.parts.timed)
        now_us = pipeline.expires_upto_us(self.migrator.last_us, pipeline.clock_us)
        return now_us is not None and pipeline.holds_before(position_us, now_us, self.next_seq - 1, timed)

    def succeed(self, before: VersionRun, row: str = "") -> None:
        """Answer from here on in place of another run."""
        old = cast(SlidingRun, before)
        self.leaving, self.hops = old.leaving, old.hops
        self.held_elsewhere, self.drains_later = old.held_elsewhere, old.drains_later
        self._first, self._phase, self._before = old._first, old._phase, old._before
        self.migrator.succeed(old.migrator)
        self.migrator.pipeline.succeed(old.migrator.pipeline, len(self.plan.query.parts.timed))

    @classmethod
    def load_kernels(cls, plan: Plan) -> None:
        """Load what migrations of a plan will need, before one is asked for; once per process."""
        load_kernels(plan)

    def begin_batch(self) -> None:
        """Start counting for a micro-batch."""
        super().begin_batch()
        self.migrator.pipeline.ends.begin_batch()
        self._phase = self.migrator.phase
        self._before = {r.identity: r.state for r in self.migrator.records}

    @property
    def plan(self) -> Plan:
        """Return the plan that runs, or is being migrated to."""
        return self.migrator.plan

    @property
    def phase(self) -> str:
        """Return what has been going on in this micro-batch, in a word or two."""
        return self._phase

    @property
    def phase_now(self) -> str:
        """Return what is going on now."""
        return self.migrator.phase

    def take(self, rows: dict[str, Rows], upto_us: int, clock_us: int) -> None:
        """Run the rows below a time through the operators."""
        if rows:
            self._run(self._number(rows))
        self._now_us = now_us = min(clock_us, upto_us)
        self.migrator.advance(now_us, self.next_seq - 1)
        self._release_ended()
        if clock_us >= upto_us:
            self._start_due(upto_us)
        if now_us > self.migrator.pipeline.clock_us:
            self._leave(self.migrator.pipeline.tick(now_us))

    def _number(self, rows: dict[str, Rows]) -> dict[str, Arrival]:
        query = self.plan.query
        by_alias = {a: rows[a] if a in rows else nothing(query.source(a).stream, c) for a, c in self._columns.items()}
        return number_rows(query, by_alias, self.next_seq)

    def _run(self, arrivals: dict[str, Arrival]) -> None:
        end = self.next_seq + sum(len(a) for a in arrivals.values())
        migrator = self.migrator
        while self.next_seq < end:
            now_us = time_of(arrivals, self.next_seq)
            self._start_due(now_us)
            stop = stop_at(arrivals, now_us, end, [migrator.next_cut_us(), *(r.at_us for r in self.due[:1])])
            for piece in slices(arrivals, self.next_seq, stop):
                results = migrator.on_rows(piece.arrivals, piece.now_us, piece.seq)
                self._release_ended()
                self.held += [Leaving(self.version, r) for r in migrator.pipeline.release()]
                for piece_of_results in results:
                    self._leave(piece_of_results)
                self._phase = migrator.phase if self._phase == "steady" else self._phase
            self.next_seq = stop

    def _leave(self, results: Results) -> None:
        if len(results):
            self.leaving.append(Leaving(self.version, results))

    def _start_due(self, now_us: int) -> None:
        """Start the migrations whose position has come."""
        while self.due and (self.due[0].at_us or 0) <= now_us:
            self.migrator.advance(now_us, self.next_seq - 1)
            self._release_ended()
            self.migrator.ask(self.due.pop(0), now_us, self.next_seq - 1)
            self._phase = self.migrator.phase if self._phase == "steady" else self._phase

    def _release_ended(self) -> None:
        """Release what was held back, when the migration that held it is over."""
        at_us = self.migrator.released_at_us
        if at_us is not None:
            self.release_held(at_us)
            self.migrator.released_at_us = None

    def release_held(self, at_us: int) -> None:
        """Let output that is held back leave at a time."""
        held = [*self.held_elsewhere(), *self.held]
        held += [Leaving(self.version, r) for r in self.migrator.pipeline.release()]
        self.leaving += [Leaving(self.version, h.results, at_us) for h in held]
        self.held = []

    def merge_output(self) -> None:
        """Hold nothing back from now on."""
        self.migrator.merge_output()

    def take_held(self) -> list[Leaving]:
        """Return output that is held back, to be kept elsewhere."""
        held, self.held = self.held, []
        return held

    def migrate(self, request: MigrationRequest, plan: Any | None = None, row: str = "") -> None:
        """Note a migration, which takes effect before the first row at its position or later."""
        self.due.append(request)

    def trace(self, on: bool) -> None:
        """Let results say from now on what brought them and what they depend on; or not."""
        self.migrator.pipeline.trace(on)

    @property
    def drain_us(self) -> int | None:
        """Return the position whose older rows are watched for, or None."""
        return self.migrator.pipeline.drain_us

    def drain(self, position_us: int, goes_on: bool = False) -> None:
        """Watch from now on for the end of what began before a position."""
        self.migrator.pipeline.drain(position_us, goes_on)

    def drained(self) -> tuple[int, int] | None:
        """Return from which time on no result holds a row from before that position; that is known there."""
        over_us = self.migrator.pipeline.drained_us(self.next_seq - 1)
        return None if over_us is None else (over_us, over_us)

    @property
    def not_drained_us(self) -> int:
        """Return how far time has come: a row from before the position leaves with later ones, or at a later time."""
        return self.migrator.pipeline.clock_us

    @property
    def oldest_us(self) -> int:
        """Return the time of the oldest row that a result to come may hold."""
        return self.migrator.pipeline.oldest_us(self.next_seq - 1)

    def same_as(self, other: VersionRun) -> bool:
        """Return whether all windows over results stand alike in both."""
        theirs = cast(SlidingRun, other).migrator.pipeline.stages
        return all(a.same_as(b) for a, b in zip(self.migrator.pipeline.stages, theirs, strict=True))

    def records(self) -> list[MigrationRecord]:
        """Return the records of migrations under way, or ended in this micro-batch."""
        found = self.migrator.report()
        return [r for r in found if r.state in (RUNNING, QUEUED) or self._before.get(r.identity) != r.state]

    def take_over(self, before: VersionRun) -> None:
        """Go on from a run that was stopped and starts anew."""
        super().take_over(before)
        self.due = cast(SlidingRun, before).due

    def work(self) -> None:
        """Do what can be done between micro-batches."""
        self.migrator.work(self.next_seq - 1)

    def finish(self) -> None:
        """Say of migrations that are not over that they never will be."""
        for record in self.migrator.records:
            if record.state in (RUNNING, QUEUED):
                record.state = UNFINISHED
        self.release_held(FOREVER)

    @property
    def predicate_evaluations(self) -> int:
        """Return how many pairs the joins have tested so far."""
        return self.migrator.pipeline.predicate_evaluations

    @property
    def effort(self) -> Effort:
        """Return what the joins have done so far."""
        return self.migrator.pipeline.effort

    def live_entries(self) -> int:
        """Return how many entries of the joins can still matter."""
        last_us = self.migrator.last_us
        return 0 if last_us is None else self.migrator.pipeline.live_entries(last_us, self.next_seq - 1)

    def size(self) -> StateSize:
        """Return what the states hold now."""
        return self.migrator.pipeline.size()

    def expiry(self, released_us: int) -> Expiry | None:
        """Return which window rows are needed no more."""
        migrator, timed_us = self.migrator, self.plan.query.parts.timed_us
        now_us = migrator.pipeline.expires_upto_us(migrator.last_us, released_us)
        if not timed_us or now_us is None:
            return Expiry(now_us, FOREVER)
        # What windows of time over the joins hold comes from rows that have left the joins. Some may be to close yet.
        from_us = max(min(now_us, migrator.pipeline.clock_us) - timed_us, NEVER)
        return Expiry(from_us, from_us)

    def export(self) -> Any:
        """Return the operators with their states, to go on with elsewhere."""
        return self.migrator, self.next_seq

    def remember(self) -> dict[str, Any]:
        """Return the plan and the migrations under way or to come."""
        migrator = self.migrator
        divided = migrator.divides_work and migrator.current is not None
        return {
            "plan": self._written(migrator.plan),
            "before": self._written(migrator.before) if divided else None,
            "running": asdict(migrator.current) if divided and migrator.current is not None else None,
            "bound": migrator.bound(),
            "drain": migrator.pipeline.drain_so_far(),
            "ends": migrator.pipeline.ends.to_plain() if self.drains_later else [],
            "due": [asdict(r) for r in (*(request for request, _ in migrator.waiting), *self.due)],
            "looked_us": self._looked_us,
        }

    def _written(self, plan: Plan) -> dict[str, Any] | None:
        """Return a plan as plain values; None: the one the version was started with."""
        if plan is self._first:
            return None
        if plan not in self._plans_written:
            self._plans_written = {plan: write_plan(plan)}
        return self._plans_written[plan]

    def statistics(self, asked: bool = False) -> dict[str, Any] | None:
        """Return what the windows hold, every so often in event time: in the same micro-batch in all buckets."""
        if self._look_us == FOREVER or self._now_us == NEVER or asked != self._asked:
            return None
        before, self._looked_us = self._looked_us, self._now_us
        if not asked and (before is None or before // self._look_us == self._now_us // self._look_us):
            return None
        sources = self.migrator.pipeline.sources
        recent_us = widest_us(self.plan.query) or self._look_us
        return look_at_joins(self.plan, sources, self._now_us, self.next_seq - 1, recent_us).to_dict()

    def _know_written(self, remembered: dict[str, Any]) -> None:
        """Take over how the plan that runs was written down when the operators were exported."""
        if remembered["plan"] is None:
            self._first = self.migrator.plan
        else:
            self._plans_written = {self.migrator.plan: remembered["plan"]}

    def stage_rows(self) -> list[StageRows]:
        """Return what windows over results want kept."""
        out = []
        for stage in self.migrator.pipeline.stages:
            instead = stage.sparse  # before rows are handed out, which counts as written
            rows = stage.needed_rows() if instead else stage.fresh_rows()
            counters = stage.counters()
            out.append(StageRows(rows, StageState([], counters, stage.first_number, counters["next"]), instead))
        return out

    def _joined(self, rows: dict[str, Rows], now_us: int) -> dict[str, Rows]:
        """Leave out rows that only windows over the joins reach back to."""
        windows = {s.alias: s.window for s in self.plan.query.sources}
        widths = {a: w.width_us for a, w in windows.items() if isinstance(w, RangeWindow)}
        return {a: mine.since(now_us - widths[a]) if a in widths else mine for a, mine in rows.items()}

    def _take_in_again(self, arrivals: dict[str, Arrival], now_us: int) -> None:
        """Take in rows that have been through the joins; what the joins held is completed on demand."""
        end = self.next_seq + sum(len(a) for a in arrivals.values())
        for piece in slices(arrivals, self.next_seq, end):
            refill(self.migrator, piece.arrivals, piece.now_us, piece.seq)
        self.next_seq = end
        resume(self.migrator, now_us, end - 1)

    def _repeat(self, arrivals: dict[str, Arrival]) -> None:
        """Run rows through the joins again; what comes out has left, or is kept, already."""
        self._run(arrivals)
        self.leaving, self.held = [], []


def nothing(stream: Any, names: Iterable[str]) -> Rows:
    """Return no rows, with columns of a stream."""
    empty = pa.array([], pa.int64()).to_numpy()
    return Rows(empty, empty, {n: pa.array([], stream.type_of(n)) for n in names})


def _requests(plain: Iterable[dict[str, Any]]) -> list[MigrationRequest]:
    return [MigrationRequest(**request) for request in plain]
