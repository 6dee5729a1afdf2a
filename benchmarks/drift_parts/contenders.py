"""Those who run a join over streams that drift: one plan, the adaptive loop, other frameworks, and who knows the drift.

CPU time of this process is what counts: rows in, joins, results as Arrow columns, looks and searches, migrations.
"""

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import process_time
from typing import Any

import pyarrow as pa

from benchmarks.drift_parts.streams import SECOND_US, Drift, between, engine_of
from midstream.app.engine import PlannedQuery, Run


class Results:
    """A sink that keeps of results how many there are and a number that is the same for the same ones in any order."""

    def __init__(self) -> None:
        self.rows = 0
        self.checksum = 0

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Take results."""
        self.rows += batch.num_rows
        times, values = batch.column("_time").to_numpy(), batch.column(0).to_numpy()
        self.checksum += int(((times % 1_000_003) * (values + 1)).sum())


@dataclass
class Ran:
    """What a contender took."""

    name: str
    cpu_s: list[float] = field(default_factory=list)
    """CPU time of each turn."""
    evaluations: int = 0
    rows_out: int = 0
    checksum: int = 0
    peak_bytes: int = 0
    rows_in: int = 0
    phases_s: list[float] = field(default_factory=list)
    """The CPU time of each phase, in the last turn."""
    migrations: list[dict[str, Any]] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)

    @property
    def best_s(self) -> float:
        """Return the CPU time of the best turn."""
        return min(self.cpu_s)

    def figures(self) -> dict[str, Any]:
        """Return what is written down."""
        return {
            "cpu_s": self.best_s,
            "turns_s": self.cpu_s,
            "phases_s": self.phases_s,
            "predicate_evaluations": self.evaluations,
            "rows_out": self.rows_out,
            "migrations": len(self.migrations),
            "strategies": [m["strategy"] for m in self.migrations],
            "decisions": self.decisions,
        }


def run_whole(ran: Ran, drift: Drift, tables: dict[str, pa.Table], plan: str, **how: Any) -> Ran:
    """Run over all phases in one go; add a turn to what was taken."""
    sink = Results()
    run = _started(drift, tables, plan, sink, **how)
    gc.collect()
    ran.phases_s = [_advance(run, end) for _, end in pairwise(drift.edges_us)]
    before = process_time()
    run.finish()
    ran.phases_s[-1] += process_time() - before
    return _noted(ran, [run], [sink], tables)


def run_phases(ran: Ran, drift: Drift, tables: dict[str, pa.Table], plans: Sequence[str]) -> Ran:
    """Run every phase with a plan of its own, switched for free: windows are filled by the rows before, untimed."""
    runs, sinks, ran.phases_s = [], [], []
    ran.evaluations = 0
    warm_us = round(drift.window_s * SECOND_US)
    for plan, (start, end) in zip(plans, pairwise(drift.edges_us), strict=True):
        sink = Results()
        rows = between(tables, start - warm_us, end)
        run = _started(drift, rows, plan, sink)
        run.advance(start)
        sink.rows = sink.checksum = 0
        ran.evaluations -= sum(b.predicate_evaluations for b in run.report.batches)
        gc.collect()
        before = process_time()
        run.finish()
        ran.phases_s.append(process_time() - before)
        runs.append(run)
        sinks.append(sink)
    evaluations = ran.evaluations
    _noted(ran, runs, sinks, tables)
    ran.evaluations += evaluations
    return ran


def run_schedule(
    ran: Ran,
    drift: Drift,
    tables: dict[str, pa.Table],
    plan: str,
    moves: Sequence[tuple[int, str]],
    strategy: str,
    **how: Any,
) -> Ran:
    """Run over all phases, migrating at given times by a strategy."""
    sink = Results()
    run = _started(drift, tables, plan, sink, **how)
    options = {"output": "merged"} if strategy == "parallel-track" else {}
    gc.collect()
    spent = 0.0
    for at_us, order in moves:
        spent += _advance(run, at_us)
        before = process_time()
        run.migrate(order, strategy=strategy, **options)
        spent += process_time() - before
    before = process_time()
    run.finish()
    ran.phases_s = [spent + process_time() - before]
    return _noted(ran, [run], [sink], tables)


def _started(drift: Drift, tables: dict[str, pa.Table], plan: str, sink: Results, **how: Any) -> Run:
    query = engine_of(tables).query(drift.sql, plan=plan, join=drift.join)
    assert isinstance(query, PlannedQuery)
    # The adaptive loop looks four times a window; micro-batches of all are as wide as its own.
    return query.start(sink=sink, paused=True, batch=f"{round(drift.window_s * 250_000)} microseconds", **how)


def _advance(run: Run, until_us: int) -> float:
    before = process_time()
    run.advance(until_us)
    return process_time() - before


def _noted(ran: Ran, runs: Sequence[Run], sinks: Sequence[Results], tables: dict[str, pa.Table]) -> Ran:
    ran.cpu_s.append(sum(ran.phases_s))
    ran.evaluations = sum(b.predicate_evaluations for run in runs for b in run.report.batches)
    ran.rows_out, ran.checksum = sum(s.rows for s in sinks), sum(s.checksum for s in sinks)
    ran.peak_bytes = max(run.report.peak_state_bytes for run in runs)
    ran.rows_in = sum(rows.num_rows for rows in tables.values())
    ran.migrations = [m for run in runs for m in run.migrations()]
    ran.decisions = [d for run in runs for d in getattr(run.report, "decisions", [])]
    return ran
