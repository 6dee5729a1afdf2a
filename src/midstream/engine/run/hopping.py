"""Hopping run: rows into the windows, and at every hop that time has reached the answer leaves.

    rows, cut at the hops ──▶ windows ──▶ the answer at the hop ──▶ another plan, if one is due

Every bucket goes over the same hops, also those in which it has nothing to say.
"""

from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from midstream.engine.planning.plans import migrated
from midstream.engine.planning.statistics import BucketStatistics, look_at
from midstream.engine.results.output import Leaving
from midstream.engine.rows.rows import Rows
from midstream.engine.run.contract import Expiry, Kept, RunSpec, VersionRun
from midstream.migrate.record import FINISHED, NO_OP, REFUSED, MigrationRecord
from midstream.migrate.request import MOVING_STATE, MigrationRequest
from midstream.model.batch import Results
from midstream.model.errors import MidstreamError
from midstream.model.time import FOREVER, NEVER
from midstream.operators.contract.ends import KEPT_BATCHES
from midstream.operators.contract.execution import StateSize
from midstream.operators.hopping.build_execution import HopExecution
from midstream.plan.json import own_aggregates, read_plan, write_plan
from midstream.plan.plan import Plan


@dataclass(frozen=True)
class DueMigration:
    """A migration on its way to its hop: what was asked for, and the plan that was made of it, once for all buckets."""

    request: MigrationRequest
    plan: Plan
    row: str = ""
    """The control row that has the plan."""

    @property
    def at_us(self) -> int:
        """Return the time from which on it takes effect."""
        return NEVER if self.request.at_us is None else self.request.at_us


SLICES = 8
"""Parts of a hop after which operators work that work by tuple."""


