"""Versions of a live query: its own, whatever lived in the same folder before; those that somebody has asked for."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from engine.live_host import HostedRun, some_rows, two_streams

from midstream.lang.sql import parse_query
from midstream.live.reading import read
from midstream.live.repository import VersionFiles
from midstream.local.replay import make_plan
from midstream.model.errors import MidstreamError

FIRST = "SELECT k, v FROM a [RANGE 2 SECONDS]"
BATCHES = 8


def lived(folder: Path, second: str) -> pa.Table:
    """Run a query that is changed to another one half-way; return its results."""
    run = HostedRun(FIRST, two_streams(), folder, {}, 2)
    for n in range(BATCHES):
        if n == BATCHES // 2:
            run.change(second, "immediate")
        run.tick(some_rows(1, n))
    run.end()
    return read(folder / "out")


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_a_query_in_the_place_of_a_deleted_one_runs_its_own_versions(tmp_path: Path) -> None:
    """In one process: version 2 of the deleted query is not version 2 of this one."""
    seconds = ["SELECT k, v FROM a [RANGE 2 SECONDS] WHERE v < 50", "SELECT k, v FROM a [RANGE 2 SECONDS] WHERE v > 70"]
    for folder in (tmp_path / "c", tmp_path / "d"):
        folder.mkdir()
    before = rows_of(lived(tmp_path / "c", seconds[0]))
    shutil.rmtree(tmp_path / "c")
    (tmp_path / "c").mkdir()
    after, expected = (rows_of(lived(tmp_path / name, seconds[1])) for name in "cd")
    assert after == expected
    assert after != before


def added(folder: Path, sql: str, control: str) -> int:
    """Put a version into the repository, and die before the control row is sent that asks for it."""
    plan = make_plan(parse_query(sql, two_streams()))
    return VersionFiles(folder / "checkpoint" / "versions").add(sql, plan, control)


def test_a_version_that_nobody_asks_for_is_not_packed_and_no_change_goes_from_it(tmp_path: Path) -> None:
    stores: dict[int, Any] = {}
    run = HostedRun(FIRST, two_streams(), tmp_path, stores, 2)
    run.tick(some_rows(1, 0))
    orphan = added(tmp_path, "SELECT k, s FROM a [RANGE 2 SECONDS]", "00000000000000000042-0badcafe")
    assert [number for number, _ in run.live.versions.wanted()] == [1]
    with pytest.raises(MidstreamError, match="allow_schema_change"):  # it is the first that runs
        run.change("SELECT k, s FROM a [RANGE 3 SECONDS]", "immediate")
    run.change("SELECT k, v FROM a [RANGE 3 SECONDS]", "immediate")
    assert [number for number, _ in run.live.versions.wanted()] == [1, orphan + 1]
    for n in range(1, 4):
        run.tick(some_rows(1, n))
    run.end()
    again = HostedRun(FIRST, two_streams(), tmp_path, stores, 2)
    again.tick(some_rows(1, 4))
    assert orphan not in [number for number, _ in again.live.versions.wanted()]
    assert again.live.newest == orphan + 1
