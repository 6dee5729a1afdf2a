"""Differences on Spark: the same changes in the same order, replayed and live, through restarts and migrations."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark.test_live import Files, wait_until

import midstream as ms

pytestmark = pytest.mark.spark


SQL = """SELECT k FROM a [RANGE 200 MILLISECONDS]
EXCEPT SELECT k FROM b [ROWS 9]
EXCEPT SELECT k FROM b [RANGE 20 MILLISECONDS] c WHERE v % 2 = 0"""


def changes_of(table: pa.Table) -> list[tuple[int, ...]]:
    return list(zip(*(table.column(n).to_pylist() for n in ("k", "_time", "_version", "_sign")), strict=True))


@pytest.mark.parametrize("ordered", [True, False])
def test_a_live_difference_goes_on_after_a_restart_and_migrates(ordered: bool, tmp_path: Path, spark: object) -> None:
    files = Files(tmp_path)
    files.grow(300_000)
    files.grow(300_000)
    query = files.engine(spark, "300 ms").query(SQL, name="difference")
    place = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint", "buckets": 2, "ordered": ordered}
    query.start(**place, trigger={"availableNow": True}).wait()
    run = query.start(**place, trigger={"processingTime": "200 milliseconds"})
    files.grow(300_000)
    wait_until(lambda: run.status()["rows_in"] > 2 * 400)
    asked = run.migrate("((a c) b)")
    files.grow(300_000)
    wait_until(lambda: str(run.running_plan()) == "((a c) b)")
    files.grow(300_000)
    found = run.wait_for_migration(asked)
    assert found is not None
    assert (found["state"], found["strategy"]) == ("finished", "just-in-time")
    wait_until(
        lambda: run.status()["rows_in"] + run.status()["last_batch"]["waiting"] >= 5 * 400
    )  # a drain reads no more
    run.stop(drain=True)
    got = [row for file in sorted((tmp_path / "out").glob("*.parquet")) for row in changes_of(pq.read_table(file))]
    engine = ms.Engine()
    for name, tables in files.written.items():
        engine.stream(name, pa.concat_tables(tables), time="ts", lateness="300 ms")
    expected = changes_of(engine.query(SQL).start().table())
    assert len(got) > 300
    assert got == expected
    assert any(e["event"] == "rebuilt" for e in run.events()), "the second run began from the durable rows"
