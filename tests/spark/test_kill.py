"""Kill it in the middle; restart; compare: nothing lost, nothing twice.

Each kill is at a random moment: during start-up, inside a micro-batch, around its commit, or between two. The rows that
were written must be those of the undisturbed run. Their files need not be: a driver that dies after it has noted which
files there are to read, and before it has noted what its next micro-batch reads of them, reads more in that one.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import midstream as ms

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = Path(__file__).with_name("live_query.py")
BATCHES = 24
DRIVER_KILLS = 20
WORKER_KILLS = 10


def write_streams(folder: Path) -> dict[str, pa.Table]:
    """Write the files of all micro-batches, rows a little out of order; return the streams as recorded."""
    rng = np.random.default_rng(11)
    streams = {}
    for name in "abc":
        (folder / "in" / name).mkdir(parents=True)
        times = np.arange(BATCHES * 300) * 5_000 + rng.integers(0, 400_000, BATCHES * 300)
        table = pa.table({"ts": times, "k": rng.integers(0, 40, len(times)), "v": np.arange(len(times))})
        streams[name] = table
        for batch in range(BATCHES):
            file = folder / "in" / name / f"{batch:05d}.parquet"
            pq.write_table(table.slice(batch * 300, 300), file)
            os.utime(file, (1_000_000_000 + batch, 1_000_000_000 + batch))
    return streams


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(SCRIPT), str(folder)]
    with open(folder / "log", "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the driver, its JVM and its workers: all of the session this test started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the Python workers of a driver, found by session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == process.pid and b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except (OSError, ProcessLookupError):
                continue
    return found


def finish(folder: Path, limit_s: float = 300) -> None:
    process = start(folder)
    try:
        code = process.wait(limit_s)
    finally:
        if process.poll() is None:
            end_group(process)
    assert code == 0, (folder / "log").read_text()[-3000:]


def output(folder: Path) -> list[tuple[int, ...]]:
    """Return the rows of all output files."""
    files = sorted((folder / "out").glob("*.parquet"))
    return sorted(row for f in files for row in zip(*pq.read_table(f).to_pydict().values(), strict=True))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, ...]]:
    folder = tmp_path_factory.mktemp("undisturbed")
    streams = write_streams(folder)
    finish(folder)
    found = output(folder)
    check_against_local(streams, found)
    return found


def check_against_local(streams: dict[str, pa.Table], rows: list[tuple[int, ...]]) -> None:
    """The undisturbed run itself equals the in-process runtime, up to the rows that still wait at its end."""
    sys.path.insert(0, str(SCRIPT.parent))
    from live_query import SQL

    engine = ms.Engine()
    for name, table in streams.items():
        engine.stream(name, table, time="ts", lateness="500 ms")
    local = engine.query(SQL).start().table()
    released = max(row[-2] for row in rows)
    expected = [r for r in zip(*local.to_pydict().values(), strict=True) if r[-2] <= released]
    assert len(rows) > 1000
    same = rows == sorted(expected)
    assert same


def test_killing_the_driver_changes_nothing(tmp_path: Path, undisturbed: list[tuple[int, ...]]) -> None:
    rnd = random.Random(5)
    kills, rounds = 0, 0
    while kills < DRIVER_KILLS:
        folder = tmp_path / str(rounds)
        folder.mkdir()
        write_streams(folder)
        rounds += 1
        while kills < DRIVER_KILLS:
            process = start(folder)
            try:
                process.wait(rnd.uniform(4, 15))
                break  # it came to its end before the kill
            except subprocess.TimeoutExpired:
                end_group(process)
                kills += 1
        finish(folder)
        same = output(folder) == undisturbed  # nobody wants to read how millions of rows differ
        assert same, f"after {kills} kills"


def test_killing_workers_changes_nothing(tmp_path: Path, undisturbed: list[tuple[int, ...]]) -> None:
    write_streams(tmp_path)
    rnd = random.Random(6)
    process, killed = start(tmp_path), 0
    deadline = time.time() + 240
    try:
        while process.poll() is None and killed < WORKER_KILLS and time.time() < deadline:
            time.sleep(rnd.uniform(0.2, 1.5))
            workers = workers_of(process)
            if len(workers) > 1:  # the first one forks the others
                os.kill(rnd.choice(sorted(workers)[1:]), signal.SIGKILL)
                killed += 1
        process.wait(300)
    finally:
        if process.poll() is None:
            end_group(process)
    if process.returncode != 0:
        finish(tmp_path)
    assert killed >= 3
    same = output(tmp_path) == undisturbed
    assert same, f"after {killed} kills"
