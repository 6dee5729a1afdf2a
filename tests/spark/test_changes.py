"""Query change on Spark: replayed, live, from another process and through crashes, the same output as in process."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark.live_changes import FIRST, ROWS, SECOND

import midstream as ms
from oracle.changes import METHODS
from oracle.test_changes import check, draw_case

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("live_changes.py")
BATCHES = 16


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", METHODS)
def test_a_drawn_change_is_as_defined(
    method: str, seed: int, tmp_path: Path, spark: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    import oracle.test_changes as drawn

    rnd = random.Random(900_000 + seed * 10 + METHODS.index(method))
    case = draw_case(rnd, method)
    while not 2 <= len({r.time // case.batch_us for rows in case.rows.values() for r in rows}) <= 8:
        case = draw_case(rnd, method)
    prepare = drawn.prepare
    monkeypatch.setattr(drawn, "prepare", lambda scenario: prepare(ms_replace(scenario, runtime="spark")))
    check(case, tmp_path)


def ms_replace(scenario: Any, **more: Any) -> Any:
    from dataclasses import replace

    return replace(scenario, **more)


def write_stream(folder: Path) -> pa.Table:
    """Write the files of all micro-batches; return the stream as recorded."""
    rng = np.random.default_rng(5)
    (folder / "in" / "s").mkdir(parents=True)
    times = np.sort(rng.choice(BATCHES * 1_000_000, BATCHES * ROWS, replace=False))
    table = pa.table({"ts": times, "k": rng.integers(0, 7, len(times)), "v": rng.integers(0, 100, len(times))})
    for batch in range(BATCHES):
        file = folder / "in" / "s" / f"{batch:05d}.parquet"
        pq.write_table(table.slice(batch * ROWS, ROWS), file)
        os.utime(file, (1_000_000_000 + batch, 1_000_000_000 + batch))
    return table


def expected(table: pa.Table, method: str, order: str, position_us: int) -> list[tuple[Any, ...]]:
    """Return what the same change gives in process, at the position it had."""
    engine = ms.Engine().stream("s", table, time="ts")
    run = engine.query(FIRST).start(paused=True, batch="10 seconds")
    run.advance(position_us)
    run.change(SECOND, method, order or None)
    out = run.finish().table()
    return list(zip(*out.to_pydict().values(), strict=True))


def written(folder: Path) -> list[tuple[Any, ...]]:
    files = sorted((folder / "out").glob("*.parquet"))
    return [row for f in files for row in zip(*pq.read_table(f).to_pydict().values(), strict=True)]


def changes_told(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "checkpoint" / "events.jsonl").read_text().splitlines()
    return [e for e in map(json.loads, lines) if e["event"] == "change" and "state" in e]


def changing(folder: Path) -> bool:
    try:
        status = json.loads((folder / "checkpoint" / "status.json").read_text())
    except (FileNotFoundError, ValueError):
        return False
    return bool(status.get("changes"))


def start(folder: Path, method: str, order: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(SCRIPT), str(folder), method, order]
    with open(folder / "log", "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_change_survives_being_killed(method: str, tmp_path: Path) -> None:
    name, _, order = method.partition("/")
    table = write_stream(tmp_path)
    process = start(tmp_path, name, order)
    deadline = time.time() + 120
    # An immediate change is over before anyone can look.
    asked = tmp_path / "checkpoint" / "versions" / "0002.version"
    while not (asked.exists() if name == "immediate" else changing(tmp_path)):
        assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
        assert time.time() < deadline, "it never changed"
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    again = start(tmp_path, name, order)
    assert again.wait(180) == 0, (tmp_path / "log").read_text()[-2000:]
    told = changes_told(tmp_path)[-1]
    assert told["state"] == "finished", told
    assert written(tmp_path) == expected(table, name, order, told["position_us"])
