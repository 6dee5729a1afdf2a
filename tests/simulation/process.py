"""A simulated process: its world, and the steps at which it may be stopped, killed or told that the disk is full.

    Files, Clock, Names ──▶ steps ──▶ machine: go on, pause, die ──▶ the simulated disk

Steps are system calls as `local/disk.py` makes them. After its death a process does nothing any more, whatever its
`finally` clauses want.
"""

import errno
from pathlib import Path
from typing import TYPE_CHECKING

from midstream.engine.world import Data, World
from simulation.disk import File, Folder

if TYPE_CHECKING:
    from simulation.machine import Machine


class Crash(BaseException):
    """The process is dead."""


class Process:
    """A process of a simulated machine."""

    def __init__(self, name: str, machine: "Machine") -> None:
        self.name, self.machine = name, machine
        self.alive = True
        self.world = World(ProcessFiles(self), ProcessClock(self), machine.names)

    def step(self, what: str, path: object = "", changes: bool = True) -> None:
        """Go on by one step, or die."""
        if not self.alive:
            raise Crash(self.name)
        self.machine.on_step(self, what, str(path), changes)
        if not self.alive:
            raise Crash(self.name)

    def kill(self) -> None:
        """End it: its locks are free."""
        self.alive = False
        locks = self.machine.disk.locks
        for file in [file for file, held in locks.items() if held.process is self]:
            del locks[file]


class ProcessLock:
    """A lock of a simulated process."""

    def __init__(self, process: Process, file: str) -> None:
        self.process, self._file = process, file

    def release(self) -> None:
        locks = self.process.machine.disk.locks
        if self.process.alive and locks.get(self._file) is self:
            del locks[self._file]


class ProcessFiles:
    """The simulated disk as one process uses it; the same steps as `local/disk.py`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._disk = process.machine.disk

    def _room(self, path: Path) -> None:
        if self._process.machine.full:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    def read(self, file: Path) -> bytes:
        self._process.step("read", file, changes=False)
        return self._disk.file(file).data

    def exists(self, path: Path) -> bool:
        self._process.step("exists", path, changes=False)
        return self._disk.find(path) is not None

    def names(self, folder: Path) -> list[str]:
        self._process.step("names", folder, changes=False)
        found = self._disk.find(folder)
        names = sorted(found.names) if isinstance(found, Folder) else []
        if names and folder.name.startswith(".pending-") and self._process.machine.take("stale parts"):
            del names[-1]
        return names

    def make_folder(self, folder: Path) -> None:
        if self._disk.find(folder) is not None:
            return
        missing = [folder, *folder.parents]
        missing = missing[: next(k for k, path in enumerate(missing) if self._disk.find(path) is not None)]
        for path in reversed(missing):
            self._process.step("make folder", path)
            self._room(path)
            if self._disk.find(path) is None:
                self._disk.folder(path.parent).set({path.name: Folder()})
        for path in missing:
            self.sync(path.parent)

    def write(self, file: Path, data: Data, lasting: bool = True) -> None:
        self._process.step("open", file)
        self._room(file)
        node = self._disk.create(file)
        node.change(b"")
        self._put(file, node, bytes(memoryview(data)))
        if lasting:
            self._sync(file, node)

    def append(self, file: Path, data: Data) -> None:
        self._process.step("open to append", file)
        self._room(file)
        node = self._disk.create(file)
        self._put(file, node, bytes(memoryview(data)))
        self._sync(file, node)

    def _put(self, file: Path, node: File, data: bytes) -> None:
        """Add data in two steps."""
        half = len(data) // 2
        for part in (data[:half], data[half:]):
            self._process.step("write", file)
            self._room(file)
            node.change(node.data + part)
            node.written_ns = self._process.machine.clock_ns
            self._disk.changed += 1

    def _sync(self, path: Path, node: File | Folder) -> None:
        self._process.step("sync", path)
        node.sync()
        if isinstance(node, Folder):
            self._disk.anchor(path)

    def sync(self, path: Path) -> None:
        node = self._disk.find(path)
        if node is None:
            raise FileNotFoundError(f"no such file: {path}")
        self._sync(path, node)

    def move(self, old: Path, new: Path, lasting: bool = True) -> None:
        self._process.step("rename", new)
        self._disk.rename(old, new)
        if lasting:
            self.sync(new.parent)

    def link(self, old: Path, new: Path) -> None:
        self._process.step("link", new)
        self._room(new)
        self._disk.link(old, new)
        self.sync(new.parent)

    def remove(self, file: Path) -> None:
        self._process.step("unlink", file)
        self._disk.unlink(file)

    def remove_folder(self, folder: Path) -> None:
        held = self._disk.find(folder)
        if isinstance(held, Folder):
            for name, node in sorted(held.names.items()):
                if isinstance(node, Folder):
                    self.remove_folder(folder / name)
                else:
                    self.remove(folder / name)
            self._process.step("remove folder", folder)
            self._disk.unlink(folder)

    def lock(self, file: Path) -> ProcessLock | None:
        self._process.step("lock", file)
        self._disk.create(file)
        if str(file) in self._disk.locks:
            return None
        lock = ProcessLock(self._process, str(file))
        self._disk.locks[str(file)] = lock
        return lock


class ProcessClock:
    """The clock of the machine; waiting lets others go on."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_ns(self) -> int:
        return self._process.machine.now_ns()

    def elapsed_s(self) -> float:
        return self._process.machine.elapsed_s()

    def pause(self, seconds: float) -> None:
        self._process.machine.pass_time(seconds)
        self._process.step("wait", changes=False)
