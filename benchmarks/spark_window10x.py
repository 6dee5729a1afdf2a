"""On Spark, micro-batches of 1,000,000 rows with 100 s windows and 1,000,000 keys beside 10 s and 100,000.

`cost_ratio` is the median time of a steady micro-batch with the large windows over that with the small ones, in one
run.
"""

import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import midstream as ms
from benchmarks.measure import Progress
from benchmarks.staged import write_batches
from benchmarks.workload import Workload, equi_join
from midstream.app.engine import SparkQuery

BATCH_S = 25
"""Event time of a micro-batch: 250,000 rows of each stream."""


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return the figures of the large windows, and those of the small ones under `small`."""
    steady = max(3, int(seconds or 100) // BATCH_S)
    small = Workload(4, equi_join(4))
    large = Workload(4, equi_join(4, 100), window_s=100, keys=1_000_000)
    first = _measure(small, steady, seed)
    progress(1, 2)
    second = _measure(large, steady, seed)
    progress(2, 2)
    return {**second, "cost_ratio": second["batch_ms"] / first["batch_ms"], "small": first}


def _measure(workload: Workload, steady: int, seed: int) -> dict[str, Any]:
    from midstream.spark.settings import local_session

    folder = Path(tempfile.mkdtemp(prefix="midstream-bench-"))
    # The first batches compile, start workers, fill the windows and make states grow; then everything stays put.
    warm_up = 3 + 2 * workload.window_s // BATCH_S
    try:
        write_batches(workload, folder, warm_up + steady, BATCH_S, seed)
        spark = local_session()
        engine = ms.Engine(spark)
        for name in workload.names:
            reader = spark.readStream.schema("ts long, k long, v long").option("maxFilesPerTrigger", 1)
            engine.stream(name, reader.parquet(str(folder / name)), time="ts")
        query = engine.query(workload.sql, name="bench")
        assert isinstance(query, SparkQuery)
        once = {"availableNow": True}
        started = query.start({"format": "noop"}, folder / "checkpoint", buckets=2, trigger=once)
        started.wait()
        batches = [p["durationMs"]["triggerExecution"] for p in started.progress()][warm_up:]
        last = started.status()["last_batch"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = BATCH_S * workload.rows_per_second * workload.streams
    batch_ms = statistics.median(batches)
    return {
        "rows_per_s": rows / batch_ms * 1000,
        "peak_bytes": last["state_bytes"],
        "batch_ms": batch_ms,
        "batches_ms": batches,
        "parameters": {**workload.parameters(), "batch_rows": rows, "steady_batches": steady, "seed": seed},
    }
