"""A query in this process: its buckets, where their output meets, and what is asked of it on the way.

streams' rows ──▶ packed by version and bucket ──▶ buckets ──▶ result merger ──▶ what leaves
                                                      ▲               │
                                                      └── elements ◀──┘  first results, drains that are over
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.change.control import ControlManager
from midstream.change.request import DELAYED_DRAIN, ChangeRequest, ControlRequest
from midstream.engine.bucket.bucket import Bucket
from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.bucket.state import Due
from midstream.engine.bucket.store import Store
from midstream.engine.control.controls import CHANGE, CONTROL, ELEMENT, MIGRATE, ControlQueue
from midstream.engine.planning.plans import migrated
from midstream.engine.planning.sizes import SeenSizes
from midstream.engine.planning.statistics import statistics_of
from midstream.engine.results.merger import Departure, ResultMerger
from midstream.engine.results.output import BucketOutput
from midstream.engine.results.records import Records
from midstream.engine.results.reports import BatchSummary, over_all_buckets, total
from midstream.engine.rows.mail import mail_for
from midstream.engine.rows.packed import Packed
from midstream.engine.rows.routing import buckets_of
from midstream.engine.rows.rows import Rows
from midstream.engine.run.contract import Framework, RunSpec
from midstream.migrate.record import FINISHED, NOT_REACHED, QUEUED, RUNNING
from midstream.migrate.request import MigrationRequest
from midstream.model.effort import Effort
from midstream.model.statistics import Statistics
from midstream.model.time import FOREVER, NEVER
from midstream.plan.json import own_aggregates, read_plan, write_plan
from midstream.plan.plan import Plan


@dataclass
class Left:
    """What a micro-batch brought: what leaves, and what buckets report of it."""

    departures: list[Departure] = field(default_factory=list)
    rounds: list[list[dict[str, Any]]] = field(default_factory=list)
    """What each bucket reports of each round."""
    delay_us: int = 0
    """The longest that results were held back, in event time."""

    @property
    def reports(self) -> list[dict[str, Any]]:
        """Return what each bucket reports of the last round."""
        return self.rounds[-1]

    @property
    def summary(self) -> BatchSummary:
        """Return the sums over buckets and rounds."""
        first, *others = self.rounds
        whole = total(first)
        for reports in others:
            whole = total(reports).after(whole)
        return whole


class QueryHost:
    """The buckets of one query and where they meet, kept in memory from one micro-batch to the next."""

    def __init__(
        self,
        plans: Sequence[Plan],
        buckets: int,
        framework: Framework | None = None,
        schedule: Sequence[Due] = (),
        stores: Sequence[Store] | None = None,
        looks: int = FOREVER,
        optimizes: bool = False,
    ) -> None:
        self.plans = list(plans)
        """The plans of all versions, in order; the change to a later one may be to come."""
        count = buckets_for(plans, schedule, buckets)
        self.labels = tuple(range(count))
        run = RunSpec(count > 1, framework or Framework(), looks, self._planned, optimizes, asked=True)
        spec = BucketSpec(self.plan_of, {}, True, self.labels, run, tuple(schedule), audit=True)
        self.buckets = [Bucket(spec, k, None if stores is None else stores[k]) for k in self.labels]
        self.merger = ResultMerger(self.labels, self.plan_of)
        self.controls = ControlQueue()
        self.records = Records([r for r in schedule if isinstance(r, MigrationRequest)], str(plans[0]))
        self.read_us = NEVER
        """Rows before this time have been taken in."""
        self.clock_us = NEVER
        """The time of the last row."""
        self._plans_made: dict[MigrationRequest, Plan] = {}
        self._last_plan: Plan | None = None
        """Of a run that has ended and was read back: the plan that ran last."""
        self._sizes = SeenSizes()

    def plan_of(self, number: int) -> Plan:
        """Return the plan a version was started with."""
        return self.plans[number - 1]

    @property
    def control(self) -> ControlManager:
        """Return the lives of the versions and the changes between them."""
        return self.merger.control

    @property
    def plan(self) -> Plan:
        """Return the plan that runs, or is being migrated to, of the newest version."""
        newest = self.buckets[0].newest
        if newest is None:
            return self._last_plan or self.plan_of(self.merger.version)
        return newest.run.plan

    @property
    def phase(self) -> str:
        """Return what is going on, in a word or two."""
        newest = self.buckets[0].newest
        if self.control.phase != "steady" or newest is None:
            return self.control.phase
        return next((b.newest.phase_now for b in self.buckets if b.newest and b.newest.phase_now != "steady"), "steady")

    def streams(self) -> set[str]:
        """Return the streams that versions read now."""
        return {s.stream.name for life in self.control.alive for s in self.plan_of(life.version).query.sources}

    def open(self) -> None:
        """Take the first version up before any row has come."""
        self._rounds([Packed() for _ in self.labels])

    def on_rows(self, rows: Mapping[str, Rows], end_us: int) -> Left:
        """Take in the rows of every stream before a time, which are all there are; return what leaves."""
        self.read_us = end_us
        self.clock_us = max([self.clock_us, *(int(r.times[-1]) for r in rows.values() if len(r))])
        return self._rounds(self._packed(rows, end_us))

    def advance(self, at_us: int) -> Left:
        """Let what was asked for take effect at a time; no row before it will come."""
        self.read_us = max(self.read_us, at_us)
        self.clock_us = max(self.clock_us, at_us)
        positions = {s.position for plan in self.plans for s in plan.query.sources}
        return self._rounds([Packed(high=dict.fromkeys(positions, self.read_us)) for _ in self.labels])

    def finish(self) -> Left:
        """End the run: everything leaves that is held back, and records say what is not over."""
        left = self._rounds([Packed(last=True) for _ in self.labels], last=True)
        self.control.finish()
        return left

    def migrate(self, request: MigrationRequest) -> None:
        """Ask for a migration."""
        self.controls.send(MIGRATE, migration=request.to_dict(), of=request.identity)

    def migrate_now(self, request: MigrationRequest, identity: str, at_us: int) -> Left:
        """Migrate at a time before which no row will come; return what leaves because of it."""
        self.migrate(replace(request, at_us=at_us, identity=identity))
        return self.advance(at_us)

    def _planned(self, running: Plan, request: MigrationRequest) -> Plan:
        """Return the plan a migration asks for, from what is known of the rows; the same one in all buckets."""
        if request not in self._plans_made:
            self._plans_made[request] = migrated(running, request, self.statistics())
        return self._plans_made[request]

    def statistics(self) -> Statistics | None:
        """Return what the windows hold and operators have emitted, over all buckets; None: nobody can say."""
        looks = [look for b in self.buckets if b.newest is not None and (look := b.newest.run.look()) is not None]
        # Buckets go on one after the other: one that has migrated already has other operators than those that have not.
        plans = {str(b.newest.run.plan) for b in self.buckets if b.newest is not None}
        if len(looks) < len(self.buckets) or len(plans) > 1:
            return None
        return statistics_of(self.plan, looks, self._sizes)

    @property
    def effort(self) -> Effort:
        """Return what the newest version's operators have done so far."""
        return sum((b.newest.whole_effort for b in self.buckets if b.newest is not None), Effort())

    def live_entries(self) -> int:
        """Return how many entries the newest version's states hold that can still matter."""
        return sum(b.newest.run.live_entries() for b in self.buckets if b.newest is not None)

    def look(self) -> list[dict[str, Any]] | None:
        """Look at the windows of the newest version in all buckets; None: nobody can say."""
        looks = [b.newest.run.statistics(asked=True) for b in self.buckets if b.newest is not None]
        found = [look for look in looks if look is not None]
        return found if len(found) == len(self.buckets) else None

    def change(self, request: ChangeRequest, plan: Plan, at_us: int) -> None:
        """Ask for a change to a further version at a time."""
        self.plans.append(plan)
        identity = f"change-{request.identity}"
        self.controls.send(CHANGE, identity=identity, change=request.to_dict(), version=len(self.plans), at_us=at_us)

    def give_control(self, control: str, at_us: int) -> None:
        """Ask for a control element of the whole query at a time."""
        self.controls.send(CONTROL, control=control, at_us=at_us)

    def _rounds(self, packed: list[Packed], last: bool = False) -> Left:
        """Run buckets until what they cause together has reached all of them.

        A change or control element takes effect when all buckets know what was caused before it.
        """
        left = Left()
        controls = self.controls.take()
        begins = None if len(self.labels) == 1 else 0
        while True:
            for part in packed:
                part.controls, part.clock_us, part.begins = controls, self.clock_us, begins
            outputs = [bucket.on_batch(part) for bucket, part in zip(self.buckets, packed, strict=True)]
            self._meet(outputs, last, left)
            elements = self.merger.decided()
            mail = [message for output in outputs for message in output.mail]
            paused = any(output.report["paused"] for output in outputs)
            if not (elements or paused or mail):
                return left
            begins = 0 if elements else 1 if paused else begins
            for element in elements:
                self.controls.send(ELEMENT, **element)
            controls = self.controls.take()
            packed = [Packed(mail=mail_for(label, mail)) for label in self.labels]

    def _meet(self, outputs: list[BucketOutput], last: bool, left: Left) -> None:
        left.departures += self.merger.on_batch(outputs, everything=last)
        left.delay_us = max(left.delay_us, self.merger.delay_us)
        left.rounds.append([output.report for output in outputs])
        migrations = over_all_buckets([report["migrations"] for report in left.reports])
        if migrations:
            self.records.see(migrations)
            self.records.watch(migrations, [item for output in outputs for item in output.leaving])

    def _packed(self, rows: Mapping[str, Rows], end_us: int) -> list[Packed]:
        """Return what each bucket gets of the rows of all streams."""
        packed = [Packed() for _ in self.labels]
        for number in self._wanted(end_us):
            plan = self.plan_of(number)
            for rank, source in enumerate(plan.query.sources):
                mine = rows.get(source.stream.name)
                if mine is None:
                    continue
                used = Rows(mine.times, mine.offsets, {n: mine.columns[n] for n in plan.query.columns_of(source.alias)})
                places = self._places(plan, source.alias, used)
                for bucket, part in enumerate(packed):
                    if places is None:
                        part.rows[number, rank] = [(0, used)]
                    elif bucket in places:
                        part.rows[number, rank] = [(0, used.where(places == bucket))]
        positions = {s.stream.name: s.position for plan in self.plans for s in plan.query.sources}
        for part in packed:
            part.high = dict.fromkeys(positions.values(), end_us)
            part.low = {positions[n]: int(r.times[0]) for n, r in rows.items() if len(r) and n in positions}
        return packed

    def _places(self, plan: Plan, alias: str, rows: Rows) -> npt.NDArray[np.int64] | None:
        """Return the bucket of each row; None: every bucket gets it."""
        if len(self.labels) == 1:
            return None
        if plan.partitioning.one_bucket:
            return np.zeros(len(rows), np.int64)
        return buckets_of(plan.partitioning, alias, len(self.labels), rows.times, rows.columns)

    def _wanted(self, end_us: int) -> list[int]:
        """Return the versions that may take rows before a time."""
        wanted = {abs(n) for bucket in self.buckets for n in bucket.wanted()}
        due = [d for d in self.buckets[0].to_come() if d.at_us is None or d.at_us <= end_us]
        if any(isinstance(d, ChangeRequest) for d in due):
            wanted |= set(range(max(self.control.lives) + 1, len(self.plans) + 1))
        if any(isinstance(d, ControlRequest) for d in due):
            # It may start any version again.
            wanted |= set(self.control.lives)
        return sorted(wanted)

    def current_records(self) -> list[dict[str, Any]]:
        """Return the records of all migrations, those under way as they are now."""
        found = [b.newest.records() for b in self.buckets if b.newest is not None]
        self.records.see(over_all_buckets([[r.to_dict() for r in records] for records in found]))
        return self.records.all()

    def to_plain(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        """Return where the run stands as plain values, and tables of the output that is held back.

        What the buckets hold is in their stores; the plans of the versions are for the caller to keep.
        """
        merger, held = self.merger.to_plain()
        plain = {
            "merger": merger,
            "controls": self.controls.to_plain(),
            "records": self.records.to_plain(),
            "read_us": self.read_us,
            "clock_us": self.clock_us,
            "plan": None if self.plan is self.plan_of(self.merger.version) else write_plan(self.plan),
        }
        return plain, held

    def load(self, plain: dict[str, Any], held: dict[str, pa.Table], plans: Sequence[Plan]) -> None:
        """Be as `to_plain` said, with the plans of all versions; the buckets have their stores."""
        self.plans = list(plans)
        self.merger.load(plain["merger"], held)
        self.controls.load(plain["controls"])
        self.records.load(plain["records"])
        self.read_us, self.clock_us = plain["read_us"], plain["clock_us"]
        if plain["plan"] is not None:
            self._last_plan = read_plan(plain["plan"], own_aggregates(self.plan_of(self.merger.version).query.root))

    def resume(self) -> None:
        """Take up what runs from the stores, before the next row comes."""
        for bucket in self.buckets:
            bucket.resume()
        found = {r.identity for b in self.buckets if b.newest is not None for r in b.newest.records()}
        for record in self.records.under_way((RUNNING,)):
            if record["identity"] not in found:
                # The new plan runs alone: what its states lack is completed as rows need it.
                record["state"], record["ended_us"] = FINISHED, self.read_us

    def not_reached(self) -> None:
        """Say of migrations whose position never came from which plan they would have started."""
        for record in self.current_records():
            if record["state"] in (QUEUED, NOT_REACHED):
                record["state"], record["from_plan"] = NOT_REACHED, str(self.plan)


def buckets_for(plans: Sequence[Plan], schedule: Sequence[Due], buckets: int) -> int:
    """Return how many buckets a recorded run uses.

    Where a drain is over is known when all buckets have met; a version that is to start there, and may be replaced in
    the same micro-batch, must know it at once.
    """
    delayed = any(isinstance(r, ChangeRequest) and r.method == DELAYED_DRAIN for r in schedule)
    needed = [p.partitioning.buckets for p in plans]
    several = [count for count in needed if count is not None and count > 1]
    return 1 if delayed or all(count == 1 for count in needed) else max(several, default=buckets)
