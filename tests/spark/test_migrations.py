"""Migrations on Spark: the same output as recomputing, live, and from another process."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import midstream as ms
from midstream.model.errors import PlanError
from oracle.test_moved_states import rows_between  # noqa: F401 - used by the runs compared with

pytestmark = pytest.mark.spark

BATCHES = 20


def write_streams(folder: Path, names: str, seconds: float, batches: int) -> dict[str, pa.Table]:
    """Write the files of all micro-batches; return the streams as recorded."""
    rng = np.random.default_rng(12)
    streams = {}
    for name in names:
        (folder / "in" / name).mkdir(parents=True)
        times = np.sort(rng.integers(0, int(batches * seconds * 1e6), batches * 300))
        table = pa.table({"ts": times, "k": rng.integers(0, 900, len(times)), "v": np.arange(len(times))})
        streams[name] = table
        for batch in range(batches):
            file = folder / "in" / name / f"{batch:05d}.parquet"
            pq.write_table(table.slice(batch * 300, 300), file)
            os.utime(file, (1_000_000_000 + batch, 1_000_000_000 + batch))
    return streams


def expected_rows(streams: dict[str, pa.Table], sql: str) -> list[tuple[int, ...]]:
    engine = ms.Engine()
    for name, table in streams.items():
        engine.stream(name, table, time="ts")
    return sorted(zip(*engine.query(sql).start().table().to_pydict().values(), strict=True))


def written_rows(folder: Path) -> list[tuple[int, ...]]:
    files = sorted((folder / "out").glob("*.parquet"))
    return sorted(row for f in files for row in zip(*pq.read_table(f).to_pydict().values(), strict=True))


LIVE = """SELECT a.v AS va, b.v AS vb, c.v AS vc FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS], c [RANGE 3 SECONDS]
WHERE a.k = b.k AND b.k = c.k"""


def test_a_running_query_is_migrated_by_the_engine_and_from_another_process(tmp_path: Path, spark) -> None:
    streams = write_streams(tmp_path, "abc", seconds=0.5, batches=BATCHES)
    engine = ms.Engine(spark)
    for name in "abc":
        reader = spark.readStream.schema("ts long, k long, v long").option("maxFilesPerTrigger", 1)
        engine.stream(name, reader.parquet(str(tmp_path / "in" / name)), time="ts")
    query = engine.query(LIVE, name="live", plan="((a b) c)")
    run = query.start(tmp_path / "out", tmp_path / "checkpoint", buckets=2)
    try:
        with pytest.raises(PlanError, match="leaves out 'c'"):
            run.migrate("(a b)")
        with pytest.raises(PlanError, match="no option 'colour'"):
            run.migrate("(a (b c))", "hybrid", colour="blue")
        wait_for(lambda: run.status().get("rows_in", 0) > 1500)
        same = run.migrate("((a b) c)", "hybrid")
        first = run.migrate("(a (b c))", "hybrid", background=True)
        second = run.migrate("((a c) b)", "just-in-time")
        assert run.wait_for_migration(same)["state"] == "no-op"
        assert run.wait_for_migration(first)["state"] == "finished"
        done = midstream("migrate", str(tmp_path / "checkpoint"), "((b c) a)", "--strategy", "moving-state")
        assert done.returncode == 0, done.stderr
        assert "finished" in done.stdout
        assert "states matched" in done.stdout
        refused = midstream("migrate", str(tmp_path / "checkpoint"), "((b x) a)")
        assert refused.returncode == 2
        assert "'x', which is no alias" in refused.stderr
        wait_for(lambda: run.status()["rows_in"] + run.status()["last_batch"]["waiting"] >= BATCHES * 900)
        assert run.wait_for_migration(second, 120) is not None
        assert run.status()["plan"] == "((b c) a)"
        assert "(b c)" in run.explain().replace("b, c", "(b c)")
    finally:
        run.stop(drain=True)
    assert written_rows(tmp_path) == expected_rows(streams, LIVE)
    told = [(e["plan"], e["state"]) for e in run.events() if e["event"] == "migration"]
    assert ("((b c) a)", "finished") in told
    # What was migrated stays migrated: the checkpoint knows the plan.
    again = engine.query(LIVE, name="live", plan="((a b) c)").start(
        tmp_path / "out", tmp_path / "checkpoint", buckets=2
    )
    try:
        again.snapshot()
        wait_for(lambda: any(e["event"] == "statistics" for e in again.events()))
        assert again.status()["plan"] == "((b c) a)"
    finally:
        again.stop()


MEDIANS = f"""SELECT k, MEDIAN(vc) AS m, COUNT(*) AS n FROM (
  SELECT a.k AS k, c.v AS vc FROM {LIVE.partition(" FROM ")[2]}) [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k"""


def test_a_running_pipeline_is_replaced_whole(tmp_path: Path, spark) -> None:
    streams = write_streams(tmp_path, "abc", seconds=0.5, batches=BATCHES)
    engine = ms.Engine(spark)
    for name in "abc":
        reader = spark.readStream.schema("ts long, k long, v long").option("maxFilesPerTrigger", 1)
        engine.stream(name, reader.parquet(str(tmp_path / "in" / name)), time="ts")
    query = engine.query(MEDIANS, name="medians", plan="((a b) c)")
    run = query.start(tmp_path / "out", tmp_path / "checkpoint", buckets=2)
    try:
        wait_for(lambda: run.status().get("rows_in", 0) > 1500)
        first = run.migrate("(a (b c))", "general-hybrid", rows=300)
        second = run.migrate("((a c) b)", "general-moving-state")
        hybrid, moving = (run.wait_for_migration(asked, 300) for asked in (first, second))
        assert (hybrid["state"], moving["state"]) == ("finished", "finished")
        assert hybrid["rows_old"] > 300
        assert hybrid["batches"] > 1
        assert moving["predicted"]["rows"] > 0
        wait_for(lambda: run.status()["rows_in"] + run.status()["last_batch"]["waiting"] >= BATCHES * 900)
        assert run.status()["plan"] == "((a c) b)"
    finally:
        run.stop(drain=True)
    assert written_rows(tmp_path) == expected_rows(streams, MEDIANS)


def midstream(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from midstream.app.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def wait_for(condition, limit_s: float = 180) -> None:
    deadline = time.time() + limit_s
    while not condition():
        assert time.time() < deadline, "it never happened"
        time.sleep(0.1)
