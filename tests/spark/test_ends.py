"""How runs end: stopped as often as anybody likes, by any clock, and dead ones never look alive."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from spark.test_live import SQL, Files, rows_of, wait_until

import midstream as ms
from midstream.engine.world import World
from midstream.live.checkpoint import Checkpoint
from midstream.live.control_log import ControlLog
from midstream.live.run import EndOfRun
from midstream.local.disk import Disk, RandomNames, SystemClock

pytestmark = pytest.mark.spark


LONG_S = 900.0
"""On a machine that has other things to do, too."""


class Behind(SystemClock):
    """A clock that has stepped back by a year."""

    def now_ns(self) -> int:
        return super().now_ns() - 365 * 86_400 * 10**9


def batches(run: Any) -> int:
    """Return the number of the last micro-batch, -1 before the first."""
    return int((run.status().get("last_batch") or {}).get("batch", -1))


def ended(run: Any) -> str:
    """Return how a run has ended; the one reason for which Spark may have given up is that the run was over."""
    failure = run._query.exception()
    assert not run.lives()
    assert not run._query.isActive
    assert failure is None or EndOfRun.__name__ in str(failure), str(failure)[:2000]
    return str(run.status()["state"])


def test_runs_with_more_to_read_are_stopped_cleanly(tmp_path: Path, spark: Any) -> None:
    files = Files(tmp_path)
    for _ in range(40):
        files.grow()
    query = files.engine(spark).query(SQL, name="stopped")
    place = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint", "buckets": 2}
    outside = ControlLog(tmp_path / "checkpoint" / "control", World(Disk(), Behind(), RandomNames()))
    states = []
    for how in ("stop", "stop", "outside", "drain"):
        run = query.start(**place)
        before = batches(run)
        wait_until(lambda: batches(run) > before, LONG_S)  # noqa: B023 - run at once
        if how == "outside":
            row = outside.send("stop", run=run.runs.latest)
            old = 1_000_000_000
            os.utime(outside.folder / f"{row}.json", (old, old))
            assert run.wait(LONG_S)
        else:
            run.stop(drain=how == "drain", timeout_s=LONG_S)
        states.append(ended(run))
    assert states == ["stopped"] * 4
    found = [e["event"] for e in run.events() if e["event"] in ("started", "stopped", "failed")]
    assert found == ["started", "stopped"] * 4


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of a few megabytes, where this process may."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def fill(file: Path) -> None:
    """Write into a file until there is no room for more."""
    with open(file, "wb", buffering=0) as held, contextlib.suppress(OSError):
        while held.write(b"x" * 1024):
            pass


def test_a_query_that_a_full_disk_has_ended_does_not_look_alive(tmp_path: Path, small_disk: Path, spark: Any) -> None:
    files = Files(tmp_path)
    files.grow()
    query = files.engine(spark).query(SQL, name="without room")
    place = {"sink": tmp_path / "out", "checkpoint": small_disk / "checkpoint", "buckets": 2}
    run = query.start(**place)
    wait_until(lambda: batches(run) >= 0, LONG_S)
    ballast = small_disk / "ballast"
    fill(ballast)
    files.grow()
    with pytest.raises(ms.MidstreamError, match="No space left on device"):
        run.wait(LONG_S)
    checkpoint = Checkpoint.existing(small_disk / "checkpoint")
    assert not checkpoint.taken
    assert checkpoint.read_status()["state"] in ("failed", "died")
    ballast.unlink()
    files.grow()
    again = query.start(**place)
    wait_until(lambda: again.status()["rows_in"] + again.status()["last_batch"]["waiting"] >= 3 * 2 * 200, LONG_S)
    again.stop(drain=True, timeout_s=LONG_S)
    assert ended(again) == "stopped"
    assert sorted(rows_of(ms.read(tmp_path / "out"))) == sorted(files.expected())


STOPPED = """
import sys
import midstream as ms
from midstream.spark.settings import local_session

spark = local_session()
frame = spark.readStream.schema("ts long, k long").parquet(sys.argv[1])
query = ms.Engine(spark).stream("a", frame, time="ts").query("SELECT k FROM a")
run = query.start("out", "checkpoint", buckets=1)
spark.stop()
try:
    run.wait(300)
except ms.MidstreamError as error:
    print(error)
print(run.status()["state"])
for more in ({}, {"buckets": 1}):
    try:
        query.start("out", "checkpoint", **more)
    except ms.MidstreamError as error:
        print(error)
"""


def test_a_query_whose_session_was_stopped_while_it_waited_for_rows_has_failed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, tmp_path / "in"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    stopped = "the Spark session was stopped; make an engine with a new one"
    assert done.stdout.splitlines()[-4:] == [
        f"query 'query' failed: Spark is gone: {stopped}", "failed", stopped, stopped,
    ], done.stderr[-2000:]  # fmt: skip
