"""Pathway interval joins, chained: two threads, CSV in and out, rows forgotten a second after their window has passed.

    batch-0000.csv ──▶ watched folder ──▶ four tables ──▶ join ──▶ join ──▶ join ──▶ CSV
           ▲                                                           │
           └──── the next file is moved in when this one is done ◀─────┘

Runs in Pathway's own virtual environment. Pathway forgets by the time that each side of a join has seen, so the four
streams come interleaved in one source: read apart, one would run ahead and its rows would be forgotten too early.
"""

import os
import threading
import time
from typing import Any

from benchmarks.peers_systems.job import NAMES, Job, Said, serve, steady

SLACK_US = 1_000_000
COMMIT_EVERY_MS = 100
QUIET_S = 1.0


def run(job: Job) -> Said:
    """Run the job; a micro-batch is a file, and lasts until its rows have passed through all joins."""
    os.environ["PATHWAY_THREADS"] = "2"
    import pathway as pw

    class Row(pw.Schema):
        stream: int
        ts: int
        k: int
        v: int

    watched = job.scratch / "watched"
    watched.mkdir()
    job.out.mkdir()
    rows = pw.io.csv.read(watched, schema=Row, mode="streaming", autocommit_duration_ms=COMMIT_EVERY_MS)
    results = join_all(pw, rows, job.window_us)
    pw.io.csv.write(results, job.out / "results.csv")
    meter = Meter()
    # Changes with every commit, and is only told when the results of that commit are known as well.
    read, found = rows.reduce(n=pw.reducers.count()), results.reduce(m=pw.reducers.count())
    pw.io.subscribe(read.join(found).select(read.n, found.m), on_change=meter.on_change)
    # It would wait for more files for ever; the thread ends with the process.
    engine = threading.Thread(target=pw.run, kwargs={"monitoring_level": pw.MonitoringLevel.NONE}, daemon=True)
    engine.start()
    batches = []
    for place, file in enumerate(sorted(job.csv.iterdir()), start=1):
        started = time.perf_counter()
        file.rename(watched / file.name)
        meter.wait_for(place * job.batch_rows, engine)
        batches.append((job.batch_rows, time.perf_counter() - started))
    wait_until_quiet(job.out / "results.csv")
    rate, seconds = steady(job, batches)
    return Said(rate, meter.count, "CSV, streams interleaved in one source; no checkpoint (persistence off)", seconds)


def join_all(pw: Any, rows: Any, window_us: int) -> Any:
    """Join the four streams: an interval on `a`'s time for each, the other pairs by a filter."""
    behavior = pw.temporal.common_behavior(cutoff=window_us + SLACK_US)
    near = pw.temporal.interval(-window_us, window_us)
    streams = {
        name: rows.filter(pw.this.stream == place).select(
            k=pw.this.k, **{f"ts_{name}": pw.this.ts, f"v_{name}": pw.this.v}
        )
        for place, name in enumerate(NAMES)
    }
    joined = streams["a"]
    for place, name in enumerate(NAMES[1:], start=1):
        left, right = joined, streams[name]
        added = (f"ts_{name}", f"v_{name}")
        joined = left.interval_join(
            right, left.ts_a, right[f"ts_{name}"], near, left.k == right.k, behavior=behavior
        ).select(**{c: pw.left[c] for c in left.column_names()}, **{c: pw.right[c] for c in added})
        for other in NAMES[1:place]:
            apart = joined[f"ts_{other}"] - joined[f"ts_{name}"]
            joined = joined.filter((apart <= window_us) & (apart >= -window_us))
    return joined.select(*(joined[f"v_{name}"] for name in NAMES))


class Meter:
    """How many rows have passed through the joins."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = threading.Condition()

    def on_change(self, key: Any, row: dict[str, int], time: int, is_addition: bool) -> None:
        """Take note of the rows so far."""
        if is_addition:
            with self._changed:
                self.count = row["n"]
                self._changed.notify()

    def wait_for(self, rows: int, engine: threading.Thread) -> None:
        """Return when so many rows have passed; fail when the engine has ended before."""
        with self._changed:
            while not self._changed.wait_for(lambda: self.count >= rows, timeout=QUIET_S):
                if not engine.is_alive():
                    raise RuntimeError(f"Error: Pathway ended after {self.count} of {rows} rows")


def wait_until_quiet(file: Any) -> None:
    """Return when a file has stopped growing."""
    size = -1
    while size != file.stat().st_size:
        size = file.stat().st_size
        time.sleep(QUIET_S)


if __name__ == "__main__":
    serve(run)
