"""Live queries on Spark: arrival in any order, restart, control from outside, sinks, refusals."""

import os
import random
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import midstream as ms
from midstream.live.checkpoint import Checkpoint

pytestmark = pytest.mark.spark

SQL = "SELECT a.v AS va, b.v AS vb FROM a [RANGE 2 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k AND a.v <> b.v"
ROWS, BATCHES = 200, 5


class Files:
    """Streams that grow by one file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: dict[str, list[pa.Table]] = {"a": [], "b": []}
        self.rng = np.random.default_rng(3)
        for name in self.written:
            (folder / "in" / name).mkdir(parents=True)

    def grow(self, disorder_us: int = 0) -> None:
        """Write the next second of rows of each stream."""
        for name, tables in self.written.items():
            number = len(tables)
            times = number * 1_000_000 + np.sort(self.rng.integers(0, 1_000_000, ROWS))
            times -= self.rng.integers(0, disorder_us + 1, ROWS)
            table = pa.table({"ts": times, "k": self.rng.integers(0, 20, ROWS), "v": np.arange(ROWS) + number * ROWS})
            pending = self.folder / f"{name}.pending"
            pq.write_table(table, pending)
            os.utime(pending, (1_000_000_000 + number, 1_000_000_000 + number))
            os.replace(pending, self.folder / "in" / name / f"{number:05d}.parquet")
            tables.append(table)

    def engine(self, spark, lateness: str = "0 s") -> ms.Engine:
        engine = ms.Engine(spark)
        for name in self.written:
            reader = spark.readStream.schema("ts long, k long, v long").option("maxFilesPerTrigger", 1)
            engine.stream(name, reader.parquet(str(self.folder / "in" / name)), time="ts", lateness=lateness)
        return engine

    def expected(self, lateness: str = "0 s") -> list[tuple[int, ...]]:
        """Return the in-process results over everything written."""
        engine = ms.Engine()
        for name, tables in self.written.items():
            engine.stream(name, pa.concat_tables(tables), time="ts", lateness=lateness)
        return rows_of(engine.query(SQL).start().table())


def rows_of(table: pa.Table) -> list[tuple[int, ...]]:
    return list(zip(*(table.column(n).to_pylist() for n in ("va", "vb", "_time")), strict=True))


def out_rows(folder: Path) -> list[tuple[int, ...]]:
    files = sorted((folder / "out").glob("*.parquet"))
    return [row for f in files for row in rows_of(pq.read_table(f))]


def wait_until(condition, limit_s: float = 180) -> None:
    deadline = time.time() + limit_s
    while not condition():
        assert time.time() < deadline, "it never happened"
        time.sleep(0.1)


def test_a_driver_killed_while_it_wrote_its_first_offsets_can_start_again(tmp_path: Path, spark) -> None:
    files = Files(tmp_path)
    for _ in range(3):
        files.grow()
    offsets = tmp_path / "checkpoint" / "spark" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.5f3c.tmp").write_text("v1\n")  # what such a driver leaves
    (offsets / "..0.5f3c.tmp.crc").write_bytes(b"crc")
    job = files.engine(spark).query(SQL).start
    run = job(tmp_path / "out", tmp_path / "checkpoint", buckets=2, ordered=True, trigger={"availableNow": True})
    run.wait()
    assert run.status()["state"] == "stopped", run.status()["error"]
    got = out_rows(tmp_path)
    assert len(got) > 100
    assert got == files.expected()[: len(got)]


@pytest.mark.parametrize("disorder_us", [0, 300_000])
def test_output_is_in_max_order_and_goes_on_after_a_restart(disorder_us: int, tmp_path: Path, spark) -> None:
    files = Files(tmp_path)
    lateness = f"{disorder_us} us"
    for part in range(3):
        for _ in range(2):
            files.grow(disorder_us)
        run = (
            files.engine(spark, lateness)
            .query(SQL, name="ordered")
            .start(tmp_path / "out", tmp_path / "checkpoint", buckets=3, ordered=True, trigger={"availableNow": True})
        )
        run.wait()
        assert run.status()["state"] == "stopped", part
    got = out_rows(tmp_path)
    expected = files.expected(lateness)
    assert len(got) > 100
    assert got == expected[: len(got)], "what is emitted is the beginning of the one sequence"
    assert [r for r in expected[len(got) :] if r[2] < run.status()["last_batch"]["released_us"]] == []
    assert run.status()["rows_out"] == len(got)


def test_a_drain_from_outside_gives_out_everything(tmp_path: Path, spark) -> None:
    from midstream.live.checkpoint import Checkpoint

    files = Files(tmp_path)
    files.grow()
    query = files.engine(spark, "5 s").query(SQL, name="drained")
    run = query.start(
        tmp_path / "out", tmp_path / "checkpoint", buckets=2, trigger={"processingTime": "200 milliseconds"}
    )
    wait_until(lambda: (run.status().get("last_batch") or {}).get("waiting"))
    files.grow()
    wait_until(lambda: run.status()["last_batch"]["waiting"] >= 4 * ROWS)
    assert out_rows(tmp_path) == []
    outside = Checkpoint.existing(tmp_path / "checkpoint")
    outside.controls.send("snapshot")
    wait_until(lambda: any(e["event"] == "statistics" for e in outside.events.all()))
    outside.controls.send("drain")
    assert run.wait(180)
    assert sorted(out_rows(tmp_path)) == sorted(files.expected("5 s"))
    assert run.status()["state"] == "stopped"
    drained = [e for e in run.events() if e["event"] == "drain"]
    assert len(drained) == 1


def test_late_rows_are_counted_and_kept(tmp_path: Path, spark, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path)
    for _ in range(4):
        files.grow(disorder_us=400_000)
    checkpoint = tmp_path / "checkpoint"
    monkeypatch.chdir(tmp_path)
    run = files.engine(spark).query(SQL).start("out", "checkpoint", buckets=2, trigger={"availableNow": True})
    monkeypatch.chdir(Path(__file__).parent)  # wherever a process goes, what it has begun stays where it is
    run.wait()
    kept = pa.concat_tables([pq.read_table(f) for f in sorted((checkpoint / "late").glob("*.parquet"))])
    late, high = 0, dict.fromkeys(files.written, -(2**62))
    for batch in range(4):
        for name, tables in files.written.items():
            times = tables[batch].column("ts").to_numpy()
            late += int((times < high[name]).sum())
            high[name] = max(high[name], int(times.max()))
    assert run.status()["late"] == kept.num_rows == late > 0
    assert set(kept.column_names) >= {"_stream", "_time", "_offset", "k", "v"}


def test_other_buckets_or_another_query_are_refused(tmp_path: Path, spark) -> None:
    files = Files(tmp_path)
    files.grow()
    engine = files.engine(spark)
    once = {"availableNow": True}
    engine.query(SQL).start(tmp_path / "out", tmp_path / "checkpoint", buckets=2, trigger=once).wait()
    with pytest.raises(ms.MidstreamError, match="was written with 2 buckets and cannot go on with 3"):
        engine.query(SQL).start(tmp_path / "out", tmp_path / "checkpoint", buckets=3, trigger=once)
    with pytest.raises(ms.MidstreamError, match="belongs to another query"):
        engine.query(SQL + " AND a.v > 3").start(tmp_path / "out", tmp_path / "checkpoint", buckets=2, trigger=once)


def test_what_spark_does_not_start_is_one_sentence_and_has_failed(tmp_path: Path, spark) -> None:
    files = Files(tmp_path)
    files.grow()
    query = files.engine(spark).query(SQL, name="one of a name")
    first = query.start(tmp_path / "out", tmp_path / "first", buckets=1)
    try:
        for trigger, said in (
            (None, "a query with that name is already active"),
            ({"soon": True}, "no trigger .*soon"),
        ):
            with pytest.raises(ms.MidstreamError, match=said):
                query.start(tmp_path / "other", tmp_path / "second", buckets=1, trigger=trigger)
            checkpoint = Checkpoint.existing(tmp_path / "second")
            assert not checkpoint.taken
            assert checkpoint.read_status()["state"] == "failed"
        assert [e["event"] for e in checkpoint.events.all()] == ["started", "failed"] * 2
        with pytest.raises(ms.MidstreamError, match="a trigger is what Spark's takes"):
            query.start(tmp_path / "other", tmp_path / "second", buckets=1, trigger="now")
    finally:
        first.stop()
    query.start(tmp_path / "other", tmp_path / "second", buckets=1, trigger={"availableNow": True}).wait()


def test_results_go_to_a_function_and_to_any_format(tmp_path: Path, spark) -> None:
    files = Files(tmp_path)
    for _ in range(3):
        files.grow()
    seen: dict[int, int] = {}
    run = (
        files.engine(spark)
        .query(SQL)
        .start(
            lambda results, batch: seen.update({batch: results.count()}),
            tmp_path / "c1",
            buckets=2,
            trigger={"availableNow": True},
        )
    )
    run.wait()
    assert sum(seen.values()) == run.status()["rows_out"] > 0
    sink = {"format": "json", "path": str(tmp_path / "json")}
    files.engine(spark).query(SQL).start(sink, tmp_path / "c2", buckets=2, trigger={"availableNow": True}).wait()
    assert spark.read.json(str(tmp_path / "json")).count() == sum(seen.values())


def test_types_cross_spark_unchanged(tmp_path: Path, spark) -> None:
    rnd = random.Random(1)
    path = tmp_path / "in"
    path.mkdir()
    ddl = "ts timestamp, k int, s string, d decimal(12,3), x double, f boolean, e date, z timestamp_ntz"
    rows = spark.range(50).selectExpr(
        "timestamp_micros(id * 1000) as ts", "cast(id % 7 as int) as k", "concat('s', id) as s",
        "cast(id / 3 as decimal(12,3)) as d", "if(id % 5 = 0, null, id / 7) as x", "id % 2 = 0 as f",
        "date_add(date'2024-01-01', cast(id as int)) as e", "timestamp_ntz'2024-01-01 00:00:00' as z",
    )  # fmt: skip
    rows.coalesce(1).write.parquet(str(path / "data"))
    frame = spark.readStream.schema(ddl).parquet(str(path / "data"))
    engine = ms.Engine(spark).stream("r", frame, time="ts")
    often = {"processingTime": "200 milliseconds"}
    query = engine.query("SELECT * FROM r")
    run = query.start(tmp_path / "out", tmp_path / "c", buckets=rnd.choice([1, 2]), trigger=often)
    wait_until(lambda: (run.status().get("last_batch") or {}).get("rows_in"))
    run.stop(drain=True)
    out = spark.read.schema(ddl).parquet(str(tmp_path / "out"))
    assert out.exceptAll(rows).count() == 0
    assert out.count() == 50


def test_a_table_is_no_streaming_dataframe(spark) -> None:
    with pytest.raises(ms.MidstreamError, match="is not a streaming DataFrame"):
        ms.Engine(spark).stream("a", spark.range(3), time="id")


def test_a_stop_cancels_nothing(tmp_path: Path, spark) -> None:
    """A micro-batch that takes longer than the stop waits is said to; it ends, and the query after it."""
    files, begun, go_on, ended = Files(tmp_path), threading.Event(), threading.Event(), []
    files.grow()

    def sink(frame, batch: int) -> None:
        begun.set()
        assert go_on.wait(180)
        ended.append(batch)

    run = files.engine(spark).query(SQL).start(sink, tmp_path / "checkpoint", buckets=2)
    try:
        assert begun.wait(180)
        with pytest.raises(ms.MidstreamError, match=r"has not stopped within 0\.5 s: it was asked to, and ends after"):
            run.stop(timeout_s=0.5)
        assert run.lives()
    finally:
        go_on.set()
    assert run.wait(180)
    assert run.status()["state"] == "stopped"
    assert ended == list(range(len(ended)))
    assert ended


STRAYS = ("zzz.json/in.json", "a=1/x.json", "b=1/y.json", "²" * 20 + "-x.json")
"""What lies in a control folder and is no control row, as paths."""


def test_strays_in_the_control_folder_end_nothing(tmp_path: Path, spark) -> None:
    files, control = Files(tmp_path), tmp_path / "check point" / "control"
    files.grow()
    run = files.engine(spark).query(SQL).start(tmp_path / "out", control.parent, buckets=2)
    for name in STRAYS:
        (control / name).parent.mkdir(exist_ok=True)
        (control / name).write_text("no control row\nnor this\n")
    (control / "empty.json").mkdir()
    (control / "gone.json").symlink_to("/nonexistent")
    (control / "loop").symlink_to(control)
    identity = run.snapshot()
    wait_until(lambda: any(event.get("id") == identity for event in run.events()))
    run.stop()
    assert run.wait(180)
    assert run.status()["state"] == "stopped"
    assert sum(event["event"] == "no control row" for event in run.events()) >= 2


def test_a_checkpoint_whose_path_means_several_to_spark_is_refused(tmp_path: Path, spark) -> None:
    query = Files(tmp_path).engine(spark).query(SQL)
    for name in ("a[1]", "{a}", "st*r", "q?", "back\\slash"):
        with pytest.raises(ms.MidstreamError, match="which Spark reads as a pattern; give it a path without"):
            query.start(tmp_path / "out", tmp_path / name / "checkpoint", buckets=2)
        assert not (tmp_path / name).exists()
    for path in ("s3://bucket/checkpoint", Path("hdfs://host/checkpoint")):
        with pytest.raises(ms.MidstreamError, match="the checkpoint must be a folder that this machine and its Spark"):
            query.start(tmp_path / "out", path, buckets=2)
        with pytest.raises(ms.MidstreamError, match="the sink must be a folder that this machine and its Spark"):
            query.start(path, tmp_path / "checkpoint", buckets=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]
