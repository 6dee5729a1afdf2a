"""Flink SQL interval joins, chained: heap state, checkpoints in files, parallelism 2, CSV in and out.

Runs in Flink's own virtual environment. Flink's event time has milliseconds: the intervals are one millisecond wider
than the window, and the exact microseconds are compared beside them. One file per stream, so that Flink reads it in
order.
"""

import json
import os
import socket
import threading
import time
import urllib.request
from typing import Any

from benchmarks.peers_systems.job import NAMES, Job, Said, serve

LOOK_EVERY_S = 0.2
CHECKPOINT_EVERY = "10 s"


def run(job: Job) -> Said:
    """Run the job; Flink has no micro-batches: its rate is that of the records its sources handed on after warm-up."""
    os.environ["JVM_ARGS"] = "-Xmx4g"  # as much as Spark's driver has
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    port = _free_port()
    settings = {
        "parallelism.default": "2",
        "rest.port": str(port),
        "rest.bind-port": str(port),
        "rest.address": "localhost",
        "metrics.fetcher.update-interval": "200",
        "taskmanager.numberOfTaskSlots": "2",
        "state.backend.type": "hashmap",
        "execution.checkpointing.interval": CHECKPOINT_EVERY,
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": job.checkpoint.as_uri(),
        "table.local-time-zone": "UTC",
        "table.exec.source.idle-timeout": "0",
        "io.tmp.dirs": str(job.scratch),
    }
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    environment = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    )
    for name in NAMES:
        environment.execute_sql(source(job, name))
    environment.execute_sql(sink(job))
    result = environment.execute_sql(f"INSERT INTO results {query(job.window_us)}")
    watch = Watch(f"http://localhost:{port}")
    watch.start()
    result.wait()
    watch.over.set()
    watch.join()
    rate, note = watch.rate(job)
    return Said(rate, job.rows_in, note)


def source(job: Job, name: str) -> str:
    """Declare a stream: its CSV file, its event time and a watermark of one second of slack."""
    return f"""CREATE TABLE {name} (ts BIGINT, k BIGINT, v BIGINT, t AS TO_TIMESTAMP_LTZ(ts / 1000, 3),
        WATERMARK FOR t AS t - INTERVAL '1' SECOND)
        WITH ('connector' = 'filesystem', 'path' = '{(job.csv / name).as_uri()}.csv', 'format' = 'csv')"""


def sink(job: Job) -> str:
    """Declare the results: CSV files."""
    columns = ", ".join(f"v_{x} BIGINT" for x in NAMES)
    options = f"'connector' = 'filesystem', 'path' = '{job.out.as_uri()}', 'format' = 'csv'"
    return f"CREATE TABLE results ({columns}) WITH ({options})"


def query(window_us: int) -> str:
    """Write the joins: an interval on `a`'s time for each, the other pairs by plain microseconds.

    >>> for part in query(10_000_000).splitlines()[2].split(" AND "):
    ...     print(part)
    JOIN c ON a.k = c.k
    a.t BETWEEN c.t - INTERVAL '10.001' SECOND(2, 3)
    c.t + INTERVAL '10.001' SECOND(2, 3)
    ABS(a.ts - c.ts) <= 10000000
    ABS(b.ts - c.ts) <= 10000000
    """
    millis = window_us // 1_000 + 1
    width = f"INTERVAL '{millis // 1_000}.{millis % 1_000:03}' SECOND(2, 3)"
    lines = ["SELECT " + ", ".join(f"{x}.v" for x in NAMES) + " FROM a"]
    for place, name in enumerate(NAMES[1:], start=1):
        exact = " AND ".join(f"ABS({x}.ts - {name}.ts) <= {window_us}" for x in NAMES[:place])
        near = f"a.t BETWEEN {name}.t - {width} AND {name}.t + {width}"
        lines.append(f"JOIN {name} ON a.k = {name}.k AND {near} AND {exact}")
    return "\n".join(lines)


class Watch(threading.Thread):
    """How many records the sources have handed on, and when: asked of Flink's own REST interface."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.seen: list[tuple[float, int]] = []
        self._address = address

    def run(self) -> None:
        """Look until the job is over."""
        while not self.over.wait(LOOK_EVERY_S):
            try:
                for job in self._ask("/jobs")["jobs"]:
                    vertices = self._ask(f"/jobs/{job['id']}")["vertices"]
                    records = sum(v["metrics"]["write-records"] for v in vertices if v["name"].startswith("Source"))
                    self.seen.append((time.perf_counter(), records))
            except (OSError, KeyError, ValueError):
                continue  # not up yet, or going down

    def rate(self, job: Job) -> tuple[float, str]:
        """Return records per second from the end of the warm-up to the end of the input, and a word about it."""
        rows = job.warm_up * job.batch_rows
        after = [(at, n) for at, n in self.seen if n >= rows]
        if not after:
            return 0.0, "Flink did not say how far it was"
        (began, first), (ended, last) = after[0], next(x for x in after if x[1] == after[-1][1])
        if ended <= began:
            started = self.seen[0][0]
            return last / (ended - started), "too short for a steady rate: start-up is included"
        return (last - first) / (ended - began), f"CSV; rate of the sources over the last {last - first:,} rows"

    def _ask(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(self._address + path, timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    serve(run)
