"""A hopping query in process: rows go into the windows, and at every hop that time has reached the answer leaves.

    streams' rows, cut at the hops ──▶ buckets ──▶ windows ──▶ the answer at the hop ──▶ another plan, if one is due

A hop is answered when a row at its time or later has come; hops without rows are answered, too.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from midstream.change.record import ChangeRecord
from midstream.engine.routing import buckets_of
from midstream.engine.watch import OutputWatch
from midstream.local.hop_sizes import SeenSizes
from midstream.local.hop_statistics import look_at, statistics_of
from midstream.local.local import one_array
from midstream.local.sources import Rows, split
from midstream.migrate.record import FINISHED, NO_OP, NOT_REACHED, REFUSED, MigrationRecord
from midstream.migrate.request import MOVING_STATE, MigrationRequest
from midstream.model.errors import MidstreamError
from midstream.operators.contract.execution import StateSize
from midstream.operators.hopping.build_execution import HopExecution
from midstream.operators.hopping.emission import merged
from midstream.optimize.hopping.statistics import HopStatistics
from midstream.plan.plan import Plan

Planner = Callable[[Plan, MigrationRequest, "HopRuntime"], Plan]
"""Makes the plan a migration asks for, from the one that runs and what is known of the rows."""
Adviser = Callable[["HopRuntime"], Plan | None]
"""Says, right behind a hop, whether to go on with another plan."""


class HopRuntime:
    """A hopping query at work: one execution in each bucket, all at the same hop."""

    version = 1
    """Hopping queries have one version."""

    def __init__(
        self,
        plan: Plan,
        planner: Planner,
        buckets: int = 1,
        schedule: Sequence[MigrationRequest] = (),
        adviser: Adviser | None = None,
    ) -> None:
        self.plan = plan
        self.buckets = 1 if plan.partitioning.one_bucket else buckets
        self.executions = [HopExecution(plan) for _ in range(self.buckets)]
        self.schedule = list(schedule)
        self.batch_watch = OutputWatch()
        self.phase = "steady"
        self.hops = 0
        """Hops answered so far, those without rows included."""
        self.first_us: int | None = None
        """The time of the first row."""
        self.next_us: int | None = None
        """The next hop."""
        self.hops_with_plan = 0
        """Hops answered since the plan was last replaced."""
        self._planner = planner
        self._adviser = adviser
        self._adapted = 0
        self._offsets: dict[str, int] = {}
        self._records: list[MigrationRecord] = []
        self._sizes = SeenSizes()
        self._quiet = False
        """The last answer was empty, and so will the next be while no window holds a row."""

    @property
    def buckets_used(self) -> int:
        """Return how many buckets there are."""
        return self.buckets

    @property
    def hop_us(self) -> int:
        """Return how far apart hops are."""
        return self.plan.query.every_us

    @property
    def predicate_evaluations(self) -> int:
        """Return how many tuples, pairs and values the operators have looked at."""
        return sum(e.tested for e in self.executions)

    @property
    def flips(self) -> int:
        """Return how often values came into differences or left them before their time."""
        return sum(e.flips for e in self.executions)

    def size(self) -> StateSize:
        """Return what windows and operators hold now."""
        return StateSize(sum(e.tuples for e in self.executions), sum(e.nbytes for e in self.executions))

    def statistics(self) -> HopStatistics | None:
        """Return what is known of the rows from those in the windows, right behind a hop; None before the first."""
        if not self.hops:
            return None
        return statistics_of(self.plan, [look_at(e) for e in self.executions], self._sizes)

    def streams(self) -> set[str]:
        """Return the streams that are read."""
        return {s.stream.name for s in self.plan.query.sources}

    def on_rows(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Take in the next rows of every stream and yield the answers of the hops that time has reached."""
        rows = {name: part for name, part in rows.items() if name in self.streams() and len(part.times)}
        if not rows:
            return
        first_us = min(int(part.times[0]) for part in rows.values())
        last_us = max(int(part.times[-1]) for part in rows.values())
        if self.next_us is None:
            self.first_us = first_us
            self._reschedule(first_us)
            self.next_us = next_hop(first_us, self.hop_us)
        while rows:
            before, rows = split(rows, self.next_us)
            self._add(before)
            rows = {name: part for name, part in rows.items() if len(part.times)}
            if self.next_us > last_us:
                break
            following = min(int(part.times[0]) for part in rows.values())
            while self.next_us <= following:
                self._skip_to(following)
                yield from self._answer()
        for execution in self.executions:
            if execution.eager:
                execution.work(self.next_us)

    def _answer(self) -> Iterator[pa.RecordBatch]:
        hop_us = self.next_us
        assert hop_us is not None, "there is a hop to answer"
        answer = merged([e.answer(hop_us) for e in self.executions], len(self.plan.query.schema))
        self.hops += 1
        self.hops_with_plan += 1
        self._quiet = not answer.num_rows
        if answer.num_rows:
            self.batch_watch.see(answer)
        self.next_us = hop_us + self.hop_us
        yield answer
        self._reschedule(hop_us)
        if self._adviser is not None and (plan := self._adviser(self)) is not None:
            self._adapted += 1
            self._switch_plan(plan, MigrationRequest(str(plan), identity=f"adapted {self._adapted}"), hop_us)

    def _skip_to(self, following_us: int) -> None:
        """Pass over hops that are answered by nothing: nothing was there before, and no window holds a row."""
        assert self.next_us is not None, "there is a hop to answer"
        if self._quiet and all(e.idle for e in self.executions):
            if self.schedule:
                # A migration takes effect at its hop, whether something is there or not.
                following_us = min(following_us, max(self.schedule[0].at_us or 0, self.next_us))
            skipped = max((following_us - self.next_us) // self.hop_us, 0)
            self.hops += skipped
            self.hops_with_plan += skipped
            self.next_us += skipped * self.hop_us

    def _add(self, rows: Rows) -> None:
        for source in self.plan.query.sources:
            part = rows.get(source.stream.name)
            if part is None or not len(part.times):
                continue
            arrays = {name: one_array(part.rows.column(name)) for name in part.rows.column_names}
            if self.buckets == 1:
                self.executions[0].add(source.alias, arrays, part.times)
                continue
            places = buckets_of(self.plan.partitioning, source.alias, self.buckets, part.offsets, arrays)
            assert places is not None, "every stream of a hopping query is hashed"
            for bucket, execution in enumerate(self.executions):
                mine = places == bucket
                columns = {name: array.filter(pa.array(mine)) for name, array in arrays.items()}
                execution.add(source.alias, columns, part.times[mine])

    def ask(self, request: MigrationRequest, now_us: int) -> Iterator[pa.RecordBatch]:
        """Note a migration: it takes effect behind the next hop that is answered."""
        self.schedule.append(replace(request, at_us=now_us if request.at_us is None else request.at_us))
        self.schedule.sort(key=lambda r: r.at_us or 0)
        if self.next_us is None:
            self._reschedule(now_us)
        return iter(())

    def _reschedule(self, hop_us: int) -> None:
        """Go on with another plan, when one is due at a hop that was just answered."""
        while self.schedule and (self.schedule[0].at_us or 0) <= hop_us:
            self.migrate(self.schedule.pop(0), hop_us)

    def migrate(self, request: MigrationRequest, hop_us: int) -> MigrationRecord:
        """Go on with another plan from a hop on."""
        try:
            plan = self._planner(self.plan, request, self)
        except MidstreamError as error:
            # It fitted the plan that ran when it was asked for, and another one runs now.
            record = MigrationRecord(request.identity, request.plan, MOVING_STATE, request.options, request.at_us)
            record.state, record.reason = REFUSED, str(error)
            self._records.append(record)
            return record
        return self._switch_plan(plan, request, hop_us)

    def _switch_plan(self, plan: Plan, request: MigrationRequest, hop_us: int) -> MigrationRecord:
        record = MigrationRecord(
            request.identity, str(plan), MOVING_STATE, request.options, request.at_us, str(self.plan),
            position_us=hop_us, ended_us=hop_us,
        )  # fmt: skip
        self._records.append(record)
        if plan == self.plan:
            record.state = NO_OP
            return record
        started = time.perf_counter()
        moved = [e.switch_plan(plan) for e in self.executions]
        record.start_ms = (time.perf_counter() - started) * 1000
        self.plan = plan
        self.hops_with_plan = 0
        if self.next_us is not None:
            self.next_us = next_hop(hop_us, self.hop_us)
        record.state = FINISHED
        record.note(replace(moved[0], entries_completed=sum(m.entries_completed for m in moved)))
        return record

    def work(self) -> None:
        """Do what can be done between micro-batches: nothing."""

    def finish(self) -> Iterator[pa.RecordBatch]:
        """End the run: hops that time has not reached are not answered."""
        return iter(())

    def records(self) -> list[MigrationRecord]:
        """Return what became of each migration."""
        unreached = [
            MigrationRecord(r.identity, r.plan, r.strategy, r.options, r.at_us, str(self.plan), NOT_REACHED)
            for r in self.schedule
        ]
        return [*self._records, *unreached]

    def changes(self) -> list[ChangeRecord]:
        """Return what became of changes of the query: there are none."""
        return []


def next_hop(time_us: int, hop_us: int) -> int:
    """Return the first multiple of a hop behind a time.

    >>> next_hop(0, 10), next_hop(9, 10), next_hop(-1, 10)
    (10, 10, 0)
    """
    return (time_us // hop_us + 1) * hop_us
