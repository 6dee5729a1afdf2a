"""Counted hops: rows into the windows, and after every n-th row of all streams together the answer leaves.

    rows, numbered in order ──▶ cut after every n-th ──▶ windows ──▶ the answer ──▶ another plan, if one is due

The order is that of every result: time, stream, offset. So an answer is of a place among the rows, and rows of one
time may be before and after it. A row that several aliases read counts once, and they all have it or none.
"""

from typing import Any

import numpy as np

from midstream.engine.rows.numbering import number_rows
from midstream.engine.rows.rows import Rows
from midstream.engine.run.contract import Expiry, Kept, RunSpec
from midstream.engine.run.hopping import HoppingRun
from midstream.engine.run.sliding import nothing
from midstream.kernels.arrays import Mask
from midstream.model.batch import Arrival
from midstream.model.time import NEVER
from midstream.operators.hopping.build_execution import HopExecution
from midstream.operators.hopping.emission import Stamp
from midstream.plan.json import own_aggregates, read_plan
from midstream.plan.plan import Plan

Place = tuple[int, int, int]
"""A row's place: time, stream in declaration order, offset."""


class CountedHopsRun(HoppingRun):
    """An execution, how many rows there were, and the place of the last answer.

    Invariant: after each `take` fewer than n rows have come since the last answer. At an answer T is one microsecond
    after its last row: a window of a range w holds the rows with `T - w <= time` that came before its place.
    """

    def __init__(self, version: int, execution: HopExecution, remembered: dict[str, Any], spec: RunSpec) -> None:
        super().__init__(version, execution, remembered, spec)
        query = execution.plan.query
        self._counted: int = remembered.get("counted", 0)
        """Rows that have come so far."""
        at = remembered.get("at")
        self._at_row: Place | None = None if at is None else (at[0], at[1], at[2])
        """The last row before the last answer."""
        self._counts = list({s.stream.name: s.alias for s in reversed(query.sources)}.values())
        """The first alias of each stream."""

    @property
    def _rows_a_hop(self) -> int:
        rows = self.execution.plan.query.hop_rows
        assert rows is not None, "a query that hops by rows"
        return rows

    @classmethod
    def rebuild(cls, version: int, plan: Plan, spec: RunSpec, kept: Kept) -> "CountedHopsRun":
        """Return an execution as it was after the last answer, and the rows that came later, from the window rows."""
        remembered = kept.remembered
        if remembered.get("plan") is not None:
            plan = read_plan(remembered["plan"], own_aggregates(plan.query.root))
        execution, last_us = HopExecution(plan), remembered.get("last_us")
        run = cls(version, execution, remembered, spec)
        later = {}
        for alias, mine in kept.rows.items():
            before = run._before(plan.query.source(alias).position, mine)
            part, later[alias] = mine.where(before), mine.where(~before)
            execution.add(alias, part.columns, part.times, part.offsets, NEVER if last_us is None else last_us)
        if last_us is not None:
            execution.load(last_us)
        run._counted -= run._counted % run._rows_a_hop
        run._count(later)
        run.begin_batch()
        return run

    def _before(self, position: int, rows: Rows) -> Mask:
        """Tell which rows of a stream came before the last answer."""
        if self._at_row is None:
            return np.zeros(len(rows), np.bool_)
        time_us, stream, offset = self._at_row
        tied = np.full(len(rows), position < stream) if position != stream else rows.offsets <= offset
        before: Mask = (rows.times < time_us) | ((rows.times == time_us) & tied)
        return before

    def take(self, rows: dict[str, Rows], upto_us: int, clock_us: int) -> None:
        """Take in the rows below a time, all there are, and answer after every n-th."""
        if self.last_us is None and self._due and rows:
            self._switch_plans(min((int(mine.times[0]) for mine in rows.values() if len(mine)), default=NEVER))
        self._count(rows)

    def _count(self, rows: dict[str, Rows]) -> None:
        query = self.execution.plan.query
        rows = {s.alias: rows.get(s.alias) or nothing(s.stream, query.columns_of(s.alias)) for s in query.sources}
        if not any(map(len, rows.values())):
            return
        numbered = number_rows(query, rows, 0)
        order = np.sort(np.concatenate([numbered[alias].seqs for alias in self._counts]))
        self._rows, self._at = rows, dict.fromkeys(rows, 0)
        size = self._rows_a_hop
        for last in range(size - 1 - self._counted % size, len(order), size):
            # All aliases of a row come before the first one of the next.
            end = int(order[last + 1]) if last + 1 < len(order) else None
            cuts = {a: len(n) if end is None else int(np.searchsorted(n.seqs, end)) for a, n in numbered.items()}
            row = self._row_numbered(numbered, int(order[last]), cuts)
            self._let_in(cuts, row[0] + 1)
            self._answer_after(row, self._counted + last + 1)
        last_us = max(int(mine.times[-1]) for mine in rows.values() if len(mine))
        self._let_in({alias: len(mine) for alias, mine in rows.items()}, last_us + 1)
        self._counted += len(order)

    def _row_numbered(self, numbered: dict[str, Arrival], seq: int, cuts: dict[str, int]) -> Place:
        """Return the place of the row with a number, the last but for other aliases of it before some cuts."""
        for alias in self._counts:
            mine, at = numbered[alias], cuts[alias] - 1
            if at >= 0 and mine.seqs[at] == seq:
                return int(mine.times[at]), self.execution.plan.query.source(alias).position, int(mine.offsets[at])
        raise AssertionError("every number is that of a row")

    def _let_in(self, cuts: dict[str, int], next_us: int) -> None:
        """Let rows up to a cut into the windows, which are looked at no earlier than `next_us`."""
        for alias, rows in self._rows.items():
            start, stop = self._at[alias], cuts[alias]
            if stop > start:
                part = rows.between(start, stop)
                self.execution.add(alias, part.columns, part.times, part.offsets, next_us)
                self._at[alias] = stop

    def _answer_after(self, row: Place, count: int) -> None:
        self._at_row = row
        answer = self.execution.answer(row[0] + 1, Stamp(row[0], count))
        self._emit(row[0] + 1, answer, count)

    def _expect_next(self, hop_us: int) -> None:
        """Expect the next answer whenever enough rows have come."""

    def holds_before(self, position_us: int) -> bool:
        """Tell whether rows of the windows, or since the last answer, are from before a position."""
        return self._counted > 0 and (self.last_us is None or self.oldest_us < position_us)

    def expiry(self, released_us: int) -> Expiry | None:
        """Return which rows no window held at the last answer; all that came later are kept."""
        if self.last_us is None:
            return Expiry(None, NEVER)
        # Rows of the time of the last one before the answer came before it or after.
        return Expiry(self.last_us, self.last_us - 1)

    def remember(self) -> dict[str, Any]:
        """Return how many rows there were, the place of the last answer, and the plan."""
        return super().remember() | {"counted": self._counted, "at": self._at_row}
