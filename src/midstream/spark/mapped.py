"""Mapped state: a bucket's arrays in memory shared by all Python workers of a host.

Spark gives a bucket to another worker process from one batch to the next. The arrays of its operators therefore lie in
files under /dev/shm; a worker maps them, works in place, and stamps them with the version of the durable state they
belong to. A stamp that is missing or names another version means: rebuild from the durable state.

    stamp (token, description, names of files)  ──▶ map ──▶ work in place ──▶ publish under the next token
"""

import contextlib
import fcntl
import mmap
import os
import pickle
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from midstream.model.failpoint import reach
from midstream.operators.snapshot import put_together, take_apart

Array = npt.NDArray[Any]


class MappedState:
    """The mapped arrays of one bucket of one query.

    Invariant: a stamp exists only while the arrays are exactly the state its token names; from `take` to `publish`
    there is none.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._stamp = folder / "stamp"
        self._lock: int | None = None
        self._mapped: dict[int, tuple[str, Array]] = {}
        """Files of the arrays at work, by the identity of the array."""

    def __enter__(self) -> "MappedState":
        """Keep other attempts at the same bucket away; without the lock nothing is taken or published."""
        self._lock = os.open(self._folder / "lock", os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            self._lock = None
        return self

    def __exit__(self, *failure: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def take(self, token: str) -> tuple[bytes, list[Array]] | None:
        """Return the description and arrays stamped with the token, and remove the stamp; None when there are none."""
        if self._lock is None:
            return None
        try:
            stamp = pickle.loads(self._stamp.read_bytes())
            self._stamp.unlink()
        except (OSError, EOFError, pickle.UnpicklingError):
            return None
        if stamp["token"] != token:
            return None
        try:
            arrays = [self._map(file, np.dtype(dtype), shape) for file, dtype, shape in stamp["files"]]
        except (OSError, ValueError):
            return None
        return stamp["description"], arrays

    def _map(self, file: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        with open(self._folder / file, "r+b") as handle:
            memory = mmap.mmap(handle.fileno(), 0)
        array = np.frombuffer(memory, dtype, int(np.prod(shape))).reshape(shape)
        self._mapped[id(array)] = (file, array)
        return array

    def publish(self, token: str, description: bytes, arrays: Sequence[Array]) -> bool:
        """Stamp the arrays; those that are not mapped yet are copied once. Return whether there was room for them."""
        if self._lock is None:
            return False
        files = []
        try:
            for array in arrays:
                file, _ = self._mapped.get(id(array)) or (self._copy(array), array)
                files.append((file, array.dtype.str, array.shape))
        except OSError:
            self.forget()
            return False
        pending = self._folder / "stamp.pending"
        pending.write_bytes(pickle.dumps({"token": token, "description": description, "files": files}))
        reach("state pending")
        os.replace(pending, self._stamp)
        reach("state mapped")
        kept = {file for file, _, _ in files}
        for path in self._folder.glob("array-*"):
            if path.name not in kept:
                path.unlink(missing_ok=True)
        return True

    def _copy(self, array: Array) -> str:
        room = os.statvfs(self._folder)
        if room.f_bavail * room.f_frsize < 2 * array.nbytes:
            raise OSError("no room")
        file = f"array-{os.getpid()}-{os.urandom(6).hex()}"
        with open(self._folder / file, "w+b") as handle:
            handle.truncate(array.nbytes)
        self._map(file, array.dtype, array.shape)[...] = array
        return file

    def forget(self) -> None:
        """Remove everything that is mapped."""
        with contextlib.suppress(OSError):
            self._stamp.unlink()
        for path in self._folder.glob("array-*"):
            with contextlib.suppress(OSError):
                path.unlink()


class MappedMemory:
    """The operators of one bucket in shared memory, version by version, for the length of one micro-batch."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._states: dict[int, MappedState] = {}

    def __enter__(self) -> "MappedMemory":
        return self

    def __exit__(self, *failure: object) -> None:
        self._stack.close()

    def _state(self, version: int) -> MappedState:
        if version not in self._states:
            self._states[version] = self._stack.enter_context(MappedState(self._folder / str(version)))
        return self._states[version]

    def take(self, version: int, token: str) -> Any | None:
        """Return the operators stamped with a token, working on the mapped arrays; None when there are none."""
        taken = self._state(version).take(token)
        return None if taken is None else put_together(*taken)

    def publish(self, version: int, token: str, exported: Any) -> bool:
        """Stamp operators with a token; return whether there was room for their arrays."""
        return self._state(version).publish(token, *take_apart(exported))

    def forget(self, version: int) -> None:
        """Remove what is mapped of a version."""
        shutil.rmtree(self._folder / str(version), ignore_errors=True)
        self._states.pop(version, None)


def forget_query(folder: Path) -> None:
    """Remove the mapped state of all buckets of a query."""
    shutil.rmtree(folder, ignore_errors=True)
