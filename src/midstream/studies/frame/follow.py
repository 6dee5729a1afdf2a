"""Follow a run in micro-batches of equal width: what each brought, took and left behind, counted by the engine.

recorded tables ──▶ the host in process ──▶ a micro-batch after the other ──▶ counts
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.change.request import ChangeRequest
from midstream.lang.sql import parse_query
from midstream.local.loop import Loop
from midstream.local.replay import make_plan
from midstream.local.sources import recorded_table
from midstream.migrate.request import MigrationRequest
from midstream.model.effort import Effort

COUNTED = ("rows_in", "rows_out", "evaluations", "entries", "probes", "tuples", "held")


class Results:
    """Where results go: they are counted, and handed to whoever wants them."""

    def __init__(self, see: Callable[[pa.RecordBatch], None] | None) -> None:
        self._see = see

    def write(self, rows: pa.RecordBatch) -> None:
        """Take the next results."""
        if self._see is not None:
            self._see(rows)

    def widen(self, schema: pa.Schema) -> None:
        """Take results of another version as well."""

    def commit(self) -> None:
        """Nothing is written."""

    def abort(self) -> None:
        """Nothing is written."""


@dataclass(frozen=True)
class Counts:
    """What a run has done so far, and what it holds."""

    rows_in: int
    rows_out: int
    evaluations: int
    entries: int
    """Put into states."""
    probes: int
    """Entries that looked for partners."""
    tuples: int
    """Live in the states now."""
    held: int
    """Results held back now."""


class Followed:
    """A query over recorded tables, run in process; each table has its times in the column `ts`.

    `framework` is tree, cacq or stairs; `see` is called with results as they leave.
    """

    def __init__(
        self,
        sql: str,
        tables: Mapping[str, pa.Table],
        plan: str | None,
        join: str,
        width_us: int,
        framework: str = "tree",
        see: Callable[[pa.RecordBatch], None] | None = None,
    ) -> None:
        self._streams = tuple(recorded_table(name, table, "ts") for name, table in tables.items())
        self.width_us = width_us
        routing = "plan" if framework == "cacq" else "selectivity"
        loop = Loop(self._planned(sql, plan, join), self._streams, width_us, 1, framework=framework, routing=routing)
        self.running = loop.start(Results(see))
        self._at_us = 0

    def _planned(self, sql: str, plan: str | None, join: str) -> Any:
        return make_plan(parse_query(sql, [s.schema for s in self._streams]), plan, join, self._streams)

    def advance(self, until_us: int) -> None:
        """Take in the rows before a time."""
        while self.running.step(until_us):
            pass
        self._at_us = until_us

    def finish(self) -> None:
        """Take in all rows that are left."""
        while self.running.step():
            pass
        self.running.finish()

    def migrate(self, plan: str, strategy: str, **options: Any) -> None:
        """Go to another plan before the next row."""
        self.running.migrate(MigrationRequest.of(plan, strategy, options, identity=str(len(self.records) + 1)))

    def change(self, sql: str, method: str, **options: Any) -> None:
        """Go to another query before the next row."""
        asked = {"method": method, **options}
        identity = str(len(self.running.changes()) + 1)
        self.running.change(ChangeRequest.of(sql, asked, identity=identity), self._planned(sql, None, "auto"))

    @property
    def records(self) -> list[dict[str, Any]]:
        """Return what became of each migration."""
        return self.running.migrations()

    @property
    def effort(self) -> Effort:
        """Return what the operators have done so far."""
        return self.running.host.effort

    def counts(self) -> Counts:
        """Count what the run has done so far."""
        effort, report, records = self.effort, self.running.report, self.records
        held = records[-1]["rows_buffered"] if records and records[-1]["state"] == "running" else 0
        return Counts(
            report.rows_in, report.rows_out, effort.evaluations, effort.entries, effort.probes,
            self.running.host.live_entries(), held,
        )  # fmt: skip


@dataclass
class Trace:
    """Micro-batches one after the other."""

    counts: list[Counts] = field(default_factory=list)
    """Before the first one, and after each."""

    def __len__(self) -> int:
        return len(self.counts) - 1

    def columns(self) -> dict[str, Sequence[Any] | npt.NDArray[Any]]:
        """Return what each micro-batch added, what was held at its end, and its number."""
        found: dict[str, Sequence[Any] | npt.NDArray[Any]] = {"second": np.arange(len(self))}
        for name in COUNTED:
            values = np.array([getattr(c, name) for c in self.counts], np.int64)
            found[name] = values[1:] if name in ("tuples", "held") else np.diff(values)
        return found


def follow(run: Followed, begin_us: int, batches: int, switch: Callable[[], None]) -> tuple[Trace, Effort]:
    """Advance a run to a time, switch, and follow so many micro-batches; return them and what the switch itself did.

    What the switch does is not in the first micro-batch.
    """
    run.advance(begin_us)
    start = run.counts()
    switch()
    trace = Trace([run.counts()])
    for number in range(batches):
        run.advance(begin_us + (number + 1) * run.width_us)
        trace.counts.append(run.counts())
    return trace, run_effort(trace.counts[0]) - run_effort(start)


def run_effort(counts: Counts) -> Effort:
    """Return what counts say was done."""
    return Effort(counts.evaluations, counts.entries, counts.probes)
