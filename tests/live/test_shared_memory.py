"""Shared memory is this user's alone: what others have planted, or could change, is not used; no room costs speed."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.engine.run.contract import Kept, RunSpec
from midstream.engine.run.family import family_of
from midstream.engine.snapshot.form import put_together, take_apart
from midstream.live import mapped, shared_memory
from midstream.live.mapped import FULL, MappedMemory, MappedState
from midstream.live.shared_memory import OWNER, forget_query, hold_query
from midstream.model.errors import StateError
from midstream.model.private_folder import NotPrivate, private_folder, private_place
from midstream.model.release import RELEASE
from midstream.plan.plan import Plan

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
BIG = np.arange(100_000)


def plan() -> Plan:
    engine = ms.Engine()
    for name in "ab":
        engine.stream(name, pa.table({"ts": pa.array([0], pa.timestamp("us")), "k": [1]}), time="ts")
    return engine.query("SELECT a.k FROM a [RANGE 1 MINUTE] a, b [RANGE 1 MINUTE] b WHERE a.k = b.k").plan


def publish(folder: Path, token: str = "one") -> None:
    with MappedState(folder) as state:
        assert state.publish(token, b"about", [BIG]), state.trouble


def taken(folder: Path, token: str = "one") -> tuple[bool, str]:
    with MappedState(folder) as state:
        return state.take(token) is not None, state.trouble


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "1"
    publish(folder)
    return folder


def test_all_that_is_shared_is_of_this_user_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        publish(folder / "2")
    finally:
        os.umask(before)
    for path in (folder / "2", *(folder / "2").iterdir()):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    assert taken(folder) == (True, "")


@as_root
@pytest.mark.parametrize("name", ["", "stamp", "lock", "array-*"])
def test_what_belongs_to_another_user_is_not_used(folder: Path, name: str) -> None:
    path = next(folder.glob(name)) if name else folder
    os.chown(path, NOBODY, NOBODY)
    found, trouble = taken(folder)
    assert not found
    assert trouble == f"{path} belongs to user {NOBODY}"


@pytest.mark.parametrize("name", ["", "stamp", "array-*"])
def test_what_others_could_have_written_is_not_used(folder: Path, name: str) -> None:
    path = next(folder.glob(name)) if name else folder
    path.chmod(path.stat().st_mode | 0o002)
    found, trouble = taken(folder)
    assert not found
    assert trouble == f"{path} can be written to by others"


@pytest.mark.parametrize("name", ["", "stamp", "array-*"])
def test_links_are_not_followed(folder: Path, name: str) -> None:
    path = next(folder.glob(name)) if name else folder
    path.rename(folder.parent / "elsewhere")
    path.symlink_to(folder.parent / "elsewhere")
    found, trouble = taken(folder)
    assert not found
    assert str(path) in trouble


def test_a_folder_that_others_could_look_into_is_closed_to_them(folder: Path) -> None:
    folder.chmod(0o755)
    assert taken(folder) == (True, "")
    assert folder.stat().st_mode & 0o777 == 0o700


@as_root
def test_a_place_that_others_can_rename_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "open" / "below"
    place.mkdir(parents=True)
    assert private_place(place) == place
    place.parent.chmod(0o1777)
    assert private_place(place) == place, "like /tmp: others cannot rename what is there"
    place.parent.chmod(0o777)
    with pytest.raises(NotPrivate, match="open can be written to by others"):
        private_place(place)


class Exploit:
    """Runs a command when it is unpickled."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.proof),)


