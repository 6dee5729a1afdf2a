"""A checkpoint is of one user alone, whatever the umask; results have the modes that the umask gives."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import midstream as ms
from midstream.live.checkpoint import Checkpoint
from midstream.live.repository import register
from midstream.live.result_folder import ResultFolder
from midstream.live.sink import Owner
from midstream.local.disk import THIS_MACHINE
from midstream.plan.plan import Plan

NOBODY = 65534


@pytest.fixture(params=[0, 0o077], ids=["umask 0", "umask 077"], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def engine() -> ms.Engine:
    engine = ms.Engine()
    table = pa.table({"ts": pa.array([0, 1_000_000], pa.timestamp("us")), "k": [1, 2]})
    engine.stream("a", table, time="ts")
    return engine


def plan() -> Plan:
    return engine().query("SELECT k FROM a [RANGE 1 MINUTE]").plan


def check_private(folder: Path) -> None:
    found = {path: path.stat().st_mode & 0o777 for path in [folder, *folder.rglob("*")]}
    assert found
    assert found == {path: 0o700 if path.is_dir() else 0o600 for path in found}


def test_the_checkpoint_of_a_live_query(tmp_path: Path) -> None:
    (tmp_path / "cp").mkdir()  # by the user, who has put nothing into it yet
    checkpoint = Checkpoint(tmp_path / "cp")
    checkpoint.identify("q", plan(), 1, (0,), [])
    checkpoint.hold()
    checkpoint.runs.begin(lambda: -1)
    checkpoint.beat()
    checkpoint.write_status({"state": "running"})
    checkpoint.events.add({"event": "started"})
    checkpoint.controls.send("stop")
    checkpoint.write_late(0, [pa.table({"k": [1]})])
    register(checkpoint.versions, "SELECT k FROM a", plan())
    checkpoint.release()
    assert len(list((tmp_path / "cp").rglob("*"))) > 10
    check_private(tmp_path / "cp")


def test_the_checkpoint_of_a_run_in_process_and_its_results(tmp_path: Path, umask: int) -> None:
    query = engine().query("SELECT k FROM a [RANGE 1 MINUTE]")
    query.start(sink=tmp_path / "new" / "out", checkpoint=tmp_path / "new" / "cp")
    check_private(tmp_path / "new" / "cp")
    (file,) = (tmp_path / "new" / "out").glob("*.parquet")
    assert file.stat().st_mode & 0o777 == 0o666 & ~umask
    assert file.parent.stat().st_mode & 0o777 == 0o777 & ~umask


def test_results_of_a_live_query_are_for_readers(tmp_path: Path, umask: int) -> None:
    folder = ResultFolder(tmp_path / "out")
    folder.begin(Owner("id", "q", tmp_path / "cp", False))
    (file,) = (tmp_path / "out").iterdir()
    assert file.stat().st_mode & 0o777 == 0o666 & ~umask
    assert file.parent.stat().st_mode & 0o777 == 0o777 & ~umask


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_what_root_asks_of_the_query_of_somebody_can_be_read_by_them(tmp_path: Path) -> None:
    folder = tmp_path / "cp"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    checkpoint = Checkpoint(folder)
    checkpoint.controls.send("stop")
    assert {path.stat().st_uid for path in folder.rglob("*")} == {NOBODY}
    assert len(list(folder.rglob("*.json"))) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_another_user_finds_nothing_to_read(tmp_path: Path) -> None:
    closed = [above for above in tmp_path.parents if above.stat().st_mode & 0o077 == 0]
    for above in closed:
        above.chmod(0o711)
    tmp_path.chmod(0o755)
    THIS_MACHINE.files.make_folder(tmp_path / "cp")
    THIS_MACHINE.files.write(tmp_path / "cp" / "secret", b"1")
    code = f"import os; os.setgid({NOBODY}); os.setuid({NOBODY}); open({str(tmp_path / 'cp' / 'secret')!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    for above in closed:
        above.chmod(0o700)
    assert "PermissionError" in done.stderr
