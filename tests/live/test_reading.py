"""Reading a folder of results: by `midstream.read` and by DuckDB, while files come and go and others lie there, too."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine.live_host import HostedRun, some_rows, two_streams

import midstream as ms
from midstream.live import reading
from midstream.model.errors import SinkError

JOIN = "SELECT a.k, a.v, b.v AS w FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k"


def folder_of(folder: Path, *columns: Any) -> Path:
    """Write a folder with a file for each column."""
    folder.mkdir(exist_ok=True)
    for number, values in enumerate(columns):
        pq.write_table(pa.table({"k": values}), folder / f"batch-{number:08d}.parquet")
    return folder


def test_duckdb_reads_what_midstream_reads(tmp_path: Path) -> None:
    run = HostedRun(JOIN, two_streams(), tmp_path, {}, 1)
    for batch in range(4):
        run.tick(some_rows(1, batch))
    run.end()
    out = tmp_path / "out"
    expected = ms.read(out)
    assert expected.num_rows
    found = duckdb.sql(
        f"FROM read_parquet('{out}/batch-*.parquet', filename = true, file_row_number = true) "
        "ORDER BY filename, file_row_number"
    )
    assert found.to_arrow_table().select(expected.column_names).to_pydict() == expected.to_pydict()


@pytest.mark.parametrize(
    "name", ["batch-notes.txt", "batch-.parquet", "batch-1.csv", "batch-00000001.parquet.bak", "x"]
)
def test_what_else_lies_there_is_passed_over(tmp_path: Path, name: str) -> None:
    (folder_of(tmp_path / "out", [1]) / name).write_text("x")
    assert ms.read(tmp_path / "out").to_pydict() == {"k": [1]}


def test_numbers_that_became_wider_are_wide(tmp_path: Path) -> None:
    narrow, wide = pa.array([1], pa.int32()), pa.array([2**40], pa.int64())
    assert ms.read(folder_of(tmp_path / "ints", narrow, wide)).column("k").to_pylist() == [1, 2**40]
    assert ms.read(folder_of(tmp_path / "both", wide, pa.array([0.5]))).column("k").to_pylist() == [2.0**40, 0.5]


@pytest.mark.parametrize(
    ("before", "after"), [([1], ["x"]), ([0.5], ["x"]), ([2**60 + 1], [0.5]), ([[1]], [1]), ([b"x"], [True])]
)  # fmt: skip
def test_a_column_that_does_not_fit_is_named(tmp_path: Path, before: list[Any], after: list[Any]) -> None:
    folder = folder_of(tmp_path / "out", before, before, after)
    with pytest.raises(
        SinkError, match=r"column 'k' is \S+ in .*batch-00000002\.parquet and .* in the files before it"
    ):
        ms.read(folder)


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_file_that_goes_after_it_was_listed_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    folder = folder_of(tmp_path / "out", [0], [1], [2])
    listed = reading.parts(folder)
    monkeypatch.setattr(reading, "parts", lambda _: listed)
    listed[gone].unlink()
    assert ms.read(folder).column("k").to_pylist() == [k for k in range(3) if k != gone]


def test_a_folder_of_that_name_is_named(tmp_path: Path) -> None:
    (folder_of(tmp_path / "out", [1]) / "batch-00000001.parquet").mkdir()
    with pytest.raises(SinkError, match=r"batch-00000001\.parquet cannot be read: Is a directory"):
        ms.read(tmp_path / "out")


@pytest.mark.parametrize("path", ["s3://bucket/out", "hdfs://host/out", "file:///tmp", Path("s3://bucket/out")])
def test_other_file_systems_are_refused(path: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ms.MidstreamError, match="what is read must be a folder that this machine and its Spark can wr"):
        ms.read(path)
    engine = ms.Engine().stream("a", pa.table({"ts": [1], "k": [1]}), time="ts")
    query = engine.query("SELECT k FROM a")
    starts: list[Callable[[], Any]] = [
        lambda: query.start(path, checkpoint="checkpoint"),
        lambda: query.start("out", checkpoint=path),
        lambda: query.start(path),
    ]
    for start in starts:
        with pytest.raises(ms.MidstreamError, match="must be a folder that this machine and its Spark can write, not"):
            start()
    assert not [name for name in os.listdir() if ":" in name]


def test_a_micro_batch_costs_the_same_whatever_lies_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = HostedRun(JOIN, two_streams(), tmp_path, {}, 1)
    for batch in range(2):
        run.tick(some_rows(1, batch))
    for number in range(3000):
        (tmp_path / "out" / f"batch-{50_000_000 + number:08d}.parquet").touch()
    listed: list[Any] = []
    for name in ("listdir", "scandir"):
        look = getattr(os, name)
        monkeypatch.setattr(os, name, lambda path=".", look=look: (listed.append(path), look(path))[1])
    for batch in range(2, 5):
        run.tick(some_rows(1, batch))
    monkeypatch.undo()
    assert tmp_path / "out" not in map(Path, (p for p in listed if not isinstance(p, int)))
    assert listed, "of the parts that workers have written"
    run.end()
