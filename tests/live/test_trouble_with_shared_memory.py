"""A query whose shared memory goes wrong, or is of another release, rebuilds its operators: results are the same."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from engine.live_host import HostedRun, some_rows, two_streams

from midstream.live import mapped
from midstream.live.mapped import MappedMemory
from midstream.live.reading import read

JOIN = "SELECT a.k, a.v, b.v AS w FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k"
BATCHES, TROUBLE_AT = 6, 3


def run(folder: Path, shared: Path | None, spoil: Callable[[Path], None] = lambda shared: None) -> HostedRun:
    """Run micro-batches on shared memory that is spoiled before one of them."""
    run = HostedRun(JOIN, two_streams(), folder, {}, 1)
    if shared is not None:
        shared.mkdir(0o700, exist_ok=True)
    for batch in range(BATCHES):
        if batch == TROUBLE_AT and shared is not None:
            spoil(shared)
        with MappedMemory(folder / "none" if shared is None else shared / "0") as memory:
            run._memories = {0: memory}
            assert run.tick(some_rows(1, batch))
    run.end()
    return run


def rebuilt(run: HostedRun) -> list[int]:
    return [event["batch"] for event in run.events() if event["event"] == "rebuilt"]


def unshared(run: HostedRun) -> list[str]:
    return [event["reason"] for event in run.events() if event["event"] == "shared memory is not used"]


@pytest.fixture
def expected(tmp_path: Path) -> Path:
    run(tmp_path / "good", None)
    return tmp_path / "good" / "out"


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system of its own."""
    place = tmp_path / "shm"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "none", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_operators_of_another_release_are_rebuilt(
    tmp_path: Path, expected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_ever = run(tmp_path / "same", tmp_path / "shm")
    assert not [batch for batch in rebuilt(as_ever) if batch >= TROUBLE_AT]
    upgraded = run(tmp_path / "new", tmp_path / "shm2", lambda _: monkeypatch.setattr(mapped, "RELEASE", "another"))
    assert [batch for batch in rebuilt(upgraded) if batch >= TROUBLE_AT] == [TROUBLE_AT]
    assert read(tmp_path / "new" / "out").equals(read(expected))
    assert read(tmp_path / "same" / "out").equals(read(expected))


def put_file(shared: Path) -> None:
    shutil.rmtree(shared)
    shared.write_text("a file")


def cut(shared: Path) -> None:
    for file in shared.glob("*/*/array-*"):
        os.truncate(file, 8)


@pytest.mark.parametrize("spoil", [shutil.rmtree, put_file, cut, lambda s: shutil.rmtree(s / "0" / "1")])
def test_what_is_gone_or_cut_is_rebuilt(tmp_path: Path, expected: Path, spoil: Callable[[Path], None]) -> None:
    run(tmp_path / "spoiled", tmp_path / "shm", spoil)
    assert read(tmp_path / "spoiled" / "out").equals(read(expected))


def test_memory_that_becomes_read_only_is_not_used(tmp_path: Path, expected: Path, mounted: Path) -> None:
    remount = ["mount", "-o", "remount,ro", str(mounted)]
    spoiled = run(tmp_path / "spoiled", mounted, lambda _: subprocess.run(remount, check=True))
    assert read(tmp_path / "spoiled" / "out").equals(read(expected))
    assert any("Read-only" in why for why in unshared(spoiled)), unshared(spoiled)


def test_memory_that_fills_up_is_not_used(tmp_path: Path, expected: Path, mounted: Path) -> None:
    def fill(shared: Path) -> None:
        shutil.rmtree(shared / "0")
        with open(shared / "other", "wb") as file:
            room = os.statvfs(shared)
            os.posix_fallocate(file.fileno(), 0, (room.f_bavail - 2) * room.f_frsize)

    spoiled = run(tmp_path / "spoiled", mounted, fill)
    assert read(tmp_path / "spoiled" / "out").equals(read(expected))
    assert unshared(spoiled)
