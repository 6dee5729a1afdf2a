"""On Spark, the micro-batch in which a migration starts, as a multiple of the median steady one before it.

A 4-way join with 40 s windows, micro-batches of 200,000 rows. One run goes from plan to plan: by a hybrid, by a
just-in-time, by a moving-state and by a parallel-track migration, each after some steady micro-batches. `hybrid_ratio`
and the like are the time of the micro-batch that reads the request over the median of the steady ones before it.
"""

import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import midstream as ms
from benchmarks.measure import Progress
from benchmarks.staged import write_batches
from benchmarks.workload import Workload, equi_join
from midstream.app.engine import SparkQuery

BATCH_S = 5
"""Event time of a micro-batch: 50,000 rows of each stream."""
WINDOW_S = 40
STEADY = 10
"""Steady micro-batches before each migration."""
LASTS = WINDOW_S // BATCH_S + 3
"""Micro-batches a migration may take."""
LEFT, RIGHT, BUSHY = "(((a b) c) d)", "(a (b (c d)))", "((a c) (b d))"
STEPS = (("hybrid", RIGHT), ("just-in-time", LEFT), ("moving-state", BUSHY), ("parallel-track", RIGHT))


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return the ratios of all strategies and what every micro-batch took."""
    from midstream.spark.settings import local_session

    workload = Workload(4, equi_join(4, WINDOW_S), window_s=WINDOW_S, keys=400_000)
    folder = Path(tempfile.mkdtemp(prefix="midstream-bench-"))
    warm_up = 4 + 2 * WINDOW_S // BATCH_S
    try:
        write_batches(workload, folder, warm_up + len(STEPS) * (STEADY + LASTS), BATCH_S, seed)
        spark = local_session()
        engine = ms.Engine(spark)
        for name in workload.names:
            reader = spark.readStream.schema("ts long, k long, v long").option("maxFilesPerTrigger", 1)
            engine.stream(name, reader.parquet(str(folder / name)), time="ts")
        query = engine.query(workload.sql, name="bench", plan=LEFT)
        assert isinstance(query, SparkQuery)
        started = query.start({"format": "noop"}, folder / "checkpoint", buckets=2)
        figures: dict[str, Any] = {}
        try:
            for k, (strategy, tree) in enumerate(STEPS):
                _wait_for_batch(started, (warm_up if not k else _batch(started)) + STEADY)
                figures[strategy] = _migrate(started, strategy, tree)
                progress(k + 1, len(STEPS))
            last = started.status()["last_batch"]
        finally:
            started.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = BATCH_S * workload.rows_per_second * workload.streams
    ratios = {f"{s.replace('-', '_')}_ratio": figures[s]["ratio"] for s, _ in STEPS}
    return {
        "rows_per_s": rows / figures["hybrid"]["steady_ms"] * 1000,
        "peak_bytes": last["state_bytes"],
        **ratios,
        "migrations": figures,
        "parameters": {**workload.parameters(), "batch_rows": rows, "steady_batches": STEADY, "seed": seed},
    }


def _batch(run: Any) -> int:
    return int((run.status().get("last_batch") or {"batch": -1})["batch"])


def _wait_for_batch(run: Any, number: int) -> None:
    while _batch(run) < number:
        time.sleep(0.01)


def _migrate(run: Any, strategy: str, plan: str) -> dict[str, Any]:
    """Migrate, wait until it is over; return how long the micro-batch took that it started in."""
    identity = run.migrate(plan, strategy)
    record = run.wait_for_migration(identity, 600)
    started = next(e["batch"] for e in run.events() if e["event"] == "migrate" and e["id"] == identity)
    _wait_for_batch(run, started + 2)
    took = {p["batchId"]: p["durationMs"]["triggerExecution"] for p in run.progress()}
    steady = statistics.median(took[n] for n in range(started - STEADY, started) if n in took)
    later = [took[n] for n in sorted(took) if n > started][: LASTS - 3]
    return {
        "ratio": took[started] / steady,
        "start_ms": took[started],
        "steady_ms": steady,
        "following_ms": later,
        "record": record,
    }
