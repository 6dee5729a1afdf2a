"""Measure a workload on one core, in process, after its windows have filled and its kernels are compiled."""

import os
import resource
import time
from typing import Any

import pyarrow as pa

from benchmarks.workload import Workload
from midstream.runtime.local import LocalRuntime


def on_one_core() -> None:
    """Keep this process, and Arrow's own threads, to one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)


def measure(workload: Workload, seconds: int, seed: int) -> dict[str, Any]:
    """Run two windows of warm-up and then `seconds` of event time; return the figures of the latter.

    `rows_per_s` counts input rows and includes numbering, joins, and the output as Arrow columns. `peak_bytes` is the
    most the states ever held. `budget_bytes` is (8 bytes x components + 32) per live intermediate result plus the
    Arrow size of the rows in the windows, at the end of the run.
    """
    on_one_core()
    runtime = LocalRuntime(workload.planned())
    warm_up = 2 * workload.window_s
    spent, rows_in, rows_out, peak, arrow_row = 0.0, 0, 0, 0, 0.0
    tested = 0
    for second, rows in enumerate(workload.batches(warm_up + seconds, seed)):
        before = runtime.predicate_evaluations
        started = time.perf_counter()
        found = sum(len(results) for results in runtime.on_rows(rows))
        wall = time.perf_counter() - started
        peak = max(peak, runtime.size().nbytes)
        if second >= warm_up:
            spent += wall
            rows_in += sum(len(r.times) for r in rows.values())
            rows_out += found
            tested += runtime.predicate_evaluations - before
            arrow_row = sum(r.rows.nbytes + r.times.nbytes for r in rows.values()) / sum(len(r.times) for r in rows.values())
    memory = _memory(runtime, (warm_up + seconds) * 1_000_000, arrow_row)
    return {
        "rows_per_s": rows_in / spent,
        "peak_bytes": peak,
        "rows_in": rows_in,
        "rows_out": rows_out,
        "wall_s": spent,
        "predicate_evaluations": tested,
        **memory,
        "memory_ratio": peak / memory["budget_bytes"],
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "parameters": {**workload.parameters(), "seconds": seconds, "warm_up_s": warm_up, "seed": seed},
    }


def _memory(runtime: LocalRuntime, now_us: int, arrow_row: float) -> dict[str, Any]:
    """Count what is live at the end, and what it may cost."""
    results, budget, window_rows = 0, 0.0, 0
    for pipeline in runtime.pipelines:
        for step in pipeline.steps:
            for state in (step.join.left, step.join.right):
                live = state.live(now_us, runtime.next_seq - 1, pipeline.evictions)
                if len(state.components) > 1:
                    results += live
                    budget += live * (8 * len(state.components) + 32)
                else:
                    window_rows += live
    budget += window_rows * arrow_row
    return {
        "intermediate_results": results,
        "window_rows": window_rows,
        "window_arrow_bytes": int(window_rows * arrow_row),
        "budget_bytes": int(budget),
    }
