"""Available-now with a change that was asked for before: it reads what is there, and the change comes to its end."""

import os
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from spark.test_live_changes import apart

import midstream as ms
from midstream.change.request import ChangeRequest
from midstream.live.change import prepare_change_to
from oracle.changes import METHODS
from oracle.live_scripts import LiveScript, draw_live
from oracle.test_changes import difference, run_engine
from seeds import some

pytestmark = pytest.mark.spark

SCHEMA = "ts long, k long, v long"


def draw(method: str, folder: Path) -> tuple[LiveScript, list[tuple[Any, ...]], dict[str, Any]]:
    """Draw a change that the first micro-batch reads and that is over before the end; return what it is in process."""
    for seed in range(1000):
        script = draw_live(random.Random(2_300_000 + 1000 * METHODS.index(method) + seed), [method], batches=4)
        if script.read == (0,) and len(script.streams) == 1 and not script.plans()[0].partitioning.one_bucket:
            rows, report = run_engine(script.case, folder)
            (record,) = report.changes
            times = [record[name] for name in ("first_result_us", "ended_us")]
            # The last row waits for another one.
            if None not in times and script.cuts[0] < max(times) < script.cuts[-3]:
                return script, rows, record
    raise AssertionError("nothing drawn")


def stage(script: LiveScript, folder: Path, batches: range) -> None:
    """Write the rows of some micro-batches, a file each."""
    for name in script.streams:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for batch in batches:
            file = folder / name / f"{batch:05d}.parquet"
            pq.write_table(script.table(name, batch), file)
            os.utime(file, (1_000_000_000 + batch, 1_000_000_000 + batch))


@pytest.mark.parametrize("method", some(METHODS, 1))
def test_a_change_asked_for_before_is_as_in_process(method: str, tmp_path: Path, spark: Any) -> None:
    (tmp_path / "in process").mkdir()
    script, expected, record = draw(method, tmp_path / "in process")
    engine = ms.Engine(spark)
    for name in script.streams:
        (tmp_path / "in" / name).mkdir(parents=True)
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in" / name))
        engine.stream(name, reader, time="ts")
    query = engine.query(script.case.first.sql, name="now")
    place = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint", "buckets": 3, "ordered": True}
    query.start(**place, trigger={"availableNow": True}).wait()  # nothing is there
    change = script.case.changes[0]
    name, _, order = method.partition("/")
    asked = ChangeRequest(change.query.sql, name, order or None, audit=True)
    prepare_change_to(tmp_path / "checkpoint", change.query.sql, asked).send()
    stage(script, tmp_path / "in", range(len(script.cuts)))
    run = query.start(**place, trigger={"availableNow": True})
    run.wait()
    assert run.status()["state"] == "stopped", run.status()["error"]
    files = sorted((tmp_path / "out").glob("*.parquet"))
    got = [tuple(row.values()) for file in files for row in pq.read_table(file).to_pylist()]
    released_us = run.status()["last_batch"]["released_us"]
    assert released_us == script.cuts[-1] - 1
    assert got == expected[: len(got)], f"{difference(got, expected)}{script}"
    assert [row for row in expected[len(got) :] if row[-2] < released_us] == [], str(script)
    assert not apart(run.changes(), [record]), f"{apart(run.changes(), [record])}{script}"
