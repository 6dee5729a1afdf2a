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
from midstream.engine.bucket.succession import Succession
from midstream.engine.rows.rows import Rows
from midstream.engine.run.contract import Kept, RunSpec, VersionRun
from midstream.engine.run.family import run_of
from midstream.migrate.record import MigrationRecord
from midstream.migrate.request import MigrationRequest
from midstream.model.effort import Effort
from midstream.model.time import FOREVER
from midstream.operators.contract.execution import StateSize
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
        kind = run_of(plan, spec.run.framework)
        self.intake = Intake(plan, state, self._durable, spec.timings, spec.recorded, not kind.keeps_rows)
        self.speaks = first or not plan.partitioning.one_bucket
        """Results come from here: of a version that runs in one bucket only from the first.

        The others have no row of it, but a query that hops answers without any.
        """
        self._counted = {
            rank for rank in self.intake.first_of_stream
            if first or self.intake.sources[rank].alias not in plan.partitioning.broadcast
        }  # fmt: skip
        """Aliases whose rows count as input here: each row of a stream once, those every bucket gets in the first."""
        self._succession, self.rebuilt = self._attach(plan, spec.run)
        self.begin_batch()

    @property
    def run(self) -> VersionRun:
        """Return the run that answers."""
        return self._succession.run

    def begin_batch(self) -> None:
        """Start counting for a micro-batch."""
        self.rows_in = 0
        self.left_before_us = self.state.left_us
        self._succession.begin_batch()
        self._before, self._flips = self._succession.effort, self._succession.flips

    def _attach(self, plan: Plan, spec: RunSpec) -> tuple[Succession, bool]:
        """Return the run with its states: new, as some memory of this host has it, or rebuilt from the window rows."""
        state, durable = self.state, self._durable
        if durable is None or not state.token:
            run = run_of(plan, spec.framework).rebuild(self.number, plan, spec, Kept())
            return Succession(self.number, spec, run, self.intake, state), False
        taken = None if self._memory is None else self._memory.take(self.number, state.token, plan)
        kind = run_of(plan, spec.framework)
        if kind.keeps_rows:
            kept = Kept(state.run, released_us=state.released_us, tables=durable.own_tables(), exported=taken)
            run = kind.rebuild(self.number, plan, spec, kept)
            return Succession(self.number, spec, run, self.intake, state), taken is None
        exported, coming = Succession.split(taken, state.run)
        exported = exported if exported is None or kind.fits(spec, exported) else None
        if exported is not None:
            run = kind.adopt(self.number, spec, exported, state.run)
        else:
            kept = Kept(state.run, self.intake.held(), durable.stage_rows(), state.released_us)
            run = kind.rebuild(self.number, plan, spec, kept)
        run.held_elsewhere = durable.take_held
        succession = Succession(self.number, spec, run, self.intake, state)
        succession.go_on(state.run, coming)
        return succession, exported is None

    def take_over(self, before: "VersionInBucket") -> None:
        """Take over the rows that wait, and what has come out, from before the version started anew."""
        self.intake.take_over(before.intake)
        self.run.take_over(before.run)
        self.rows_in = before.rows_in

    def advance(self, upto_us: int, clock_us: int, count_from_us: int) -> None:
        """Run the rows below a time; time itself has come to `clock_us`.

        Rows before `count_from_us` were counted in another version.
        """
        self._succession.begin()
        stop_us = None
        while stop_us is None or stop_us < upto_us:
            stop_us = self._succession.stop_us(upto_us, clock_us)
            rows: dict[str, Rows] = {}
            for rank, mine in self.intake.release(stop_us).items():
                rows[self.intake.sources[rank].alias] = mine
                if rank in self._counted:
                    self.rows_in += len(mine) - int(np.searchsorted(mine.times, count_from_us))
            self._succession.take(rows, self.state.released_us, clock_us)

    def migrate(self, request: MigrationRequest, plan: Any | None = None, row: str = "") -> None:
        """Note a migration; see `VersionRun.migrate`."""
        self._succession.migrate(request, plan, row)

    def supersede(self, reason: str) -> None:
        """Let the run that answers go on, whatever was to take its place."""
        self._succession.supersede(reason)

    def trace(self, on: bool) -> None:
        """Let results say from now on what brought them and what they depend on; or not."""
        self._succession.trace(on)

    def records(self) -> list[MigrationRecord]:
        """Return the records of migrations under way, or ended in this micro-batch."""
        return self._succession.records()

    def superseded(self) -> list[MigrationRecord]:
        """Return the records of migrations of a version that is not the newest any more."""
        return self._succession.general_records()

    @property
    def phase(self) -> str:
        """Return what has been going on in this micro-batch, in a word or two."""
        return self._succession.phase

    @property
    def phase_now(self) -> str:
        """Return what is going on now."""
        return self._succession.phase_now

    def size(self) -> StateSize:
        """Return what all states hold now."""
        return self._succession.size()

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
        self._succession.work()
        run, durable = self.run, self._durable
        if release or last:
            run.release_held(FOREVER)
        if last:
            self._succession.finish()
        self.intake.keep(run.expiry(self.state.released_us))
        if durable is None:
            return True
        for k, stage in enumerate(run.stage_rows()):
            durable.keep_stage(k, stage)
        durable.hold_back(run.take_held())
        run.held_elsewhere = durable.take_held
        if run.keeps_rows:
            durable.keep_own([pa.Table.from_batches([part]) for part in run.take_tables()])
        self.state.run = self._succession.remember()
        durable.commit()
        return self._memory is None or self._memory.publish(self.number, self.state.token, self._succession.export())

    @property
    def whole_effort(self) -> Effort:
        """Return what has been done since this was made."""
        return self._succession.effort

    @property
    def effort(self) -> Effort:
        """Return what was done in this micro-batch."""
        return self._succession.effort - self._before

    @property
    def flips(self) -> int:
        """Return how often values came into differences or left them before their time in this micro-batch."""
        return self._succession.flips - self._flips

    def late_rows(self) -> list[pa.Table]:
        """Return the late rows of this micro-batch that count here, a table for each stream."""
        return self._set_aside(self.intake.late)

    def far_rows(self) -> list[pa.Table]:
        """Return the rows of this micro-batch that are too far ahead and count here, a table for each stream."""
        return self._set_aside(self.intake.far)

    def _set_aside(self, rows: dict[int, Rows]) -> list[pa.Table]:
        return [self.intake.named_table(rank, mine) for rank, mine in rows.items() if rank in self._counted]
