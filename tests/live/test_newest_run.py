"""Results are written by the newest run alone, and by one that is not older than they are."""

import copy
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from engine.live_host import HostedRun, some_rows, two_streams
from live.test_kept_table import answer

import midstream as ms
from midstream.live.kept_table import KeptTable
from midstream.live.result_folder import ResultFolder
from midstream.live.sink import Owner
from midstream.model.errors import MidstreamError, SinkError

SQL = "SELECT a.k, a.v FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"
LEFT = [".batch-00000001.parquet.0badcafe.pending", ".answer.parquet.0badcafe.pending", ".table.parquet.12.pending"]
OTHERS = ["._midstream.json.0badcafe.pending", "notes.pending", ".batch-notes"]


def behind() -> None:
    """Refuse, as a run does that another one has overtaken."""
    raise MidstreamError("run 1 is not the last")


def hosted(folder: Path, stores: dict[int, Any], batches: int) -> int:
    """Run so many micro-batches; return how many rows have left, over all runs."""
    run = HostedRun(SQL, two_streams(), folder, stores)
    try:
        for _ in range(batches):
            run.tick(some_rows(1, run.number))
    finally:
        run.end()
    return int(ms.read(folder / "out").num_rows)


def test_results_that_are_ahead_of_an_older_checkpoint_are_named(tmp_path: Path) -> None:
    """It would read other rows under numbers that are taken: those of the same count would never be seen."""
    stores: dict[int, Any] = {}
    hosted(tmp_path, stores, 4)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    older = copy.deepcopy(stores)
    rows = hosted(tmp_path, stores, 4)
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.copytree(tmp_path / "copy", tmp_path / "checkpoint")
    with pytest.raises(SinkError, match=r"has results of micro-batch 7, and the checkpoint is older: .* from 4 on"):
        hosted(tmp_path, older, 1)
    assert ms.read(tmp_path / "out").num_rows == rows
    shutil.copytree(tmp_path / "copy", tmp_path / "checkpoint", dirs_exist_ok=True)
    for number in range(4, 8):
        (tmp_path / "out" / f"batch-{number:08d}.parquet").unlink()
    assert hosted(tmp_path, copy.deepcopy(older), 4) == rows


def test_a_table_that_is_ahead_of_an_older_checkpoint_is_named(tmp_path: Path) -> None:
    """Rows that are judged late by another micro-batch would make other changes of it."""
    table, rows = KeptTable(tmp_path), answer(10, (1, 1, "a"))
    table.begin(Owner("me", "query", tmp_path, False))
    table.fence(0, lambda: None)
    table.write([rows], rows.rows.schema, 7)
    with pytest.raises(
        SinkError, match=r"table.parquet was written in micro-batch 7, .* older, it goes on with 7: rest"
    ):
        table.fence(7, behind)
    table.fence(8, lambda: None)


@pytest.mark.parametrize("kind", [ResultFolder, KeptTable])
def test_a_run_that_begins_removes_what_others_were_about_to_show(kind: type[Any], tmp_path: Path) -> None:
    sink = kind(tmp_path)
    sink.begin(Owner("me", "query", tmp_path, False))
    (tmp_path / ".pending-00000001-0badcafe").mkdir()
    for name in (*LEFT, *OTHERS):
        (tmp_path / name).touch()
    sink.fence(0, lambda: None)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([*OTHERS, "_midstream.json"])


def test_a_run_that_is_behind_shows_nothing(tmp_path: Path) -> None:
    rows = answer(10, (1, 1, "a"))
    for sink in (ResultFolder(tmp_path / "folder"), KeptTable(tmp_path / "table")):
        sink.fence(0, behind)
        with pytest.raises(MidstreamError, match="is not the last"):
            sink.write([rows], rows.rows.schema, 0)
    folder = ResultFolder(tmp_path / "folder")
    folder.fence(0, behind)
    with pytest.raises(MidstreamError, match="is not the last"):
        folder._publish(pa.schema([("k", pa.int64())]), [pa.record_batch({"k": [1]})], 0)
    assert not [file for file in tmp_path.glob("*/*") if file.is_file()]


def test_what_kills_have_left_in_a_checkpoint_goes(tmp_path: Path) -> None:
    folder, stores = tmp_path / "checkpoint", dict[int, Any]()
    left = [
        ".status.json.1.pending",
        ".heartbeat.2.pending",
        "late/.batch-1.3.pending",
        "versions/mergers/.1.4.pending",
    ]
    for name in (*left, "control/.1.5.pending"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    hosted(tmp_path, stores, 1)
    assert [str(file.relative_to(folder)) for file in folder.rglob("*.pending")] == ["control/.1.5.pending"]
