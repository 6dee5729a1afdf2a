"""Course: rows of one bucket through its migrator, with the migrations that are due on the way and what comes out.

numbered rows ──▶ slices, cut where something is due ──▶ migrator ──▶ leaves at once, or is held back
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from midstream.change.merger import versioned
from midstream.engine.numbering import slices, stop_at, time_of
from midstream.migrate.migrator import Migrator
from midstream.migrate.record import QUEUED, RUNNING, UNFINISHED
from midstream.migrate.request import MigrationRequest
from midstream.migrate.restart import refill, resume
from midstream.model.batch import TRIGGER, Arrival, Results
from midstream.model.time import FOREVER
from midstream.plan.query import Query

EMIT, RANK = "_order0", "_order1"
"""Where results stand among those of other buckets: first by the time they leave, then what was held back."""

OLDEST, PRINT = "_oldest", "_print"


def order_columns(query: Query) -> list[str]:
    """Name the columns that say where results of a query stand."""
    width = 2 * TRIGGER if query.parts.stages else TRIGGER + 2 * len(query.sources)
    return [f"_order{k}" for k in range(2 + width)]


class Course:
    """One bucket's operators, for the length of one micro-batch."""

    def __init__(
        self,
        migrator: Migrator,
        next_seq: int,
        due: list[MigrationRequest],
        earlier: Callable[[], list[pa.Table]] = list,
    ) -> None:
        self.migrator = migrator
        self.next_seq = next_seq
        self.due = list(due)
        """Migrations whose position has not been reached, in order."""
        self.leaving: list[pa.Table] = []
        self.held: list[pa.Table] = []
        """Output of this micro-batch that is held back."""
        self._earlier = earlier
        """Gives the output earlier micro-batches have held back."""
        self._before = {r.identity: r.state for r in migrator.records}
        self.phase = migrator.phase
        self.version = 1
        """Which version of the query gives these results."""

    def run(self, arrivals: dict[str, Arrival]) -> None:
        """Run rows through the operators."""
        end = self.next_seq + sum(len(a) for a in arrivals.values())
        migrator = self.migrator
        while self.next_seq < end:
            now_us = time_of(arrivals, self.next_seq)
            self._start_due(now_us)
            cuts = [migrator.next_cut_us(), *(r.at_us for r in self.due[:1])]
            stop = stop_at(arrivals, now_us, end, cuts)
            for piece in slices(arrivals, self.next_seq, stop):
                _, results = migrator.on_rows(piece.arrivals, piece.now_us, piece.seq)
                self._let_go()
                self.held += [self._told(r) for r in migrator.pipeline.release()]
                if len(results):
                    self.leaving.append(self._told(results))
                self.phase = migrator.phase if self.phase == "steady" else self.phase
            self.next_seq = stop

    def tick(self, clock_us: int) -> None:
        """Let time pass: window instances that have ended leave."""
        results = self.migrator.pipeline.tick(clock_us)
        if len(results):
            self.leaving.append(self._told(results))

    def _told(self, results: Results) -> pa.Table:
        return told(results, self.version)

    def _start_due(self, now_us: int) -> None:
        while self.due and (self.due[0].at_us or 0) <= now_us:
            self.advance(now_us)
            self.migrator.ask(self.due.pop(0), now_us, self.next_seq - 1)

    def advance(self, now_us: int) -> None:
        """See whether a migration is over, now that no row before a time can come."""
        self.migrator.advance(now_us, self.next_seq - 1)
        self._let_go()

    def _let_go(self) -> None:
        """Let what was held back leave, when the migration that held it is over."""
        at_us = self.migrator.released_at_us
        if at_us is not None:
            self.leaving += [_left_at(table, at_us) for table in (*self._earlier(), *self.held)]
            self.held = []
            self.migrator.released_at_us = None

    def end(self) -> None:
        """Let everything leave that is held back: nothing more will come."""
        self.let_held_go(FOREVER)

    def let_held_go(self, at_us: int) -> None:
        """Let what is held back leave at a time."""
        self.leaving += [_left_at(table, at_us) for table in (*self._earlier(), *self.held)]
        self.held = []

    def give_up(self) -> None:
        """Say of migrations that are not over that they never will be."""
        for record in self.migrator.records:
            if record.state in (RUNNING, QUEUED):
                record.state = UNFINISHED

    def news(self) -> list[dict[str, object]]:
        """Return the records of migrations that are under way or have ended in this micro-batch."""
        told = [r for r in self.migrator.report() if r.identity]
        return [r.to_dict() for r in told if r.state in (RUNNING, QUEUED) or self._before.get(r.identity) != r.state]

    def take_in_again(self, arrivals: dict[str, Arrival], now_us: int) -> None:
        """Take in rows after a crash that have been through the joins; what the joins held is completed on demand."""
        end = self.next_seq + sum(len(a) for a in arrivals.values())
        for piece in slices(arrivals, self.next_seq, end):
            refill(self.migrator, piece.arrivals, piece.now_us, piece.seq)
        self.next_seq = end
        resume(self.migrator, now_us, end - 1)

    def repeat(self, arrivals: dict[str, Arrival]) -> None:
        """Run rows through the joins again after a crash; what comes out has left, or is kept, already."""
        earlier, self._earlier = self._earlier, list
        self.run(arrivals)
        self.leaving, self.held, self._earlier = [], [], earlier


def told(results: Results, version: int) -> pa.Table:
    """Return results with their version, and what else they say of themselves as further columns.

    `_order0`, `_order1`, ...: their place among other buckets' results; `_oldest`, `_print`: what they depend on.
    """
    rows = pa.Table.from_batches([versioned(results.rows, version)])
    if results.order is not None:
        rows = rows.append_column(EMIT, pa.array(np.ascontiguousarray(results.order[:, 0])))
        rows = rows.append_column(RANK, pa.array(np.ones(rows.num_rows, np.int64)))
        for k in range(results.order.shape[1]):
            rows = rows.append_column(f"_order{k + 2}", pa.array(np.ascontiguousarray(results.order[:, k])))
    if results.lineage is not None:
        rows = rows.append_column(OLDEST, pa.array(np.ascontiguousarray(results.lineage.oldest_us)))
        rows = rows.append_column(PRINT, pa.array(np.ascontiguousarray(results.lineage.prints)))
    return rows


def _left_at(rows: pa.Table, time_us: int) -> pa.Table:
    """Return held-back results as leaving at a time, before what leaves on its own then."""
    if EMIT in rows.column_names:
        for name, value in ((EMIT, time_us), (RANK, 0)):
            place = rows.column_names.index(name)
            rows = rows.set_column(place, name, pa.array(np.full(rows.num_rows, value, np.int64)))
    return rows
