"""Hop course: released rows of one bucket through its windows, hop by hop, with the migrations that are due on the way.

released rows ──▶ cut at the hops ──▶ windows ──▶ the answer at the hop ──▶ another plan, if one is due

Every bucket goes over the same hops, also those in which it has nothing to say.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from midstream.engine.numbering import AliasRows
from midstream.local.hopping import next_hop
from midstream.migrate.record import FINISHED, NO_OP, MigrationRecord
from midstream.migrate.request import MOVING_STATE, MigrationRequest
from midstream.model.time import FOREVER, NEVER
from midstream.operators.hopping.build_execution import HopExecution
from midstream.plan.plan import Plan
from midstream.spark.durable import Head


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

    def by(self, at_us: int) -> "DueMigration":
        """Return it with a time, if it has none."""
        return self if self.request.at_us is not None else replace(self, request=replace(self.request, at_us=at_us))


@dataclass
class HopHead(Head):
    """The small part of a hopping bucket's durable state: how far the hops have come, and with which plan."""

    first_us: int | None = None
    """The time of the first row of the query, in whatever bucket."""
    next_us: int | None = None
    """The next hop; None: no row has been released."""
    last_us: int | None = None
    """The last hop, answered or passed over; None: there was none."""
    quiet: bool = False
    """The last answer was empty, and so will the next be while no window holds a row."""
    runs: Plan | None = None
    """The plan that runs; None: the one the query was started with."""
    row: str = ""
    """The control row that has the plan that runs."""
    coming: list[DueMigration] = field(default_factory=list)
    """Migrations whose hop has not been reached, in order."""
    unseen: int = 0
    """Hops since it was last told what the windows hold."""


class HopCourse:
    """One bucket's execution, for the length of one micro-batch."""

    def __init__(self, execution: HopExecution, head: HopHead) -> None:
        self.execution = execution
        self.head = head
        self.leaving: list[pa.RecordBatch] = []
        """Answers that are not empty."""
        self.hops: list[int] = []
        """Hops that were answered, also by nothing."""
        self.passed = 0
        """Hops there were, also those passed over because nothing could be there."""
        self.records: list[MigrationRecord] = []
        self._rows: dict[str, AliasRows] = {}
        self._at: dict[str, int] = {}
        """How many rows of each alias are in the windows."""

    @property
    def hop_us(self) -> int:
        """Return how far apart hops are."""
        return self.execution.plan.query.every_us

    def run(self, rows: dict[str, AliasRows], released_us: int, clock_us: int) -> None:
        """Take in rows, which are all there are below `released_us`, and answer the hops up to `clock_us`."""
        head = self.head
        self._rows, self._at = rows, dict.fromkeys(rows, 0)
        if head.next_us is None:
            if head.first_us is None or head.first_us >= released_us:
                return
            self._migrate_at(head.first_us)
            head.next_us = next_hop(head.first_us, self.hop_us)
        while True:
            self._pass_over(clock_us)
            if head.next_us > clock_us:
                break
            self._add(head.next_us)
            self._answer(head.next_us)
        self._add(FOREVER)
        if self.execution.eager:
            self.execution.work(head.next_us)

    def _add(self, before_us: int) -> None:
        """Let rows before a time into the windows."""
        for alias, rows in self._rows.items():
            start, stop = self._at[alias], int(np.searchsorted(rows.times, before_us))
            if stop > start:
                columns = {name: array.slice(start, stop - start) for name, array in rows.columns.items()}
                self.execution.add(alias, columns, rows.times[start:stop])
                self._at[alias] = stop

    def _pass_over(self, clock_us: int) -> None:
        """Pass over hops that are answered by nothing: nothing was there before, and no window holds a row."""
        head = self.head
        assert head.next_us is not None, "there is a hop to come"
        if not head.quiet or not self.execution.idle:
            return
        waiting = [int(rows.times[self._at[a]]) for a, rows in self._rows.items() if self._at[a] < len(rows.times)]
        until_us = min([clock_us, *waiting])
        if head.coming:
            until_us = min(until_us, head.coming[0].at_us - 1)
        count = max((until_us - head.next_us) // self.hop_us + 1, 0)
        if count:
            self.passed += count
            head.next_us += count * self.hop_us
            head.last_us = head.next_us - self.hop_us

    def _answer(self, hop_us: int) -> None:
        head = self.head
        answer = self.execution.answer(hop_us)
        self.hops.append(hop_us)
        self.passed += 1
        if answer.num_rows:
            self.leaving.append(answer)
        head.quiet = not answer.num_rows
        head.last_us = hop_us
        self._migrate_at(hop_us)
        head.next_us = next_hop(hop_us, self.hop_us)

    def _migrate_at(self, hop_us: int) -> None:
        """Go on with another plan, when one is due at a hop that was just answered."""
        while self.head.coming and self.head.coming[0].at_us <= hop_us:
            self.records.append(self._migrate(self.head.coming.pop(0), hop_us))

    def _migrate(self, due: DueMigration, hop_us: int) -> MigrationRecord:
        running, plan, request = self.execution.plan, due.plan, due.request
        record = MigrationRecord(
            request.identity, str(plan), MOVING_STATE, request.options, request.at_us, str(running), NO_OP,
            position_us=hop_us, ended_us=hop_us,
        )  # fmt: skip
        if plan != running:
            progress = self.execution.switch_plan(plan)
            self.head.runs, self.head.row = plan, due.row
            record.state = FINISHED
            record.note(progress)
        return record


def rebuilt(plan: Plan, last_us: int | None, rows: dict[str, AliasRows]) -> HopExecution:
    """Return an execution as it was after a hop, and the rows that came later, from the rows in its windows."""
    execution = HopExecution(plan)
    for before in (True, False):
        for alias, mine in rows.items():
            cut = 0 if last_us is None else int(np.searchsorted(mine.times, last_us))
            part = slice(0, cut) if before else slice(cut, len(mine.times))
            columns = {name: array[part] for name, array in mine.columns.items()}
            execution.add(alias, columns, mine.times[part])
        if before and last_us is not None:
            execution.last_us = last_us
            for window in execution.windows.values():
                window.forget(last_us)
            execution.count_arrivals(last_us)
            # Operators that have seen nothing are not to be taken over.
            execution.tree.rels.clear()
            execution.switch_plan(plan)
    return execution
