"""Results in Delta tables, read while the query runs."""

import os
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import midstream as ms

pytestmark = pytest.mark.spark

JOIN = "SELECT a.v AS va, b.v AS vb FROM a [RANGE 2 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k"
COUNTS = "SELECT k, COUNT(*) AS n FROM a [RANGE 3 SECONDS] GROUP BY k HOP BY 1 SECOND EMIT DELTA"
FILES = 6


def streams(folder: Path) -> dict[str, pa.Table]:
    """Write two streams as files; return them whole."""
    rng, written = np.random.default_rng(11), {}
    for name in ("a", "b"):
        (folder / name).mkdir()
        tables = []
        for number in range(FILES):
            times = number * 1_000_000 + np.sort(rng.integers(0, 1_000_000, 60))
            tables.append(pa.table({"ts": times, "k": rng.integers(0, 9, 60), "v": np.arange(60) + 60 * number}))
            file = folder / name / f"{number}.parquet"
            pq.write_table(tables[-1], file)
            os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))  # the order in which Spark reads them
        written[name] = pa.concat_tables(tables)
    return written


def rows(table: pa.Table, *names: str) -> list[tuple]:
    return sorted(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def test_results_appear_once_also_in_a_second_run(tmp_path: Path, spark) -> None:
    written = streams(tmp_path)
    engine, local = ms.Engine(spark), ms.Engine()
    for name, table in written.items():
        reader = spark.readStream.schema("ts long, k long, v long").option("maxFilesPerTrigger", 2)
        engine.stream(name, reader.parquet(str(tmp_path / name)), time="ts")
        local.stream(name, table, time="ts")
    sink, query = {"format": "delta", "path": str(tmp_path / "lake")}, engine.query(JOIN, name="delta")
    run = query.start(sink=sink, checkpoint=tmp_path / "point", buckets=2, trigger={"availableNow": True})
    seen: dict[int, int] = {}
    while not run.wait(0.3):
        table = DeltaTable(tmp_path / "lake")
        found = duckdb.sql(f"SELECT count(*) FROM read_parquet({table.file_uris()!r})") if table.file_uris() else None
        seen[table.version()] = found.fetchall()[0][0] if found is not None else 0
    assert list(seen.values()) == sorted(seen.values()), "what was seen stays"

    expected = rows(local.query(JOIN).start().table(), "va", "vb")
    early = rows(DeltaTable(tmp_path / "lake").to_pyarrow_table(), "va", "vb")
    assert 0 < len(early) <= len(expected)  # rows that wait for the other stream are not joined yet
    for name in written:  # all of them: one row more of each stream, far later
        pq.write_table(pa.table({"ts": [60_000_000], "k": [-1], "v": [-1]}), tmp_path / name / "last.parquet")
    again = query.start(sink=sink, checkpoint=tmp_path / "point", buckets=2, trigger={"availableNow": True})
    assert again.wait(300)
    held = DeltaTable(tmp_path / "lake")
    assert rows(held.to_pyarrow_table(), "va", "vb") == expected
    frame = spark.read.parquet(*held.file_uris())
    assert sorted((row.va, row.vb) for row in frame.collect()) == expected


def test_an_answer_is_kept_in_a_table(tmp_path: Path, spark) -> None:
    written = streams(tmp_path)
    engine = ms.Engine(spark)
    reader = spark.readStream.schema("ts long, k long, v long").option("maxFilesPerTrigger", 1)
    engine.stream("a", reader.parquet(str(tmp_path / "a")), time="ts")
    sink = {"format": "delta", "path": str(tmp_path / "counts"), "upsert": "true"}
    run = engine.query(COUNTS, name="counts").start(
        sink=sink, checkpoint=tmp_path / "point", buckets=2, trigger={"availableNow": True}
    )
    assert run.wait(300)
    held, times = DeltaTable(tmp_path / "counts").to_pyarrow_table(), written["a"].column("ts").to_numpy()
    hop = (int(times.max()) // 1_000_000) * 1_000_000
    inside = (times >= hop - 3_000_000) & (times < hop)
    keys, counts = np.unique(written["a"].column("k").to_numpy()[inside], return_counts=True)
    assert rows(held, "k", "n") == list(zip(keys.tolist(), counts.tolist(), strict=True))