class HoppingRun(VersionRun):
    """An execution, the next hop, and the migrations to come."""

    drains_with_others = True
    chosen_by_cost = True

    def __init__(
        self,
        version: int,
        execution: HopExecution,
        remembered: dict[str, Any],
        spec: RunSpec,
    ) -> None:
        self._planner = spec.planner
        self.planned_elsewhere = spec.planner is None
        self.version = version
        self.execution = execution
        self.first_us: int | None = remembered.get("first_us")
        """The time of the first row of the query, in whatever bucket; or where the version started."""
        self.next_us: int | None = remembered.get("next_us")
        """The next hop; None: no row has been released."""
        self.last_us: int | None = remembered.get("last_us")
        """The last hop, answered or passed over; None: there was none."""
        self.row: str = remembered.get("row", "")
        """The control row that has the plan that runs."""
        self._quiet: bool = remembered.get("quiet", False)
        """The last answer was empty, and so will the next be while no window holds a row."""
        self._unseen: int = remembered.get("unseen", 0)
        """Hops since statistics were last taken."""
        self._drain: list[int] | None = remembered.get("drain")
        """The position whose older rows are watched for, and the last hop whose windows held one."""
        self._known_us: int | None = remembered.get("known_us")
        """The hop that showed that none is held any more."""
        self._oldest: list[tuple[int, int, int]] = [
            (first_us, last_us, oldest_us) for first_us, last_us, oldest_us in remembered.get("oldest", ())
        ]
        """While hops are traced: first and last hop with each oldest row; a drain may be asked for a little late."""
        self._batch_ends: list[int] = list(remembered.get("batch_ends", ()))
        """The last hop before each of the last few micro-batches that had hops."""
        own = own_aggregates(execution.plan.query.root)
        self._due = [
            DueMigration(MigrationRequest(**d["request"]), read_plan(d["plan"], own), d["row"])
            for d in remembered.get("due", ())
        ]
        self._changed_plan: bool = remembered.get("plan") is not None
        self._looks = spec.looks
        self.held_elsewhere = list
        self._records: list[MigrationRecord] = []
        self._traced = False
        self._rows: dict[str, Rows] = {}
        self._at: dict[str, int] = {}
        """How many rows of each alias are in the windows."""
        self.begin_batch()

    @classmethod
    def adopt(cls, version: int, spec: RunSpec, exported: Any, remembered: dict[str, Any]) -> "HoppingRun":
        """Go on with an execution as it was exported."""
        return cls(version, exported, remembered, spec)

    @classmethod
    def rebuild(cls, version: int, plan: Plan, spec: RunSpec, kept: Kept) -> "HoppingRun":
        """Return an execution as it was after the last hop, and the rows that came later, from the window rows."""
        remembered = kept.remembered
        if remembered.get("plan") is not None:
            plan = read_plan(remembered["plan"], own_aggregates(plan.query.root))
        last_us, next_us = remembered.get("last_us"), remembered.get("next_us")
        execution, later = HopExecution(plan), {}
        for alias, mine in kept.rows.items():
            cut = 0 if last_us is None else int(np.searchsorted(mine.times, last_us))
            part, later[alias] = mine.between(0, cut), mine.between(cut, len(mine))
            execution.add(alias, part.columns, part.times, part.offsets, NEVER if last_us is None else last_us)
        if last_us is not None:
            execution.load(last_us)
        run = HoppingRun(version, execution, remembered, spec)
        if next_us is not None:
            run._rows, run._at = later, dict.fromkeys(later, 0)
            run._work(kept.released_us)
            run._add(FOREVER)
        return run

    @classmethod
    def migrated(cls, running: Plan, request: MigrationRequest) -> Plan:
        """Return the plan a migration asks for, chosen without knowing the rows."""
        return migrated(running, request)

    def begin_batch(self) -> None:
        """Start counting for a micro-batch."""
        super().begin_batch()
        self._records = []
        if self.last_us is not None and self._batch_ends[-1:] != [self.last_us]:
            self._batch_ends = [*self._batch_ends[1 - KEPT_BATCHES :], self.last_us]
        if len(self._batch_ends) == KEPT_BATCHES:
            self._oldest = [kept for kept in self._oldest if kept[1] > self._batch_ends[0]]

    @property
    def plan(self) -> Plan:
        """Return the plan that runs."""
        return self.execution.plan

    @property
    def phase(self) -> str:
        """Return what is going on: plans are switched whole, between two hops."""
        return "steady"

    @property
    def hop_us(self) -> int:
        """Return how far apart hops are."""
        return self.execution.plan.query.every_us

    def begin_at(self, time_us: int) -> None:
        """Know the time of the first row: the first hop is the first multiple after it."""
        if self.next_us is None:
            self.first_us = time_us if self.first_us is None else min(time_us, self.first_us)

    def take(self, rows: dict[str, Rows], upto_us: int, clock_us: int) -> None:
        """Take in the rows below a time, and answer the hops that time has reached."""
        clock_us = min(clock_us, upto_us)
        self._rows, self._at = rows, dict.fromkeys(rows, 0)
        if self.next_us is None:
            if self.first_us is None or self.first_us >= upto_us:
                return
            self._switch_plans(self.first_us)
            self.next_us = next_hop(self.first_us, self.hop_us)
        while True:
            self._pass_over(clock_us)
            self._work(clock_us)
            if self.next_us > clock_us:
                break
            self._add(self.next_us)
            self._answer(self.next_us)
        self._add(FOREVER)

    def _work(self, clock_us: int) -> None:
        """Let operators that work by tuple work at the end of every slice before the next hop in which rows have come.

        Slices are parts of a hop, the same whatever micro-batches there are. Rows that no window takes in do not count:
        a run that is rebuilt does not have them.
        """
        assert self.next_us is not None, "there is a hop to come"
        slice_us = max(1, self.hop_us // SLICES)
        while self.execution.eager:
            times = [int(rows.times[self._at[a]]) for a, rows in self._rows.items() if self._at[a] < len(rows)]
            first_us = min([self.execution.waiting_us, *times])
            end_us = (first_us // slice_us + 1) * slice_us
            if end_us >= self.next_us or end_us > clock_us:
                return
            self._add(end_us)
            if self.execution.waiting_us < end_us:
                self.execution.work(self.next_us)

    def _add(self, before_us: int) -> None:
        """Let rows before a time into the windows."""
        assert self.next_us is not None, "there is a hop to come"
        for alias, rows in self._rows.items():
            start, stop = self._at[alias], int(np.searchsorted(rows.times, before_us))
            if stop > start:
                part = rows.between(start, stop)
                self.execution.add(alias, part.columns, part.times, part.offsets, self.next_us)
                self._at[alias] = stop

    def _pass_over(self, clock_us: int) -> None:
        """Pass over hops that are answered by nothing: nothing was there before, and no window holds a row."""
        assert self.next_us is not None, "there is a hop to come"
        if not self._quiet or not self.execution.idle:
            return
        waiting = [int(rows.times[self._at[a]]) for a, rows in self._rows.items() if self._at[a] < len(rows)]
        until_us = min([clock_us, *waiting])
        if self._due:
            until_us = min(until_us, self._due[0].at_us - 1)
        count = max((until_us - self.next_us) // self.hop_us + 1, 0)
        if count:
            first_us = self.next_us
            self.hops_passed += count
            self.next_us += count * self.hop_us
            self.last_us = self.next_us - self.hop_us
            self._see_oldest(first_us, self.last_us, FOREVER)

    def _answer(self, hop_us: int) -> None:
        self._emit(hop_us, self.execution.answer(hop_us), hop_us)
        self._expect_next(hop_us)

    def _expect_next(self, hop_us: int) -> None:
        self.next_us = next_hop(hop_us, self.hop_us)

    def _emit(self, hop_us: int, answer: list[pa.RecordBatch], hop: int) -> None:
        """Let an answer leave; `hop` is what it is known by."""
        self.hops_passed += 1
        oldest_us, print_ = FOREVER, 0
        if self._traced or self._drain is not None:
            oldest_us, print_ = self.execution.lineage()
        self.hops.append((hop, oldest_us, print_))
        self._see_oldest(hop_us, hop_us, oldest_us)
        answer = [batch for batch in answer if batch.num_rows]
        self.leaving += [Leaving(self.version, Results(batch), hop_us=hop) for batch in answer]
        self._quiet = not answer
        self.last_us = hop_us
        self._switch_plans(hop_us)

    def trace(self, on: bool) -> None:
        """Let hops say from now on how old the rows in their windows are; or not."""
        self._traced = on

    @property
    def drain_us(self) -> int | None:
        """Return the position whose older rows are watched for, or None."""
        return None if self._drain is None else self._drain[0]

    def drain(self, position_us: int, goes_on: bool = False) -> None:
        """Watch for the first hop whose windows hold no row from before a position, which may have passed."""
        self._drain = [position_us, position_us]
        self._known_us = position_us if self.first_us is None or self.first_us >= position_us else None
        for first_us, last_us, oldest_us in self._oldest:
            self._see_drain(first_us, last_us, oldest_us)

    def _see_oldest(self, first_us: int, last_us: int, oldest_us: int) -> None:
        if not self._traced:
            self._oldest = []
        elif self._oldest and self._oldest[-1][2] == oldest_us:
            self._oldest[-1] = (self._oldest[-1][0], last_us, oldest_us)
        else:
            self._oldest.append((first_us, last_us, oldest_us))
        self._see_drain(first_us, last_us, oldest_us)

    def _see_drain(self, first_us: int, last_us: int, oldest_us: int) -> None:
        if self._drain is None or self._known_us is not None or last_us <= self._drain[0]:
            return
        if oldest_us < self._drain[0]:
            self._drain[1] = last_us
        else:
            self._known_us = max(first_us, next_hop(self._drain[0], self.hop_us))

    def drained(self) -> tuple[int, int] | None:
        """Return the last hop whose windows held a row from before the position, and the one that showed it."""
        assert self._drain is not None, "nobody asked for a drain"
        return None if self._known_us is None else (self._drain[1], self._known_us)

    @property
    def not_drained_us(self) -> int:
        """Return the last hop whose windows are known to have held a row from before the position."""
        assert self._drain is not None, "nobody asked for a drain"
        return self._drain[1]

    @property
    def oldest_us(self) -> int:
        """Return the oldest row in the windows at the last hop; those that came later may be as old as the hop."""
        if self.last_us is None:
            return NEVER if self.first_us is None else self.first_us
        return min(self.last_us, self.execution.lineage()[0])

    def migrate(self, request: MigrationRequest, plan: Any | None = None, row: str = "") -> None:
        """Note a migration, which takes effect after the first hop that is answered at its position or later."""
        try:
            target = self.target(request, plan)
        except MidstreamError as error:
            self._records.append(MigrationRecord.of(request, MOVING_STATE, state=REFUSED, reason=str(error)))
            return
        self._due.append(DueMigration(request, target, row))
        self._due.sort(key=lambda due: due.at_us)
        at_us = NEVER if request.at_us is None else request.at_us
        if self.next_us is None and self.first_us is None:
            self._switch_plans(at_us)
        elif self.last_us is not None and self.last_us >= at_us:
            self._switch_plans(self.last_us)
            self._expect_next(self.last_us)

    def target(self, request: MigrationRequest, written: Any | None = None) -> Plan:
        """Return the plan a migration asks for, from the last one that was asked for."""
        running = self._due[-1].plan if self._due else self.plan
        planner = migrated if self._planner is None else self._planner
        return planner(running, request) if written is None else self._read(written)

    @property
    def migrating(self) -> bool:
        """Return whether a migration waits for its hop."""
        return bool(self._due)

    def holds_before(self, position_us: int) -> bool:
        """Tell whether the windows of the last hop, or rows since, are from before a position."""
        return self.next_us is not None and (self.last_us is None or self.oldest_us < position_us)

    def begin_beside(self, running: VersionRun, first_us: int) -> None:
        """Begin with a hop that the other run has answered last, or before."""
        old = cast(HoppingRun, running)
        if old.last_us is not None:
            self.begin_at(min(first_us, old.last_us) - 1)
        elif old.first_us is not None and old.next_us is not None:
            self.begin_at(old.first_us)

    def succeed(self, before: VersionRun, row: str = "") -> None:
        """Answer from the next hop on in place of another run."""
        old = cast(HoppingRun, before)
        assert (self.last_us, self.next_us) == (old.last_us, old.next_us) or old.next_us is None, "at the same hop"
        self.leaving, self.hops, self.hops_passed = old.leaving, old.hops, old.hops_passed
        self.first_us, self.last_us, self.next_us = old.first_us, old.last_us, old.next_us
        self.held_elsewhere, self.drains_later = old.held_elsewhere, old.drains_later
        self._quiet, self._unseen, self._records = old._quiet, old._unseen, old._records
        self._drain, self._known_us, self._oldest = old._drain, old._known_us, old._oldest
        self.row, self._changed_plan = row, True

    def take_over(self, before: VersionRun) -> None:
        """Go on from a run that was stopped and starts anew, with the plan it had."""
        super().take_over(before)
        stopped = cast(HoppingRun, before)
        self._due, self.row = stopped._due, stopped.row
        if before.plan != self.plan:
            self.execution.switch_plan(before.plan)
            self._changed_plan = True

    def _read(self, written: dict[str, Any]) -> Plan:
        """Read a plan of the query that was made elsewhere."""
        return read_plan(written, own_aggregates(self.plan.query.root))

    def _switch_plans(self, hop_us: int) -> None:
        """Go on with another plan, when one is due at a hop that was just answered."""
        while self._due and self._due[0].at_us <= hop_us:
            self._records.append(self._switch_plan(self._due.pop(0), hop_us))

    def _switch_plan(self, due: DueMigration, hop_us: int) -> MigrationRecord:
        record = MigrationRecord.of(due.request, MOVING_STATE, from_plan=str(self.plan), state=NO_OP)
        record.plan, record.position_us, record.ended_us = str(due.plan), hop_us, hop_us
        if due.plan != self.plan:
            record.note(self.execution.switch_plan(due.plan))
            record.state, self.row, self._changed_plan = FINISHED, due.row, True
        return record

    def records(self) -> list[MigrationRecord]:
        """Return the records of migrations that wait for a hop, or took effect in this micro-batch."""
        return [*(MigrationRecord.of(due.request, MOVING_STATE) for due in self._due), *self._records]

    @property
    def predicate_evaluations(self) -> int:
        """Return how many tuples, pairs and values the operators have looked at."""
        return self.execution.tested

    @property
    def flips(self) -> int:
        """Return how often values came into differences or left them before their time."""
        return self.execution.flips

    def size(self) -> StateSize:
        """Return what windows and operators hold now."""
        return self.execution.size()

    def expiry(self, released_us: int) -> Expiry | None:
        """Return which rows no window held at the last hop, or can hold at the next one."""
        return Expiry(self.last_us, NEVER if self.last_us is None else self.last_us, self.next_us)

    def export(self) -> Any:
        """Return the execution."""
        return self.execution

    def remember(self) -> dict[str, Any]:
        """Return how far the hops have come, and with which plan."""
        return {
            "first_us": self.first_us,
            "next_us": self.next_us,
            "last_us": self.last_us,
            "quiet": self._quiet,
            "unseen": self._unseen,
            "drain": self._drain,
            "known_us": self._known_us,
            "oldest": self._oldest,
            "batch_ends": self._batch_ends,
            "plan": write_plan(self.plan) if self._changed_plan else None,
            "row": self.row,
            "due": [{"request": asdict(d.request), "plan": write_plan(d.plan), "row": d.row} for d in self._due],
        }

    def statistics(self, asked: bool = False) -> dict[str, Any] | None:
        """Return what the windows hold, every few hops: in the same micro-batch in all buckets."""
        self._unseen += self.hops_passed
        if self._unseen < self._looks:
            return None
        self._unseen = 0
        return look_at(self.execution).to_dict()

    def look(self) -> BucketStatistics | None:
        """Look at what the windows hold now; None before the first hop."""
        return None if self.last_us is None else look_at(self.execution)


def next_hop(time_us: int, hop_us: int) -> int:
    """Return the first multiple of a hop after a time.

    >>> next_hop(0, 10), next_hop(9, 10), next_hop(-1, 10)
    (10, 10, 0)
    """
    return (time_us // hop_us + 1) * hop_us
