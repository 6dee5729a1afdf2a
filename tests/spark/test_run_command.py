"""`midstream run` as people use it: a process over folders of files, watched and stopped from another one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import midstream as ms
from midstream.live.checkpoint import Checkpoint

pytestmark = pytest.mark.spark

COMMAND = str(Path(sys.executable).with_name("midstream"))

SQL = "SELECT a.k, a.v AS x, b.v AS y FROM a [RANGE 2 SECONDS], b [RANGE 1 SECOND] WHERE a.k = b.k"
PIPELINE = """
name = "pairs"
query = "q.sql"
checkpoint = "state/checkpoint"
[streams.a]
format = "parquet"
time = "ts"
schema = "ts BIGINT, k BIGINT, v BIGINT"
lateness = "100 ms"
options = { path = "in/a" }
[streams.b]
format = "parquet"
time = "ts"
schema = "ts BIGINT, k BIGINT, v BIGINT"
lateness = "100 ms"
[streams.b.options]
path = "in/b"
[sink]
format = "folder"
path = "out"
[run]
buckets = 2
cores = 2
ordered = true
"""


def midstream(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *argv], capture_output=True, text=True, timeout=300)


class Live:
    """A pipeline in a folder, its streams, and the processes that run it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoint = str(folder / "state/checkpoint")
        self.streams: dict[str, list[pa.Table]] = {"a": [], "b": []}
        self.processes: list[subprocess.Popen[str]] = []
        for name in self.streams:
            (folder / "in" / name).mkdir(parents=True)
        (folder / "q.sql").write_text(SQL)

    def add_rows(self) -> None:
        """Write a file of each stream: a second of rows, a little out of order."""
        for name, tables in self.streams.items():
            rng = np.random.default_rng(len(tables) + ord(name))
            times = len(tables) * 1_000_000 + np.arange(1000) * 1000 + rng.integers(0, 90_000, 1000)
            tables.append(pa.table({"ts": times, "k": rng.integers(0, 200, 1000), "v": rng.integers(0, 9999, 1000)}))
            pending = self.folder / "in" / name / f".{len(tables)}"
            pq.write_table(tables[-1], pending)
            os.replace(pending, self.folder / "in" / name / f"{len(tables)}.parquet")

    def start(self, trigger: str) -> subprocess.Popen[str]:
        (self.folder / "pipeline.toml").write_text(PIPELINE + f'trigger = "{trigger}"\n')
        process = subprocess.Popen(
            [COMMAND, "run", str(self.folder / "pipeline.toml")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def status(self) -> dict[str, object]:
        told = midstream("status", self.checkpoint, "--json")
        return json.loads(told.stdout) if told.returncode == 0 else {}

    def wait_until_read(self, process: subprocess.Popen[str]) -> None:
        rows = sum(t.num_rows for tables in self.streams.values() for t in tables)
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and process.poll() is None:
            told = Checkpoint(Path(self.checkpoint)).read_status()
            batch = told.get("last_batch")
            if told.get("state") == "running" and batch and told["rows_in"] + batch["waiting"] == rows:
                return
            time.sleep(0.3)
        raise AssertionError(f"not read: {self.status()} {process.poll()}")

    def results(self) -> list[tuple[int, ...]]:
        files = sorted((self.folder / "out").glob("*.parquet"))
        tables = [pq.read_table(f) for f in files]
        return [r for t in tables for r in zip(*t.to_pydict().values(), strict=True)]

    def recomputed(self) -> list[tuple[int, ...]]:
        engine = ms.Engine()
        for name, tables in self.streams.items():
            engine.stream(name, pa.concat_tables(tables), time="ts", lateness="100 ms")
        return list(zip(*engine.query(SQL).start().table().to_pydict().values(), strict=True))


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    made = Live(tmp_path)
    yield made
    for process in made.processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_available_now_reads_what_is_there_and_ends(live: Live) -> None:
    live.add_rows()
    live.add_rows()
    process = live.start("available-now")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "batch 0: " in out
    assert "pairs stopped: " in err
    told = live.status()
    assert (told["state"], told["late"]) == ("stopped", 0)
    waiting = told["last_batch"]["waiting"]
    assert waiting > 0  # rows whose time has not come yet stay in the checkpoint
    assert told["rows_in"] + waiting == 4000
    results, position = live.results(), told["last_batch"]["released_us"]
    assert Counter(results) == Counter(r for r in live.recomputed() if r[-2] < position)
    assert [r[-2] for r in results] == sorted(r[-2] for r in results)
    assert len(results) == told["rows_out"] > 1000


def test_a_run_is_watched_stopped_and_drained_from_outside(live: Live) -> None:
    live.add_rows()
    process = live.start("200 ms")
    live.wait_until_read(process)
    told = midstream("snapshot", live.checkpoint)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["event"] == "statistics"
    assert "pairs: running" in midstream("status", live.checkpoint).stdout
    stopped = midstream("stop", live.checkpoint)
    assert stopped.returncode == 0, stopped.stderr
    assert stopped.stdout.startswith("pairs stopped: ")
    assert "wait in the checkpoint" in stopped.stdout
    assert process.wait(120) == 0
    assert midstream("stop", live.checkpoint).returncode == 2

    live.add_rows()
    process = live.start("200 ms")
    live.wait_until_read(process)
    drained = midstream("stop", live.checkpoint, "--drain")
    assert drained.returncode == 0, drained.stderr
    assert "drained" in drained.stdout
    assert process.wait(120) == 0
    assert Counter(live.results()) == Counter(live.recomputed())
    assert [e["event"] for e in live.status()["events"]][-2:] == ["drain", "stopped"]
