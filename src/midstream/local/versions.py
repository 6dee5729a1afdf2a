"""Versions: a running query whose meaning can change. Each version runs by itself; the control manager says which do.

    streams' rows, cut where something is due ──▶ gatekeeper of each version ──▶ its runtime ──▶ control manager, merger

While one version runs and nothing is going on, rows go straight to it.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from midstream.change.control import Change, ControlManager
from midstream.change.coordinator import Coordinator
from midstream.change.gatekeeper import Gatekeeper
from midstream.change.merger import versioned
from midstream.change.record import ChangeRecord, unreached
from midstream.change.repository import Repository, check_control, columns_of
from midstream.change.request import ChangeRequest, ControlRequest
from midstream.change.schema import schema_change
from midstream.engine.watch import OutputWatch
from midstream.local.local import LocalRuntime
from midstream.local.sources import Rows, rows_from, split
from midstream.migrate.record import NOT_REACHED, REFUSED, MigrationRecord
from midstream.migrate.request import MigrationRequest
from midstream.model.batch import Results
from midstream.model.errors import PlanError
from midstream.operators.build import TREE
from midstream.operators.contract.execution import StateSize
from midstream.plan.plan import Plan

Request = MigrationRequest | ChangeRequest | ControlRequest


@dataclass
class Member:
    """A version that runs: since when, and who asks it to drain."""

    runtime: LocalRuntime
    start_us: int | None
    coordinator: Coordinator

    def drained_us(self) -> int | None:
        """Return from which time on nothing is left of what it drains; None: there may be something."""
        return self.coordinator.drained_us(self.runtime.next_seq - 1)


class VersionedRuntime:
    """A running query: its versions, what they hold, and what is to happen to them."""

    def __init__(
        self,
        repository: Repository,
        buckets: int = 1,
        schedule: Sequence[Request] = (),
        framework: str = TREE,
        routing: str = "selectivity",
        audit: bool = True,
    ) -> None:
        self.repository = repository
        self.buckets = buckets
        self.schedule = list(schedule)
        """What is to happen, in order of time; a change's version is in the repository, in the same order."""
        self._framework, self._routing, self._audit = framework, routing, audit
        self.control = ControlManager()
        self.members: dict[int, Member] = {}
        self._references: dict[int, Member] = {}
        self._ended: list[LocalRuntime] = []
        self._next_version = 2
        self.batch_watch = OutputWatch()
        self._tested = 0
        self._records: list[MigrationRecord] = []
        self._sync()

    @property
    def current(self) -> LocalRuntime:
        """Return the runtime of the newest version that runs, or of the last one that did."""
        return self.members[max(self.members)].runtime if self.members else self._ended[-1]

    hops = flips = 0
    """What hopping queries have, and others do not."""

    @property
    def buckets_used(self) -> int:
        """Return how many buckets the running version uses."""
        return self.current.buckets

    @property
    def version(self) -> int:
        """Return the newest version that runs, or would start again."""
        return self.control.newest

    @property
    def plan(self) -> Plan:
        """Return the plan of the newest version that runs, or is being migrated to."""
        return self.current.plan

    @property
    def phase(self) -> str:
        """Return what is going on."""
        return self.current.phase if self.control.phase == "steady" else self.control.phase

    @property
    def predicate_evaluations(self) -> int:
        """Return how many pairs the joins have tested so far."""
        running = (*self.members.values(), *self._references.values())
        return self._tested + sum(m.runtime.predicate_evaluations for m in running)

    def size(self) -> StateSize:
        """Return what the states of all versions hold now."""
        total = StateSize()
        for member in (*self.members.values(), *self._references.values()):
            total.add(member.runtime.size())
        return total

    def streams(self) -> set[str]:
        """Return the streams that versions read now."""
        return {s.stream.name for m in self.members.values() for s in m.runtime.plan.query.sources}

    def on_rows(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Take in the next rows of every stream and yield what leaves, in order, with the version that gave it."""
        while rows and (now_us := _first_us(rows)) is not None:
            yield from self._start_due(now_us)
            later = [r.at_us for r in self.schedule[:1] if r.at_us is not None]
            piece, rows = (rows, {}) if not later else split(rows, later[0])
            if self.control.quiet and not self._references:
                yield from self._straight(piece, now_us)
            else:
                yield from self._rounds(piece)

    def _straight(self, rows: Rows, now_us: int) -> Iterator[pa.RecordBatch]:
        """Run rows through the one version there is."""
        (number, member), *_ = self.members.items()
        member.runtime.trace(False)
        last = None
        mine = rows if member.start_us is not None and member.start_us <= now_us else self._let_in(number, rows)
        for results in member.runtime.on_rows(mine):
            if len(results):
                self.batch_watch.see(results.rows)
                last = results
                yield versioned(results.rows, number)
        if len(rows) > len({s.stream.name for s in member.runtime.plan.query.sources}):
            results = member.runtime.tick(_last_us(rows))
            if len(results):
                self.batch_watch.see(results.rows)
                last = results
                yield versioned(results.rows, number)
        if last is not None:
            self.control.last_left = (last.rows.column("_time")[-1].as_py(), time.perf_counter())

    def _rounds(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Run rows through all versions, as many at a time as their drains allow to say exactly when they are over."""
        waits = any(c.waits_for_drain for c in self.control.open_changes)
        if waits and any(m.coordinator.by_rows for m in self.members.values()):
            while (now_us := _first_us(rows)) is not None:
                piece, rows = split(rows, now_us + 1)
                yield from self._round(piece)
        else:
            yield from self._round(rows)

    def _round(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        last_us = _last_us(rows)
        done: set[int] = set()
        while todo := sorted(set(self.members) - done):
            number = todo[0]
            done.add(number)
            member = self.members[number]
            results = list(member.runtime.on_rows(self._let_in(number, rows)))
            # Time passes with the rows of any stream.
            self.control.see(number, [*results, member.runtime.tick(last_us)], member.drained_us())
            self._sync()
        self._run_references(rows, last_us)
        yield from self._settle(last_us)
        yield from self._end_drains(last_us)

    def _end_drains(self, now_us: int) -> Iterator[pa.RecordBatch]:
        """See whether drains that have just begun are over already."""
        for number, member in list(self.members.items()):
            if (over_us := member.drained_us()) is not None:
                self.control.see(number, [], over_us)
                self._sync()
        yield from self._settle(now_us)

    def _let_in(self, number: int, rows: Rows) -> Rows:
        gate = Gatekeeper(self.control.lives[number])
        return {name: rows_from(part, gate.first(part.times)) for name, part in rows.items()}

    def _settle(self, now_us: int, everything: bool = False) -> Iterator[pa.RecordBatch]:
        for emission in self.control.settle(now_us, everything):
            for batch in emission.batches:
                self.batch_watch.see_released(batch, now_us) if emission.held else self.batch_watch.see(batch)
                yield batch
        self._sync()

    def _start_due(self, now_us: int) -> Iterator[pa.RecordBatch]:
        """Let happen what is due before the rows at `now_us`."""
        while self.schedule and (self.schedule[0].at_us is None or self.schedule[0].at_us <= now_us):
            yield from self.ask(self.schedule.pop(0), now_us)

    def ask(self, request: Request, now_us: int) -> Iterator[pa.RecordBatch]:
        """Let something happen before the next row, at `now_us` or later; yield what leaves because of it."""
        at_us = now_us if request.at_us is None else request.at_us
        if isinstance(request, MigrationRequest):
            number = max((life.version for life in self.control.alive), default=0)
            if number in self.members:
                for results in self.members[number].runtime.migrate(request, now_us):
                    yield versioned(results.rows, number)
            else:
                record = MigrationRecord(request.identity, request.plan, request.strategy, request.options, at_us)
                record.state, record.reason = REFUSED, "nothing runs that could be migrated"
                self._records.append(record)
            return
        # Window instances that end before the position, or at it, are whole.
        for number, member in self.members.items():
            member.runtime.trace()
            # What a migration holds back does not outlast the version as it was.
            released = [r for p in member.runtime.pipelines for r in p.release()]
            self.control.see(number, [*released, member.runtime.tick(at_us)], member.drained_us())
        self._sync()
        yield from self._settle(at_us)
        if isinstance(request, ControlRequest):
            try:
                plans = [self.repository[life.version].plan for life in self.control.alive]
                check_control(request, plans)
                self.control.control(request.element, at_us)
            except PlanError as error:
                # Refused, and the run goes on; the change it was meant for says why.
                for changed in self.control.records()[-1:]:
                    changed.reason = str(error)
        else:
            audit = self._audit if request.audit is None else request.audit
            number, self._next_version = self._next_version, self._next_version + 1
            for member in self.members.values():
                audit = audit and not member.runtime.plan.query.signed
            audit = audit and not self.repository[number].plan.query.signed
            before, after = (columns_of(self.repository[n].plan) for n in (self.version, number))
            change = self.control.change(replace(request, at_us=at_us), number, at_us, audit)
            change.record.schema_change = schema_change(before, after)
        self._sync()
        yield from self._end_drains(at_us)

    def _sync(self) -> None:
        """Start, drain and end runtimes as the lives of the versions say."""
        for number, life in self.control.lives.items():
            member = self.members.get(number)
            if member is not None and not life.alive and not self.control.audits(number):
                self._drop(self.members.pop(number))
            elif life.alive and (member is None or member.start_us != life.start_us):
                if member is not None:
                    self._drop(member)
                member = self.members[number] = self._member(number, life.start_us, number > 1 or member is not None)
            watched_us = self.control.watched_us(number)
            member = self.members.get(number)
            if member is not None and watched_us is not None and member.coordinator.position_us is None:
                member.coordinator.drain(watched_us)
        for change in self.control.changes:
            if change.wants_reference and change.new not in self._references:
                self._references[change.new] = self._member(change.new, change.position_us, True)

    def _member(self, number: int, start_us: int | None, traced: bool) -> Member:
        plan = self.repository[number].plan
        runtime = LocalRuntime(plan, self.buckets, (), self._framework, self._routing)
        if traced:
            runtime.trace()
        return Member(runtime, start_us, Coordinator(runtime.pipelines))

    def _drop(self, member: Member) -> None:
        self._tested += member.runtime.predicate_evaluations
        self._records += member.runtime.records()
        self._ended = [member.runtime]

    def _run_references(self, rows: Rows, last_us: int) -> None:
        """Run new versions that wait for a drain as if they did not, only to count what their waiting loses."""
        for change in self.control.changes:
            member = self._references.get(change.new)
            if member is None:
                continue
            if change.wants_reference:
                start_us = change.position_us
                mine = {n: rows_from(r, int(np.searchsorted(r.times, start_us))) for n, r in rows.items()}
                results = [*member.runtime.on_rows(mine), member.runtime.tick(last_us)]
                self.control.see_reference(change, results, self._reference_over(change, member))
            if not change.wants_reference:
                self._tested += member.runtime.predicate_evaluations
                del self._references[change.new]

    @staticmethod
    def _reference_over(change: Change, member: Member) -> bool:
        started_us = change.record.started_us
        if started_us is None:
            return False
        if member.coordinator.position_us is None:
            member.coordinator.drain(started_us)
        return member.drained_us() is not None

    def work(self) -> None:
        """Do what can be done between micro-batches."""
        for member in self.members.values():
            member.runtime.work()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """End the run: yield what is still held back, and say which changes are not over."""
        for number, member in self.members.items():
            results: list[Results] = list(member.runtime.finish())
            self.control.see(number, results)
        now_us = self.control.last_left[0] if self.control.last_left else 0
        yield from self._settle(now_us, everything=True)
        self.control.finish()

    def records(self) -> list[MigrationRecord]:
        """Return what became of each migration."""
        running = [r for m in self.members.values() for r in m.runtime.records()]
        told = [*self._records, *running]
        for request in self.schedule:
            if isinstance(request, MigrationRequest):
                told.append(
                    MigrationRecord(
                        request.identity, request.plan, request.strategy, request.options, request.at_us,
                        str(self.plan), NOT_REACHED,
                    )
                )  # fmt: skip
        return told

    def changes(self) -> list[ChangeRecord]:
        """Return what became of each change."""
        return [*self.control.records(), *unreached(self.schedule, self._next_version)]


def _first_us(rows: Rows) -> int | None:
    """Return the time of the first row."""
    return min((int(r.times[0]) for r in rows.values() if len(r.times)), default=None)


def _last_us(rows: Rows) -> int:
    """Return the time of the last row."""
    return max(int(r.times[-1]) for r in rows.values() if len(r.times))
