"""Measure a workload on one core, in process, after its windows have filled and its kernels are compiled."""

import os
import resource
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from benchmarks.direct import DirectRun
from benchmarks.workload import Workload
from midstream.engine.rows.rows import Rows
from midstream.model.time import FOREVER_US
from midstream.operators.sliding.tree import JoinTree

Progress = Callable[[int, int], None]
"""Told how many seconds of event time are done, and how many there are."""


def on_one_core() -> None:
    """Keep this process, and Arrow's own threads, to one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)


def measure(workload: Workload, seconds: int, seed: int, progress: Progress) -> dict[str, Any]:
    """Run two windows of warm-up and then `seconds` of event time; return the figures of the latter.

    `rows_per_s` counts input rows and includes numbering, joins, and the output as Arrow columns. `peak_bytes` is the
    most the states ever held. `budget_bytes` is (8 bytes x components + 32) per live intermediate result plus the
    Arrow size of the rows in the windows, at that moment.
    """
    on_one_core()
    runtime = DirectRun(workload.planned())
    warm_up = 2 * workload.window_s
    spent, rows_in, rows_out, tested = 0.0, 0, 0, 0
    memory = Memory()
    for second, rows in enumerate(workload.batches(warm_up + seconds, seed)):
        before = runtime.predicate_evaluations
        started = time.perf_counter()
        found = sum(len(results) for results in runtime.on_rows(rows))
        wall = time.perf_counter() - started
        progress(second + 1, warm_up + seconds)
        memory.look(runtime, rows, (second + 1) * 1_000_000)
        if second >= warm_up:
            spent += wall
            rows_in += sum(len(r.times) for r in rows.values())
            rows_out += found
            tested += runtime.predicate_evaluations - before
    return {
        "rows_per_s": rows_in / spent,
        "peak_bytes": memory.peak_bytes,
        "rows_in": rows_in,
        "rows_out": rows_out,
        "wall_s": spent,
        "predicate_evaluations": tested,
        "intermediate_results": memory.results,
        "window_rows": memory.window_rows,
        "budget_bytes": memory.budget_bytes,
        "memory_ratio": memory.peak_bytes / memory.budget_bytes,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "parameters": {**workload.parameters(), "seconds": seconds, "warm_up_s": warm_up, "seed": seed},
    }


class Memory:
    """The fullest moment: what the states held, how much of it was live, and what that may cost."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self.results = 0
        self.window_rows = 0
        self.budget_bytes = 0

    def look(self, runtime: DirectRun, rows: dict[str, Rows], now_us: int) -> None:
        """Count everything anew when the states hold more than ever before."""
        held = runtime.size().nbytes
        if held <= self.peak_bytes:
            return
        held_bytes = sum(sum(c.nbytes for c in r.columns.values()) + r.times.nbytes for r in rows.values())
        arrow_row = held_bytes / sum(len(r) for r in rows.values())
        self.peak_bytes, self.results, self.window_rows, budget = held, 0, 0, 0.0
        for pipeline in runtime.pipelines:
            assert isinstance(pipeline.execution, JoinTree), "these run join trees"
            for join in pipeline.execution.joins():
                for state in join.states:
                    alive = pipeline.sources.live(state.held, state.slots, FOREVER_US, now_us, runtime.next_seq - 1)
                    live = int(alive.sum())
                    if len(state.components) > 1:
                        self.results += live
                        budget += live * (8 * len(state.components) + 32)
                    else:
                        self.window_rows += live
        self.budget_bytes = int(budget + self.window_rows * arrow_row)
