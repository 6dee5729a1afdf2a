"""One bucket of a running query: its versions, run as their lives say, up to the same time.

    packed rows, controls ──▶ what is due, at its position ──▶ each version that lives ──▶ results of each version
                                                                                      └──▶ drains that are over

Results of versions that run together are merged where those of all buckets meet. A bucket may stay in memory from one
micro-batch to the next, or be put together anew from its store for each.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from midstream.change.lifecycle import DRAINED, Element
from midstream.change.repository import check_control, columns_of
from midstream.change.request import ChangeRequest, ControlRequest
from midstream.change.schema import schema_change
from midstream.engine.bucket.durable import DurableRows
from midstream.engine.bucket.state import BucketState, Due, VersionState
from midstream.engine.bucket.store import Store
from midstream.engine.bucket.version import OperatorMemory, VersionInBucket
from midstream.engine.control.controls import CHANGE, CONTROL, DRAIN, ELEMENT, MIGRATE
from midstream.engine.results.output import BucketOutput
from midstream.engine.rows.packed import Packed
from midstream.engine.run.contract import RunSpec
from midstream.migrate.record import REFUSED, MigrationRecord
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import MidstreamError
from midstream.model.time import FOREVER, NEVER
from midstream.plan.plan import Plan
from midstream.plan.query import CHANGES

SUMMED = ("predicate_evaluations", "state_tuples", "state_bytes", "flips")
"""What a bucket reports as a sum over its versions."""


@dataclass(frozen=True)
class BucketSpec:
    """What all buckets of a query share."""

    plan_of: Callable[[int], Plan]
    """Returns the plan a version was started with."""
    lateness_us: dict[int, int]
    """Allowed lateness per stream position."""
    recorded: bool
    """Rows come in order, with the offsets of a recording; else offsets are given as rows come."""
    labels: tuple[int, ...]
    """What all buckets are called; the first one counts rows that every bucket gets."""
    run: RunSpec = field(default_factory=RunSpec)
    schedule: tuple[Due, ...] = ()
    """What is to happen, known beforehand, in order of time."""
    audit: bool = False
    """Changes count what they lose, unless they say otherwise."""


class Bucket:
    """A bucket of a running query."""

    def __init__(
        self, spec: BucketSpec, label: int, store: Store | None = None, memory: OperatorMemory | None = None
    ) -> None:
        self.spec = spec
        self.label = label
        self._store = store
        self._memory = memory
        decides = len(spec.labels) <= 1
        self.state = BucketState.new(decides) if store is None else BucketState.read(store, decides)
        self.control = self.state.control
        self._open: dict[int, VersionInBucket] = {}
        self._packed = Packed()
        self._before: dict[int, int] = {}
        """Largest time per stream position that micro-batches before this one have shown."""
        self._ran: list[VersionInBucket] = []
        """The versions that have run in this micro-batch, oldest first; also those that are over."""
        self._drained: dict[int, int] = {}
        """Versions whose drain was over in this micro-batch, and since when."""
        self._begun: list[dict[str, Any]] = []
        """Changes and control elements that took effect in this micro-batch."""
        self._refused: list[MigrationRecord] = []
        self._traced = False

    def resume(self) -> None:
        """Take up the versions that run, as the store has them, before the next micro-batch comes."""
        for number in self.wanted():
            self._enter(number)

    def on_batch(self, packed: Packed) -> BucketOutput:
        """Process one micro-batch."""
        started = time.perf_counter()
        state = self.state
        controls = [c for c in packed.controls if c["id"] not in state.controls]
        self._before = dict(state.high)
        for position, high in packed.high.items():
            if high != NEVER:
                state.high[position] = max(high, state.high.get(position, high))
        if not state.batches:
            state.due = list(self.spec.schedule)
        self._packed, self._ran, self._drained, self._begun, self._refused = packed, [], {}, [], []
        drain = any(c["do"] == DRAIN for c in controls)
        self._read(controls)
        for version in self._open.values():
            version.begin_batch()
            self._take_in(version)
            self._ran.append(version)
        for number in self.wanted():
            if number not in self._open:
                self._enter(number)
        self._ask(controls)
        # For the whole micro-batch: what has left by then and what leaves after a change meet.
        due = [
            d
            for d in state.due
            if not isinstance(d, MigrationRequest) and (d.at_us or NEVER) <= self._reached_us(drain)
        ]
        self._trace(not self.control.quiet or bool(due))
        phase = self.control.phase
        self._run(drain)
        return self._close(started, controls, phase, drain)

    def _close(self, started: float, controls: list[dict[str, Any]], phase: str, drain: bool) -> BucketOutput:
        """Keep what must last, and report."""
        state, packed = self.state, self._packed
        statistics = [v.run.statistics() for v in list(self._open.values())[-1:]]
        closed = [version.close(drain, packed.last) for version in self._open.values()]
        state.controls += [c["id"] for c in controls]
        for number in [n for n in state.versions if n not in self._open]:
            self._forget(number)
        state.batches += 1
        if self._store is not None:
            state.write(self._store)
        leaving = [item for version in self._ran if self._speaks(version) for item in version.run.leaving]
        late = [(v, k) for v in self._ran[:1] for k in v.intake.late if v.intake.counted(k) and self._counts(v, k)]
        report = {
            **self._report(phase),
            "late": packed.untimed + sum(len(v.intake.late[k]) for v, k in late),
            "rows_out": sum(len(item.results) for item in leaving if item.version > 0),
            "shared": all(closed), "controls": controls, "statistics": statistics[0] if statistics else None,
            "wall_ms": (time.perf_counter() - started) * 1000,
        }  # fmt: skip
        return BucketOutput(self.label, leaving, [v.intake.late_table(k) for v, k in late], report)

    def _report(self, phase: str) -> dict[str, Any]:
        """Return counts, plan, phase, and what began or ended in this micro-batch, as plain values."""
        newest = self._ran[-1] if self._ran else None
        reports = [v.report() for v in self._ran]
        run = None if newest is None else newest.run
        records = [*self._refused, *([] if run is None else run.records())]
        steady = "steady" if run is None else run.phase
        return {
            "bucket": self.label, "batches": self.state.batches,
            "rows_in": sum(v.rows_in for v in self._ran if v.number > 0),
            "released_us": max((v.state.released_us for v in self._ran), default=NEVER),
            **{k: sum(r[k] for r in reports) for k in SUMMED},
            "waiting": max((v.intake.waiting for v in self._open.values()), default=0),
            "rebuilt": any(v.rebuilt for v in self._ran),
            "plan": "" if run is None else str(run.plan),
            "join": "auto" if run is None else run.plan.method,
            "phase": next((p for p in (phase, self.control.phase) if p != "steady"), steady),
            "migrations": [r.to_dict() for r in records],
            "begun": self._begun, "drained": {str(v): at_us for v, at_us in self._drained.items()},
            "due": sum(not isinstance(d, MigrationRequest) for d in self.state.due),
            "hops": {str(v.number): v.run.hops for v in self._ran},
            "hops_passed": 0 if run is None else run.hops_passed,
            "row": "" if run is None else run.row, "next_us": None if run is None else run.next_us,
        }  # fmt: skip

    def _read(self, controls: list[dict[str, Any]]) -> None:
        """Note what control rows ask for: changes take effect after every row that has been read anywhere."""
        state = self.state
        at_us = max(state.high.values(), default=NEVER) + 1
        for control in controls:
            here_us = control.get("at_us", at_us)
            if control["do"] == CHANGE:
                change = ChangeRequest(**control["change"])
                due: Due = replace(change, at_us=here_us, identity=control["id"], version=control["version"])
                state.due.append(due)
            elif control["do"] == CONTROL:
                state.due.append(ControlRequest(control["control"], here_us, control["id"]))
            elif control["do"] == ELEMENT:
                # It was decided where the output of all buckets meets.
                self._hear(Element(control["kind"], control["version"], control["at_us"]))

    def _hear(self, element: Element) -> None:
        """Let an element take effect that the results of all buckets together have brought about."""
        if element.kind != DRAINED:
            self.control.element(element)
        elif element.version > 0:
            self.control.see(element.version, (), element.at_us)
        else:
            self._end_reference(-element.version)

    def _end_reference(self, new: int) -> None:
        for change in self.control.changes:
            if change.new == new and change.wants_reference:
                self.control.see_reference(change, (), True)

    def wanted(self) -> list[int]:
        """Return the versions that take rows: those that live, are audited or wait, and references (negative)."""
        control = self.control
        lives = [n for n, life in control.lives.items() if self._runs(n) or n in self._waiting()]
        return [*lives, *(-c.new for c in control.changes if c.wants_reference)]

    def _waiting(self) -> list[int]:
        """Return versions that keep their rows until they may start."""
        return [c.new for c in self.control.open_changes if c.waits_for_drain]

    def _enter(self, number: int) -> VersionInBucket:
        """Take a version up."""
        state, plan = self.state, self.spec.plan_of(abs(number))
        start_us = self._start_us(number)
        new = number not in state.versions
        if new:
            state.versions[number] = VersionState(batches=state.batches)
            if start_us is not None:
                state.versions[number].released_us = start_us
        lateness = {s.position: self.spec.lateness_us.get(s.position, 0) for s in plan.query.sources}
        version = VersionInBucket(
            number, plan, self.spec.run, state.versions[number], lateness, self.spec.recorded, self._store, self._memory
        )
        if new and start_us is not None:
            version.run.begin_at(start_us)
        version.run.trace(self._traced)
        self._take_in(version)
        self._open[number] = version
        self._ran.append(version)
        return version

    def _start_us(self, number: int) -> int | None:
        """Return from where a version takes rows; None: from the first one on."""
        if number < 0:
            return next(c.position_us for c in self.control.changes if c.new == -number)
        start_us = self.control.lives[number].start_us
        return None if start_us == NEVER else start_us

    def _take_in(self, version: VersionInBucket) -> None:
        """Let a version have the rows of this micro-batch."""
        packed, intake = self._packed, version.intake
        late_before_us = {s.position: intake.late_before_us(s.position, self._before) for s in intake.sources}
        intake.take_in(packed, abs(version.number), self._start_us(version.number), self._before)
        if version.number > 0 and self.control.lives[version.number].start_us == NEVER:
            # The first row of the query, in whatever bucket, of those that are not late.
            first = [max(t, late_before_us[p]) for p, t in packed.low.items() if p in late_before_us]
            if len(self.spec.labels) == 1:
                first = [] if intake.first_us is None else [intake.first_us]
            for time_us in first:
                version.run.begin_at(time_us)

    def _trace(self, on: bool) -> None:
        self._traced = on
        for version in self._open.values():
            version.run.trace(on)

    def _run(self, drain: bool) -> None:
        """Run all versions up to where no row can come any more, stopping where something is due."""
        while True:
            reached_us = self._reached_us(drain)
            due = [d for d in self.state.due if (NEVER if d.at_us is None else d.at_us) <= reached_us]
            at_us = due[0].at_us if due else None
            self._advance(self._safe_us(drain) if at_us is None else at_us)
            if not due:
                return
            self.state.due.remove(due[0])
            self._begin(due[0])

    def _clock_us(self) -> int:
        """Return how far time itself has come: no further than the last row."""
        clock_us = self._packed.clock_us
        return max(self.state.high.values(), default=NEVER) if clock_us is None else clock_us

    def _reached_us(self, drain: bool) -> int:
        """Return up to where things that are due happen."""
        clock_us = self._packed.clock_us
        return min(self._safe_us(drain), FOREVER if clock_us is None else clock_us)

    def _safe_us(self, drain: bool) -> int:
        """Return up to where all rows have come, for the versions that run."""
        high = self.state.high
        running = [v for n, v in self._open.items() if n > 0 and self.control.lives[n].alive]
        if running:
            return min(v.intake.safe_us(drain, high) for v in running)
        return min(high.values(), default=NEVER)

    def _advance(self, upto_us: int) -> None:
        """Run every version that lives up to a time; see what first results and ended drains bring."""
        done: set[int] = set()
        self._watch()
        self._start_waiting()
        while todo := [n for n in sorted(self._open) if n not in done and self._runs(n)]:
            number = todo[0]
            done.add(number)
            version = self._open[number]
            before = len(version.run.leaving)
            over_us = self._advance_one(version, upto_us)
            if number < 0:
                self._see_reference(-number, over_us)
                continue
            self.state.counted_us = max(self.state.counted_us, upto_us)
            if over_us is not None:
                self._drained[number] = over_us
                if self._with_others(version):
                    over_us = None
            # Results matter here where first results are decided here.
            fresh = version.run.leaving[before:] if self._expected() else []
            self.control.see(number, [item.results for item in fresh], over_us)
            self._start_waiting()
        self.control.follow()
        self._watch()
        self._leave()

    def _runs(self, number: int) -> bool:
        """Return whether rows go through a version: it lives, or what it loses or would have emitted is counted."""
        if number < 0:
            return any(c.new == -number and c.wants_reference for c in self.control.changes)
        return self.control.lives[number].alive or self.control.audits(number)

    def _expected(self) -> bool:
        return self.control.decides and any(c.waits_for_result for c in self.control.open_changes)

    def _advance_one(self, version: VersionInBucket, upto_us: int) -> int | None:
        """Run one version up to a time; return since when its drain is over."""
        clock_us, counted_us, here = self._clock_us(), self.state.counted_us, self._here(version)
        if upto_us < version.state.released_us:
            # All rows are there, but time itself has not come further.
            clock_us, upto_us = min(clock_us, upto_us), version.state.released_us
        exact = version.number > 0 and any(c.waits_for_drain for c in self.control.open_changes)
        if exact and version.run.drains_by_rows:
            for time_us in version.intake.instants(upto_us):
                version.advance(time_us + 1, time_us, counted_us, here)
                if (over_us := version.drained_us()) is not None:
                    version.advance(upto_us, clock_us, counted_us, here)
                    return over_us
        version.advance(upto_us, clock_us, counted_us, here)
        return version.drained_us()

    def _here(self, version: VersionInBucket) -> set[str]:
        """Return the aliases whose rows count as input in this bucket: those every bucket gets count in the first."""
        everywhere = self.spec.plan_of(abs(version.number)).partitioning.broadcast
        first = self.label == self.spec.labels[0]
        return {s.alias for s in version.intake.sources if first or s.alias not in everywhere}

    def _with_others(self, version: VersionInBucket) -> bool:
        """Return whether others have to say that the drain of a version is over."""
        return version.run.drains_with_others and len(self.spec.labels) > 1

    def _speaks(self, version: VersionInBucket) -> bool:
        """Return whether results of a version come from here: of one that runs in one bucket only from the first.

        The others have no row of it, but a query that hops answers without any.
        """
        one = self.spec.plan_of(abs(version.number)).partitioning.one_bucket
        return not one or self.label == self.spec.labels[0]

    def _counts(self, version: VersionInBucket, rank: int) -> bool:
        return version.intake.sources[rank].alias in self._here(version)

    def _see_reference(self, new: int, over_us: int | None) -> None:
        """Follow a version that runs as if it had been started at once, until what that would change is over."""
        for change in self.control.changes:
            if change.new == new and change.wants_reference:
                started_us = change.record.started_us
                if started_us is not None:
                    self._open[-new].watch(started_us)
                if over_us is not None:
                    self._drained[-new] = over_us
                    if not self._with_others(self._open[-new]):
                        self.control.see_reference(change, (), True)

    def _watch(self) -> None:
        """Let versions that drain, or whose losses are counted, look out for the end of what is old."""
        for number, version in self._open.items():
            watched_us = self.control.watched_us(number) if number > 0 else None
            if watched_us is not None:
                version.watch(watched_us)

    def _start_waiting(self) -> None:
        """Let versions that had to wait for a drain begin with the rows from their start on."""
        for number, version in self._open.items():
            if number < 0:
                continue
            life, state = self.control.lives[number], version.state
            if life.alive and life.start_us is not None and state.released_us < life.start_us:
                state.released_us = life.start_us
                version.intake.start_at(life.start_us)
                version.run.begin_at(life.start_us)

    def _leave(self) -> None:
        """Release versions that are over."""
        for number in [n for n in self._open if not self._runs(n) and n not in self._waiting()]:
            stop_us = self.control.lives[number].stop_us if number > 0 else None
            if stop_us is None or self._open[number].state.released_us >= stop_us:
                del self._open[number]

    def to_come(self) -> list[Due]:
        """Return what is to happen and whose position has not been reached."""
        return self.state.due if self.state.batches else list(self.spec.schedule)

    @property
    def newest(self) -> VersionInBucket | None:
        """Return the newest version that lives."""
        alive = [n for n in self._open if n > 0 and self.control.lives[n].alive]
        return self._open[max(alive)] if alive else None

    def _ask(self, controls: list[dict[str, Any]]) -> None:
        """Note the migrations that control rows ask for, from here on."""
        newest = self.newest
        for control in controls:
            if control["do"] != MIGRATE or newest is None:
                continue
            if newest.run.planned_elsewhere and "plan" not in control:
                continue
            if control.get("version", newest.number) != newest.number:
                continue  # a plan of a version that runs no more
            identity, at_us = control.get("of", control["id"]), max(newest.state.released_us, -FOREVER)
            asked = dict(control["migration"])
            try:
                request = MigrationRequest(**{**asked, "identity": identity})
                request = replace(request, at_us=at_us) if request.at_us is None else request
                newest.run.migrate(request, control.get("plan"), control["id"])
            except (MidstreamError, TypeError) as error:
                record = MigrationRecord(identity, str(asked.get("plan")), str(asked.get("strategy")))
                record.state, record.reason = REFUSED, str(error)
                self._refused.append(record)

    def _migrate(self, request: MigrationRequest) -> None:
        """Let the newest version know of a migration whose position has come."""
        newest = self.newest
        if newest is not None:
            newest.run.migrate(request)
            return
        record = MigrationRecord(request.identity, request.plan, request.strategy, request.options, request.at_us)
        record.state, record.reason = REFUSED, "nothing runs that could be migrated"
        self._refused.append(record)

    def _begin(self, due: Due) -> None:
        """Let something take effect at its position."""
        if isinstance(due, MigrationRequest):
            self._migrate(due)
            return
        at_us = due.at_us if due.at_us is not None else NEVER
        for version in self._open.values():
            # What a migration holds back does not outlast the version as it was.
            version.run.release_held(at_us)
        begun: dict[str, Any] = {"at_us": at_us, "id": due.identity}
        if isinstance(due, ControlRequest):
            self._begun.append({**begun, "control": due.control, **self._begin_control(due, at_us)})
        else:
            self._begun.append({**begun, **self._begin_change(due, at_us)})
        for number in self.wanted():
            if number not in self._open:
                version = self._enter(number)
                if number in self._waiting():
                    version.intake.start_at(at_us)
        self._leave()

    def _begin_control(self, due: ControlRequest, at_us: int) -> dict[str, Any]:
        """Let a control element take effect; return why not, if it cannot."""
        try:
            check_control(due, [self.spec.plan_of(life.version) for life in self.control.alive])
            self.control.control(due.element, at_us)
        except MidstreamError as error:
            return {"refused": str(error)}
        for life in self.control.alive:
            if life.start_us == at_us and life.version in self._open:
                self._restart(life.version)
            elif life.start_us == at_us:
                self._forget(life.version)
        return {}

    def _begin_change(self, due: ChangeRequest, at_us: int) -> dict[str, Any]:
        """Let a change take effect; return what others have to know of it."""
        number = self.state.next_version if due.version is None else due.version
        self.state.next_version = max(self.state.next_version, number + 1)
        running = [self.spec.plan_of(life.version) for life in self.control.alive]
        new = self.spec.plan_of(number)
        audit = self.spec.audit if due.audit is None else due.audit
        audit = audit and not any(plan.query.emit == CHANGES for plan in (*running, new))
        before = running[-1] if running else self.spec.plan_of(self.control.newest)
        columns = schema_change(columns_of(before), columns_of(new))
        self.control.change(due, number, at_us, audit)
        return {"change": due.to_dict(), "version": number, "audit": audit, "schema_change": columns}

    def _forget(self, number: int) -> None:
        """Forget what is written down of a version."""
        state = self.state.versions.pop(number, None)
        if state is not None and self._store is not None:
            DurableRows(self._store, state, number).forget()
        if self._memory is not None:
            self._memory.forget(number)

    def _restart(self, number: int) -> None:
        """Forget what a version holds: it starts anew."""
        before = self._open.pop(number)
        self._forget(number)
        fresh = self._enter(number)
        self._ran.remove(fresh)
        self._ran[self._ran.index(before)] = fresh
        fresh.take_over(before)
        fresh.intake.start_at(self._start_us(number) or NEVER)
