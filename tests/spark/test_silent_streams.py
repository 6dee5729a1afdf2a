"""Live streams on Spark that fall silent, jump and hold others back: what leaves, what is set aside, what is said."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import midstream as ms
from midstream.live.checkpoint import Checkpoint
from midstream.live.reading import read

pytestmark = pytest.mark.spark

SQL = "SELECT a.ts AS x, b.ts AS y FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k"
SECOND, STEP = 1_000_000, 10_000
WILD = 4_000_000_000 * SECOND


class Files:
    """Streams that grow by a file each; a row's key follows from its time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[str, list[int]] = {"a": [], "b": []}
        for name in self.rows:
            (folder / name).mkdir(parents=True)

    def add(self, name: str, times: list[int], taken: bool = True) -> None:
        """Write a file; `taken`: its rows are to take part."""
        self.rows[name] += [t for t in times if t != WILD] if taken else []
        number = len(list((self.folder / name).iterdir()))
        file = self.folder / name / f"{number:05d}.parquet"
        values = np.array(times, np.int64)
        pq.write_table(pa.table({"ts": values, "k": values // STEP % 17}), file)
        os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))

    def engine(self, spark: Any, **idle: str) -> ms.Engine:
        engine = ms.Engine(spark)
        for name, spans in (("a", {"ahead": "1 hour"}), ("b", {"lateness": "30 seconds", **idle})):
            frame = spark.readStream.schema("ts long, k long").option("maxFilesPerTrigger", 1)
            engine.stream(name, frame.parquet(str(self.folder / name)), time="ts", **spans)
        return engine

    def expected(self, before_us: int) -> list[tuple[int, int]]:
        engine = ms.Engine()
        for name, times in self.rows.items():
            table = pa.table({"ts": times, "k": [t // STEP % 17 for t in times]})
            engine.stream(name, table, time="ts", lateness="30 seconds")
        return [pair for pair in pairs(engine.query(SQL).start().table()) if max(pair) < before_us]  # type: ignore


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(*(table.column(name).to_pylist() for name in ("x", "y")), strict=True))


def second(number: int) -> list[int]:
    return list(range(number * SECOND, (number + 1) * SECOND, STEP))


def test_a_silent_stream_and_a_row_far_ahead(tmp_path: Path, spark: Any) -> None:
    files = Files(tmp_path / "in")
    place = {"sink": tmp_path / "out", "checkpoint": tmp_path / "checkpoint", "trigger": {"availableNow": True}}

    def run(waiting: int = 10_000, **idle: str) -> dict[str, Any]:
        running = files.engine(spark, **idle).query(SQL, "silent").start(buckets=2, waiting=waiting, **place)
        with suppress(Exception):  # what it fails with is in the status
            assert running.wait(900)
        return running.status()

    for number in range(6):
        files.add("a", [*second(number), *([WILD] if number == 3 else [])])
        if number < 2:
            files.add("b", second(number))
    status = run(idle="2 seconds")
    batch = status["last_batch"]
    assert (status["state"], status["ahead"], status["late"], batch["waiting"]) == ("stopped", 1, 0, 1)
    assert (batch["silent"], batch["held_by"]) == (["b"], None)
    gone_on = second(5)[-1]
    assert batch["released_us"] == gone_on
    assert sorted(pairs(read(tmp_path / "out"))) == sorted(files.expected(gone_on))

    files.add("b", second(2), taken=False)  # the others have gone on
    files.add("a", second(6))
    files.add("b", second(6))
    files.add("a", second(7))
    status = run(idle="2 seconds")
    batch = status["last_batch"]
    assert (status["ahead"], status["late"], batch["silent"]) == (1, 100, [])
    assert (batch["held_by"]["stream"], batch["held_by"]["lag_us"]) == ("b", 31 * SECOND)
    assert batch["waiting"] == 301
    kept = [pq.read_table(file) for file in sorted((tmp_path / "checkpoint" / "late").iterdir())]
    assert sorted(t for table in kept for t in table.column("_time").to_pylist()) == [*second(2), WILD]

    for number in range(8, 11):
        files.add("a", second(number))
    status = run(waiting=450)
    assert status["state"] == "failed"
    assert status["error"].startswith("501 rows wait, and no more than 450 may: stream 'b' holds the others back by ")
    files.add("b", second(40))
    status = run(idle="2 seconds")
    assert (status["state"], status["late"]) == ("stopped", 100)
    events = [e["event"] for e in Checkpoint.existing(tmp_path / "checkpoint").events.all()]
    assert events.count("stream is silent") >= 1
    assert events.count("stream is back") >= 1
    assert sorted(pairs(read(tmp_path / "out"))) == sorted(files.expected(status["last_batch"]["released_us"]))
