"""Query change on Spark: replayed, live, from another process and through crashes, the same output as in process."""

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark.test_live import wait_until
from spark.test_migrations import midstream

import midstream as ms

pytestmark = pytest.mark.spark

FIRST = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 4 SECONDS SLIDE 500 MILLISECONDS] GROUP BY k"
SECOND = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] WHERE v % 2 = 0 GROUP BY k"
ROWS = 200


def written(folder: Path) -> list[tuple[Any, ...]]:
    files = sorted((folder / "out").glob("*.parquet"))
    return [row for f in files for row in zip(*pq.read_table(f).to_pydict().values(), strict=True)]


class Growing:
    """A stream that grows by a file of about a second."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "in" / "s"
        self.folder.mkdir(parents=True)
        self.rng = np.random.default_rng(8)
        self.tables: list[pa.Table] = []

    def grow(self) -> None:
        number = len(self.tables)
        times = number * 1_000_000 + np.sort(self.rng.choice(1_000_000, ROWS, replace=False))
        table = pa.table({"ts": times, "k": self.rng.integers(0, 7, ROWS), "v": self.rng.integers(0, 100, ROWS)})
        pending = self.folder.parent / "pending"
        pq.write_table(table, pending)
        os.utime(pending, (1_000_000_000 + number, 1_000_000_000 + number))  # Spark takes files in order of their age
        os.replace(pending, self.folder / f"{number:05d}.parquet")
        self.tables.append(table)

    @property
    def rows(self) -> int:
        return ROWS * len(self.tables)


def read_rows(run: Any) -> int:
    status = run.status()
    return int(status.get("rows_in", 0)) + int((status.get("last_batch") or {}).get("waiting", 0))


def count_asked(run: Any) -> int:
    return sum(e["event"] == "change asked" for e in run.events())


OTHER = "SELECT k, MAX(v) AS most FROM s [ROWS 5 SLIDE 2 PARTITION BY k] GROUP BY k"


def test_a_running_query_is_changed_by_the_engine_and_from_another_process(tmp_path: Path, spark: Any) -> None:
    stream = Growing(tmp_path)
    for _ in range(2):
        stream.grow()
    reader = spark.readStream.schema("ts long, k long, v long").option("maxFilesPerTrigger", 1)
    engine = ms.Engine(spark).stream("s", reader.parquet(str(stream.folder)), time="ts")
    place = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint", "buckets": 2, "ordered": True}
    run = engine.query(FIRST, name="live").start(**place, trigger={"processingTime": "200 milliseconds"})
    checkpoint = str(tmp_path / "checkpoint")
    try:
        wait_until(lambda: read_rows(run) >= stream.rows)
        refused = midstream("change", checkpoint, OTHER, "--method", "immediate")
        assert refused.returncode == 2
        assert "most" in refused.stderr
        assert "--allow-schema-change" in refused.stderr or "allow_schema_change" in refused.stderr
        asked = run.change(SECOND, "drain", "query")
        wait_until(lambda: count_asked(run) > 0)
        for _ in range(7):
            stream.grow()
        first = run.wait_for_change(asked)
        assert first is not None
        assert (first["state"], first["to_version"]) == ("finished", 2)
        assert midstream("control", checkpoint, "abort").returncode != 0, "nothing is under way"
        asked_before = count_asked(run)
        # The change takes effect at a row that comes after it was asked for, however long the command takes to start.
        growing = threading.Thread(target=lambda: (wait_until(lambda: count_asked(run) > asked_before), stream.grow()))
        growing.start()
        changed = midstream("change", checkpoint, OTHER, "--method", "immediate", "--allow-schema-change")
        growing.join()
        assert changed.returncode == 0, changed.stderr + changed.stdout
        stream.grow()
        wait_until(lambda: run.status()["version"] == 3 and read_rows(run) >= stream.rows)
        assert "version" in midstream("status", checkpoint).stdout
    finally:
        run.stop(drain=True)
    records = [e for e in run.events() if e["event"] == "change" and e["state"] == "finished"]
    assert [r["to_version"] for r in records] == [2, 3]
    local = ms.Engine().stream("s", pa.concat_tables(stream.tables), time="ts").query(FIRST).start(paused=True)
    local.advance(records[0]["position_us"]).change(SECOND, "drain", "query")
    local.advance(records[1]["position_us"]).change(OTHER, "immediate", allow_schema_change=True)
    expected = [tuple(v for v in row.values() if v is not None) for row in local.finish().table().to_pylist()]
    assert written(tmp_path) == expected
    # The checkpoint goes on with the version that ran, whatever version the program names.
    again = engine.query(FIRST, name="live").start(**place, trigger={"availableNow": True})
    again.wait()
    assert again.status()["version"] == 3
