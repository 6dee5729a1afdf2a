"""One version of a query in one bucket: release what is in order, run it, keep what must last.

packed rows ──▶ intake: late? wait, release in order ──▶ version run ──▶ what leaves
                    └──▶ durable window rows                └──▶ what it remembers, its operators' arrays
"""

from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from midstream.engine.bucket.durable import DurableRows
from midstream.engine.bucket.intake import Intake
from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.bucket.state import VersionState
from midstream.engine.bucket.store import Store
from midstream.engine.rows.rows import Rows, in_order
from midstream.engine.run.contract import Kept, RunSpec, VersionRun
from midstream.engine.run.family import family_of
from midstream.model.time import FOREVER
from midstream.plan.plan import Plan


class OperatorMemory(Protocol):
    """Where the operators of a bucket lie between two micro-batches, so that they need not be rebuilt."""

    trouble: str
    """Why there is no room for operators, in a sentence; empty: there was."""

    def take(self, version: int, token: str, plan: Plan) -> Any | None:
        """Return what was published under a token, or None; it is gone from there then.

        Functions of the user are those of the plan the version was started with.
        """

    def publish(self, version: int, token: str, exported: Any) -> bool:
        """Keep operators under a token; return whether there was room."""

    def forget(self, version: int) -> None:
        """Remove what is kept of a version."""


class VersionInBucket:
    """One version in one bucket."""

    def __init__(
        self,
        number: int,
        spec: BucketSpec,
        first: bool,
        state: VersionState,
        store: Store | None,
        memory: OperatorMemory | None,
    ) -> None:
        plan = spec.plan_of(abs(number))
        self.number = number
        self.state = state
        self._durable = None if store is None else DurableRows(store, state, number)
        self._memory = memory
        self.intake = Intake(plan, state, self._durable, spec.timings, spec.recorded)
        self.speaks = first or not plan.partitioning.one_bucket
        """Results come from here: of a version that runs in one bucket only from the first.

        The others have no row of it, but a query that hops answers without any.
        """
        self._counted = {
            rank for rank in self.intake.first_of_stream
            if first or self.intake.sources[rank].alias not in plan.partitioning.broadcast
        }  # fmt: skip
        """Aliases whose rows count as input here: each row of a stream once, those every bucket gets in the first."""
        self.run, self.rebuilt = self._attach(plan, spec.run)
        self.begin_batch()

    def begin_batch(self) -> None:
        """Start counting for a micro-batch."""
        self.rows_in = 0
        self.left_before_us = self.state.left_us
        self.run.begin_batch()
        self._tested, self._flips = self.run.predicate_evaluations, self.run.flips

    def _attach(self, plan: Plan, spec: RunSpec) -> tuple[VersionRun, bool]:
        """Return the run with its states: new, as some memory of this host has it, or rebuilt from the window rows."""
        state, durable = self.state, self._durable
        if durable is None or not state.token:
            return family_of(plan).rebuild(self.number, plan, spec, Kept()), False
        exported = None if self._memory is None else self._memory.take(self.number, state.token, plan)
        if exported is not None:
            run = family_of(plan).adopt(self.number, spec, exported, state.run)
        else:
            held = {k: durable.window_rows(k, names) for k, names in enumerate(self.intake.names)}
            rows = {self.intake.sources[k].alias: in_order(parts) for k, parts in held.items() if parts}
            kept = Kept(state.run, rows, durable.stage_rows(), state.released_us)
            run = family_of(plan).rebuild(self.number, plan, spec, kept)
        run.held_elsewhere = durable.take_held
        return run, exported is None

    def take_over(self, before: "VersionInBucket") -> None:
        """Take over the rows that wait, and what has come out, from before the version started anew."""
        self.intake.take_over(before.intake)
        self.run.take_over(before.run)
        self.rows_in = before.rows_in

    def advance(self, upto_us: int, clock_us: int, count_from_us: int) -> None:
        """Run the rows below a time; time itself has come to `clock_us`.

        Rows before `count_from_us` were counted in another version.
        """
        rows: dict[str, Rows] = {}
        for rank, mine in self.intake.release(upto_us).items():
            rows[self.intake.sources[rank].alias] = mine
            if rank in self._counted:
                self.rows_in += len(mine) - int(np.searchsorted(mine.times, count_from_us))
        self.run.take(rows, self.state.released_us, clock_us)

    def watch(self, position_us: int) -> None:
        """Watch from now on for the end of what began before a position."""
        if self.run.drain_us != position_us:
            self.run.drain(position_us, goes_on=self.number < 0)

    def note_left(self) -> None:
        """Note when the last result has left, after the micro-batch: a restart is to know it."""
        times = [item.left_us for item in self.run.leaving if len(item.results)]
        self.state.left_us = max([self.state.left_us, *times])

    def close(self, release: bool, last: bool) -> bool:
        """Keep what must last; return whether the operators can be found again by other workers of this host.

        `release` lets output leave that is held back, `last` says that nothing more comes.
        """
        run, durable = self.run, self._durable
        run.work()
        if release or last:
            run.release_held(FOREVER)
        if last:
            run.finish()
        if durable is None:
            return True
        self.intake.keep(run.expiry(self.state.released_us))
        for k, stage in enumerate(run.stage_rows()):
            durable.keep_stage(k, stage)
        durable.hold_back(run.take_held())
        run.held_elsewhere = durable.take_held
        self.state.run = run.remember()
        durable.commit()
        return self._memory is None or self._memory.publish(self.number, self.state.token, run.export())

    @property
    def tested(self) -> int:
        """Return how many pairs, tuples and values were tested in this micro-batch."""
        return self.run.predicate_evaluations - self._tested

    @property
    def flips(self) -> int:
        """Return how often values came into differences or left them before their time in this micro-batch."""
        return self.run.flips - self._flips

    def late_rows(self) -> list[pa.Table]:
        """Return the late rows of this micro-batch that count here, a table for each stream."""
        return self._set_aside(self.intake.late)

    def far_rows(self) -> list[pa.Table]:
        """Return the rows of this micro-batch that are too far ahead and count here, a table for each stream."""
        return self._set_aside(self.intake.far)

    def _set_aside(self, rows: dict[int, Rows]) -> list[pa.Table]:
        return [self.intake.named_table(rank, mine) for rank, mine in rows.items() if rank in self._counted]
