"""Kill it at an exact place; start it again; compare: nothing lost, nothing twice.

The rows that were written must be those of an undisturbed run. Their files need not be: a driver that dies after it has
noted which files there are to read, and before it has noted what its next micro-batch reads of them, reads more in that
one.
"""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark.killed import run_with_kills
from spark.live_query import SQL

import midstream as ms
from seeds import some

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = Path(__file__).with_name("live_query.py")
BATCHES, ROWS = 14, 200
DRIVER = (
    "event started:1", "sink pending:2", "sink half written:3", "sink written:2", "event stopped:1",
    "status.json pending:5", "batch noted:2", "sink half written:2",
)  # fmt: skip
"""Each start ends at the first of them that has not killed yet; some of them take turns."""
WORKERS = ("bucket opened:3", "part pending:2", "state pending:4", "state mapped:3", "bucket done:6")


def write_streams(folder: Path) -> dict[str, pa.Table]:
    """Write the files of all micro-batches, rows a little out of order; return the streams as recorded."""
    rng = np.random.default_rng(11)
    streams = {}
    for name in "abc":
        (folder / "in" / name).mkdir(parents=True)
        times = np.arange(BATCHES * ROWS) * 5_000 + rng.integers(0, 400_000, BATCHES * ROWS)
        table = pa.table({"ts": times, "k": rng.integers(0, 40, len(times)), "v": np.arange(len(times))})
        streams[name] = table
        for batch in range(BATCHES):
            file = folder / "in" / name / f"{batch:05d}.parquet"
            pq.write_table(table.slice(batch * ROWS, ROWS), file)
            os.utime(file, (1_000_000_000 + batch, 1_000_000_000 + batch))
    return streams


def output(folder: Path) -> list[tuple[int, ...]]:
    """Return the rows of all output files."""
    files = sorted((folder / "out").glob("*.parquet"))
    return sorted(row for f in files for row in zip(*pq.read_table(f).to_pydict().values(), strict=True))


def check_against_local(streams: dict[str, pa.Table], rows: list[tuple[int, ...]]) -> None:
    """Compare with the run in process, up to the rows that still wait at the end."""
    engine = ms.Engine()
    for name, table in streams.items():
        engine.stream(name, table, time="ts", lateness="500 ms")
    local = engine.query(SQL).start().table()
    released = max(row[-2] for row in rows)
    last = max(int(table["ts"].to_numpy().max()) for table in streams.values())
    assert released > last - 2_000_000, "only the rows of the end may wait"
    expected = [r for r in zip(*local.to_pydict().values(), strict=True) if r[-2] <= released]
    assert len(rows) > 1000
    same = rows == sorted(expected)  # nobody wants to read how thousands of rows differ
    assert same


@pytest.mark.parametrize("points", [tuple(some(DRIVER, 3)), WORKERS], ids=["driver", "workers"])
def test_kills_change_nothing(points: tuple[str, ...], tmp_path: Path) -> None:
    streams = write_streams(tmp_path)
    assert run_with_kills(SCRIPT, tmp_path, points=",".join(points)) == sorted(points)
    check_against_local(streams, output(tmp_path))