def test_nothing_in_a_stamp_is_run(folder: Path, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    stamp = folder / "stamp"
    stamp.write_bytes(pickle.dumps({"token": "one", "description": pickle.dumps(Exploit(proof)), "files": []}))
    assert not taken(folder)[0]
    whole = json.dumps({"format": mapped.FORMAT, "release": RELEASE, "token": "one", "files": []}).encode() + b"\n"
    stamp.write_bytes(whole + pickle.dumps(Exploit(proof)))
    with MappedMemory(folder.parent) as memory:
        assert memory.take(1, "one", plan()) is None
        assert "describes no state" in memory.trouble
    assert not proof.exists()


@as_root
def test_a_stamp_planted_by_another_user_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who knows the name of a query was there first."""
    shared = tmp_path / "shm"
    shared.mkdir()
    shared.chmod(0o1777)
    tmp_path.chmod(0o755)
    monkeypatch.setattr(shared_memory, "SHARED", shared)
    planted = f"""if True:
        import os, pathlib
        os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
        folder = pathlib.Path({str(shared)!r}) / "midstream-{os.geteuid()}" / "query" / "0" / "1"
        folder.mkdir(parents=True)
        (folder / "stamp").write_text('{{"format": 1, "token": "one", "files": []}}\\n')
        for path in (folder, *folder.parents[:3]):
            path.chmod(0o777)
        """
    monkeypatch.setenv("TMPDIR", "/tmp")
    closed = [above for above in tmp_path.parents if above.stat().st_mode & 0o077 == 0]
    for above in closed:
        above.chmod(0o711)
    subprocess.run([sys.executable, "-c", planted], check=True)
    try:
        with MappedMemory(lambda: hold_query("query") / "0") as memory:
            assert memory.take(1, "one", plan()) is None
            assert not memory.publish(1, "two", [BIG])
            assert memory.trouble == f"{shared}/midstream-{os.geteuid()} belongs to user {NOBODY}"
    finally:
        for above in closed:
            above.chmod(0o700)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda d: d[:40], "describes no state"),
        (lambda d: d.replace(b"operators.source.tape.Tape", b"subprocess.Popen.the.class"), "subprocess"),
        (lambda d: d.replace(b'"held"', b'"size"'), "has no field 'size'"),
        (lambda d: d.replace(b'"<i8"', b'"|O8"'), "no arrays of"),
        (lambda d: d.replace(b'"format":1', b'"format":9'), "format 9"),
    ],
)  # fmt: skip
def test_a_description_makes_registered_objects_only(spoil: Any, why: str) -> None:
    migrator, _ = family_of(plan()).rebuild(1, plan(), RunSpec(), Kept()).export()
    description, arrays = take_apart(migrator)
    spoilt = spoil(description)
    assert spoilt != description
    with pytest.raises(StateError, match=why):
        put_together(spoilt, arrays)


def test_what_cannot_be_described_is_refused_when_it_is_taken_apart(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"holds subprocess\.Popen"):
        take_apart([subprocess.Popen.__new__(subprocess.Popen)])
    with pytest.raises(StateError, match="array of object"):
        take_apart([np.array([None])])
    with MappedMemory(tmp_path) as memory:
        assert not memory.publish(1, "one", [object()])
        assert memory.trouble == "a state holds builtins.object, which cannot be shared"


def test_memory_that_is_full_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with MappedState(folder) as state:
        assert not state.publish("two", b"about", [BIG])
        assert state.trouble == FULL
        assert sorted(p.name for p in folder.iterdir()) == ["lock"], "what was there is given back"


@as_root
@pytest.mark.slow
def test_a_small_file_system_is_filled_without_a_fault(tmp_path: Path) -> None:
    """A mapped file without memory for it ends the process: SIGBUS."""
    mounted = tmp_path / "shm"
    mounted.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "none", mounted], check=False).returncode:
        pytest.skip("may not mount")
    try:
        with MappedState(mounted / "1") as state:
            assert state.publish("one", b"", [np.ones(60_000), np.ones(50_000)])
            assert not state.publish("two", b"", [np.ones(60_000), np.ones(100_000)])
            assert state.trouble == FULL
        with MappedState(mounted / "1") as state:
            assert state.publish("three", b"", [np.ones(60_000)])
    finally:
        subprocess.run(["umount", "-l", mounted], check=True)


def test_without_shared_memory_the_folder_for_temporary_files_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_memory, "SHARED", tmp_path / "missing")
    monkeypatch.setattr(shared_memory.tempfile, "gettempdir", lambda: str(tmp_path))
    assert hold_query("query") == tmp_path / f"midstream-{os.geteuid()}" / "query"
    monkeypatch.setattr(shared_memory.tempfile, "gettempdir", lambda: str(tmp_path / "missing too"))
    with MappedMemory(lambda: hold_query("query") / "0") as memory:
        assert memory.take(1, "one", plan()) is None
        assert not memory.publish(1, "one", [BIG])
        assert "missing too" in memory.trouble


def test_memory_of_dead_queries_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "SHARED", tmp_path)
    code = f"""if True:
        import sys
        from pathlib import Path
        from midstream.live import shared_memory
        shared_memory.SHARED = Path({str(tmp_path)!r})
        shared_memory.hold_query("other")
        print("held", flush=True)
        sys.stdin.read()
        """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        assert process.stdout.readline() == b"held\n"
        mine = hold_query("mine")
        assert sorted(p.name for p in mine.parent.iterdir()) == ["mine", "other"]
        process.kill()
        process.wait()
    assert sorted(p.name for p in mine.parent.iterdir()) == ["mine", "other"]
    hold_query("next")
    assert sorted(p.name for p in mine.parent.iterdir()) == ["mine", "next"]
    forget_query("mine")
    assert not mine.exists()
    assert hold_query("mine") == mine, "the same process may run it again"
    assert (mine / OWNER).exists()
    forget_query("mine")
    forget_query("next")
    for number in range(20):  # removed by others, as a driver does when a query ends
        shutil.rmtree(hold_query(f"short-{number}"))
    hold_query("last")
    assert [folder.name for folder in shared_memory._held if folder.parent == mine.parent] == ["last"]
    forget_query("last")


def test_a_private_folder_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotPrivate, match="is no folder"):
        private_folder(tmp_path / "file")
