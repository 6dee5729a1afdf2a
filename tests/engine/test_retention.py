"""What grows with the age of a query goes: control rows, versions that are over, late rows and events, as is said."""

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from engine.live_host import HostedRun, some_rows, two_streams
from engine.soak import MemoryFiles, Soak, TickingClock

from midstream.change import forget
from midstream.engine.world import World
from midstream.live import retention
from midstream.live.checkpoint import Checkpoint
from midstream.live.kept import Retention
from midstream.live.repository import _plans
from midstream.live.result_folder import ResultFolder
from midstream.live.retention import KEPT_VERSIONS
from midstream.local.disk import RandomNames
from midstream.model.errors import MidstreamError
from midstream.spark.pipeline_file import read_pipeline

PIPELINE = """sql = "SELECT k FROM a"
checkpoint = "c"
[streams.a]
format = "rate"
time = "timestamp"
[sink]
format = "folder"
path = "out"
"""


@pytest.mark.slow
def test_late_rows_and_events_are_kept_as_long_as_is_said(tmp_path: Path) -> None:
    everything = Checkpoint(tmp_path / "all")
    few = Checkpoint(tmp_path / "few", kept=Retention.of({"late_files": 3, "event_bytes": 65_536}))
    for checkpoint in (everything, few):
        checkpoint.folder.mkdir()
        for batch in range(10):
            checkpoint.write_late(batch, [some_rows(1, batch)["a"]])
        for batch in range(2000):
            checkpoint.events.add({"event": "statistics", "batch": batch, "more": "x" * 100})
    assert len(list((tmp_path / "all" / "late").iterdir())) == 10
    assert sorted(f.name for f in (tmp_path / "few" / "late").iterdir()) == [
        f"batch-{n:08d}.parquet" for n in (7, 8, 9)
    ]
    assert len(everything.events.all()) == 2000
    assert 500 < len(few.events.all()) < 1000
    again = Checkpoint(tmp_path / "few", kept=Retention(late_files=2))
    again.write_late(10, [some_rows(1, 10)["a"]])
    assert len(list((tmp_path / "few" / "late").iterdir())) == 2


WRONG: dict[str, dict[str, Any]] = {
    "late_file": {"late_file": 3},
    "late_files": {"late_files": 0},
    "event_bytes": {"event_bytes": 100},
    "control_rows": {"control_rows": "many"},
    "True": {"control_rows": True},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_retention_is_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(MidstreamError, match=name):
        Retention.of(WRONG[name])
    (key, value) = next(iter(WRONG[name].items()))
    file = tmp_path / "p.toml"
    written = {True: "true", "many": '"many"'}.get(value, value)
    file.write_text(f"{PIPELINE}[retention]\n{key} = {written}\n")
    with pytest.raises(MidstreamError, match=rf"p\.toml: \[retention\]: .*{name}"):
        read_pipeline(file)


def test_a_retention_that_is_no_table_is_refused() -> None:
    with pytest.raises(MidstreamError, match="says how much of late_files, event_bytes, control_rows is kept"):
        Retention.of(5)  # type: ignore[arg-type]


def test_a_pipeline_says_what_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(f"{PIPELINE}[retention]\nlate_files = 1000\n")
    assert read_pipeline(file).retention == {"late_files": 1000}


@pytest.mark.slow
def test_versions_that_are_long_over_are_forgotten() -> None:
    soak = Soak(3, buckets=1)
    queries = [f"SELECT k, v FROM a [ROWS {n % 7 + 1}]" for n in range(3)]
    for n in range(600):
        if n % 4 == 0:
            soak.run.change(queries[n // 4 % 3], "immediate", allow_schema_change=True)
        soak.run.tick({name: table.slice(0, 1) for name, table in some_rows(1, n).items()})
    names = soak.files.names(soak.folder / "checkpoint" / "versions")
    assert sum(name.endswith(".version") for name in names) < 2 * KEPT_VERSIONS + 256 / 4
    assert len(soak.files.names(soak.folder / "checkpoint" / "control")) < 300
    assert soak.run.live.newest == 151


@pytest.mark.parametrize("buckets", [1, 2])
def test_a_version_that_waits_for_its_position_is_not_forgotten(buckets: int) -> None:
    """Its rows are kept already, for the position has been reached; but older rows may still come."""
    world, stores = World(MemoryFiles(), TickingClock(), RandomNames()), dict[int, Any]()
    folder, queries = Path("/waits"), [f"SELECT k, v FROM a [RANGE {n} SECONDS]" for n in (1, 2, 3)]
    sink = ResultFolder(folder / "out", world)
    with mock.patch.object(forget, "KEPT", 1):
        run = HostedRun(queries[0], two_streams(), folder, stores, buckets, sink, world, 5_000_000)
        for n in range(60):
            if n >= 10 and n % 10 in (0, 3):
                run.change(queries[n % 3], "immediate")
            run.tick(some_rows(1, n, 1))
    assert run.live.newest == 11


@pytest.mark.slow
def test_a_version_that_nobody_came_to_ask_for_goes() -> None:
    """Whoever had put it there died before the control row was sent; its number is not given again."""
    with mock.patch.multiple(retention, EVERY=8, KEPT_VERSIONS=2):
        soak = Soak(3, buckets=1)
        versions = soak.run.live.versions.files
        orphan = versions.add("nobody", soak.run.plan, "nobody")
        for n in range(120):
            if n % 6 == 0:
                soak.run.change(f"SELECT k, v FROM a [ROWS {n + 1}]", "immediate", allow_schema_change=True)
            soak.run.tick({name: table.slice(0, 1) for name, table in some_rows(1, n).items()})
            if n < 8:
                assert versions.has(orphan)
    assert not versions.has(orphan)
    assert soak.run.live.newest == 22
    assert orphan not in _plans[soak.run.live.versions._key]


@pytest.mark.slow
def test_a_soak_finds_nothing_that_grows() -> None:
    with (
        mock.patch.multiple(retention, EVERY=32, KEPT_VERSIONS=2),
        mock.patch.multiple("midstream.live.query", MOST_RECORDS=4),
        mock.patch.multiple("midstream.live.run", MOST_RECORDS=4),
        mock.patch.multiple("midstream.live.events", LOOKS_BACK=16),
        mock.patch.multiple(forget, KEPT=2),
    ):
        soak = Soak(1, buckets=2)
        soak.go(3000, 12)
        assert soak.grown() == []
    assert soak.changed
    assert soak.rows_out
