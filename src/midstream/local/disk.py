"""Disk: files, clock and names of this machine, for those who speak to a world.

What is written is synced: a file before it is renamed, the folder after it. Checkpoints are of one user alone, whatever
the umask; results have the modes the umask gives them.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import time
import uuid
from pathlib import Path

from midstream.engine.world import Data, Lock, World


class HeldLock:
    """A lock of this process on a file."""

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    def release(self) -> None:
        """Let somebody else have it."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class Disk:
    """The files of this machine, those that are made `private` for this user alone."""

    def __init__(self, private: bool = False) -> None:
        self._private = private
        self._folder_mode, self._file_mode = (0o700, 0o600) if private else (0o777, 0o666)

    def read(self, file: Path) -> bytes:
        """Return what is in a file; a pipe that somebody has put in its place is not waited for."""
        with open(file, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as held:
            if not stat.S_ISREG(os.fstat(held.fileno()).st_mode):
                raise OSError(errno.EINVAL, "Not a regular file", str(file))
            return held.read()

    def exists(self, path: Path) -> bool:
        """Return whether there is a file or folder of that name."""
        return path.exists()

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder, in order."""
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []

    def make_folder(self, folder: Path) -> None:
        """Make a folder and those above it."""
        if folder.is_dir():
            self._close_to_others(folder)
            return
        missing, above = [path for path in (folder, *folder.parents) if not path.is_dir()], folder.parent
        if not above.is_dir():
            if self._private and not _is_open(above.parent):
                self.make_folder(above)
            else:  # a checkpoint may be made below a folder that is made with it and has results, too
                above.mkdir(parents=True, exist_ok=True)
        folder.mkdir(self._folder_mode, exist_ok=True)
        self._hand_over(folder, above)
        for path in missing:
            self.sync(path.parent)

    def _close_to_others(self, folder: Path) -> None:
        """Let nobody else look into a folder that was made for this, and is still empty."""
        found = folder.stat()
        if self._private and found.st_uid == os.geteuid() and found.st_mode & 0o077 and not os.listdir(folder):
            folder.chmod(self._folder_mode)

    def _hand_over(self, made: Path | int, folder: Path) -> None:
        """Let what root has made in somebody's private folder be theirs: root may stop a query of anybody."""
        if self._private and os.geteuid() == 0:
            found = folder.stat()
            if found.st_uid != 0:
                os.chown(made, found.st_uid, found.st_gid)

    def _open(self, file: Path, flags: int) -> int:
        handle = os.open(file, flags | os.O_CREAT | os.O_CLOEXEC, self._file_mode)
        self._hand_over(handle, file.parent)
        return handle

    def write(self, file: Path, data: Data, lasting: bool = True) -> None:
        """Write a file."""
        with open(self._open(file, os.O_WRONLY | os.O_TRUNC), "wb") as handle:
            handle.write(data)
            if lasting:
                handle.flush()
                os.fsync(handle.fileno())

    def append(self, file: Path, data: Data) -> None:
        """Add to the end of a file."""
        with open(self._open(file, os.O_WRONLY | os.O_APPEND), "ab") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())

    def sync(self, path: Path) -> None:
        """Let a file, or the names in a folder, outlast a power cut."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def move(self, old: Path, new: Path, lasting: bool = True) -> None:
        """Give a file or folder another name at once."""
        os.replace(old, new)
        if lasting:
            self.sync(new.parent)

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name at once."""
        os.link(old, new)
        self.sync(new.parent)

    def remove(self, file: Path) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            file.unlink()

    def remove_folder(self, folder: Path) -> None:
        """Remove a folder and what is in it, if it is there."""
        shutil.rmtree(folder, ignore_errors=True)

    def lock(self, file: Path) -> Lock | None:
        """Hold a lock, or return None when somebody else does."""
        handle = self._open(file, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return None
        return HeldLock(handle)


def _is_open(folder: Path) -> bool:
    """Tell whether others may look into a folder; one that is not there is made so that they may."""
    return not folder.is_dir() or bool(folder.stat().st_mode & 0o077)


class SystemClock:
    """The clock of this machine."""

    def now_ns(self) -> int:
        """Return the time of day."""
        return time.time_ns()

    def elapsed_s(self) -> float:
        """Return seconds since some moment."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class RandomNames:
    """Names by chance."""

    def new(self) -> str:
        """Return 32 hexadecimal digits."""
        return uuid.uuid4().hex


THIS_MACHINE = World(Disk(private=True), SystemClock(), RandomNames(), Disk())
"""What runs for real runs in this one."""


def on_this_machine(path: Path) -> str:
    """Return how a host is told of a path of this machine: with its scheme, for another file system may be its default.

    >>> on_this_machine(Path("/tmp/more json/control"))
    'file:///tmp/more json/control'
    """
    return f"file://{path.absolute()}"
