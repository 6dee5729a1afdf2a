"""Mapped state: a bucket's arrays in memory shared by all Python workers of a host.

Spark gives a bucket to another worker process from one batch to the next. The arrays of its operators therefore lie in
files under /dev/shm; a worker maps them, works in place, and stamps them with the version of the durable state they
belong to. A stamp that is missing, names another version or was made by other code means: rebuild from the durable
state.

    stamp (release, token, names of files, description)  ──▶ map ──▶ work in place ──▶ publish under the next token

Only what belongs to this user alone is used (`model/private_folder.py`), and nothing that is read is run.
"""

import contextlib
import fcntl
import json
import mmap
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from midstream.engine.snapshot.form import plain_dtype, put_together, take_apart
from midstream.model.errors import StateError
from midstream.model.failpoint import reach
from midstream.model.private_folder import open_private, private_folder
from midstream.model.release import RELEASE
from midstream.plan.json import own_aggregates
from midstream.plan.plan import Plan

Array = npt.NDArray[Any]

FORMAT = 1
"""The form in which a stamp is written; one in another form is not used."""
FULL = "shared memory is full"
BUSY = "another attempt at the same bucket has its shared memory"
_FILE = re.compile(r"array-[0-9]+-[0-9a-f]{12}")
_READ = os.O_RDONLY
_WRITE = os.O_CREAT | os.O_EXCL | os.O_RDWR


class MappedState:
    """The mapped arrays of one version of a query in one bucket.

    Invariant: a stamp exists only while the arrays are exactly the state its token names; from `take` to `publish`
    there is none.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stamp = folder / "stamp"
        self._lock: int | None = None
        self.trouble = ""
        """Why nothing can be taken or published."""
        self._mapped: dict[int, tuple[str, Array]] = {}
        """Files of the arrays at work, by the identity of the array."""

    def __enter__(self) -> "MappedState":
        """Keep other attempts at the same bucket away; without the lock nothing is taken or published."""
        try:
            private_folder(self._folder)
            self._lock = open_private(self._folder / "lock", os.O_CREAT | os.O_RDWR)
        except OSError as error:
            self.trouble = str(error)
            return self
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.trouble = BUSY
            self.__exit__()
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
            with open(open_private(self._stamp, _READ), "rb") as file:
                head, description = json.loads(file.readline()), file.read()
            self._stamp.unlink()
            if (head["format"], head["release"], head["token"]) != (FORMAT, RELEASE, token):
                return None
            reach("state taken")
            arrays = [self._map(*self._open(*where)) for where in head["files"]]
        except FileNotFoundError:
            return None
        except OSError as error:
            self.trouble = str(error)
            return None
        except (KeyError, TypeError, ValueError, AttributeError, StateError):
            return None
        return description, arrays

    def _open(self, file: str, dtype: str, shape: list[int]) -> tuple[str, int, np.dtype[Any], tuple[int, ...]]:
        if not _FILE.fullmatch(file):
            raise StateError(f"a stamp names the file {file!r}")
        return file, open_private(self._folder / file, os.O_RDWR), plain_dtype(dtype), tuple(shape)

    def _map(self, file: str, handle: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        try:
            memory = mmap.mmap(handle, 0)
        finally:
            os.close(handle)
        array = np.frombuffer(memory, dtype, int(np.prod(shape))).reshape(shape)
        self._mapped[id(array)] = (file, array)
        return array

    def publish(self, token: str, description: bytes, arrays: Sequence[Array]) -> bool:
        """Stamp the arrays; those that are not mapped yet are copied once. Return whether there was room for them."""
        if self._lock is None:
            return False
        try:
            self._stamp_as(token, description, arrays)
        except OSError as error:
            self.trouble = str(error)
            self.forget()
            return False
        return True

    def _stamp_as(self, token: str, description: bytes, arrays: Sequence[Array]) -> None:
        mapped = [self._mapped.get(id(array)) for array in arrays]
        # There is no stamp now: what the last one named and is not at work makes room first.
        self._remove_but({held[0] for held in mapped if held is not None})
        fresh = sum(array.nbytes for array, held in zip(arrays, mapped, strict=True) if held is None)
        room = os.statvfs(self._folder)
        if room.f_bavail * room.f_frsize < fresh + len(description):
            raise OSError(FULL)
        names = [held[0] if held is not None else self._copy(array) for array, held in zip(arrays, mapped, strict=True)]
        files = [(name, array.dtype.str, array.shape) for name, array in zip(names, arrays, strict=True)]
        pending = self._folder / "stamp.pending"
        pending.unlink(missing_ok=True)
        with open(open_private(pending, _WRITE), "wb") as file:
            head = {"format": FORMAT, "release": RELEASE, "token": token, "files": files}
            file.write(json.dumps(head).encode() + b"\n")
            file.write(description)
        reach("state pending")
        os.replace(pending, self._stamp)
        reach("state mapped")

    def _remove_but(self, kept: set[str]) -> None:
        for path in self._folder.glob("array-*"):
            if path.name not in kept:
                path.unlink(missing_ok=True)

    def _copy(self, array: Array) -> str:
        """Copy an array into a file of its own; all of it has its memory before anything is written there."""
        file = f"array-{os.getpid()}-{os.urandom(6).hex()}"
        handle = open_private(self._folder / file, _WRITE)
        try:
            os.posix_fallocate(handle, 0, array.nbytes)
        except OSError as error:
            os.close(handle)
            raise OSError(FULL) from error
        self._map(file, handle, array.dtype, array.shape)[...] = array
        reach("array copied")
        return file

    def forget(self) -> None:
        """Remove everything that is mapped."""
        with contextlib.suppress(OSError):
            self._stamp.unlink(missing_ok=True)
            self._remove_but(set())


class MappedMemory:
    """The operators of one bucket in shared memory, version by version, for the length of one micro-batch."""

    def __init__(self, folder: Path | Callable[[], Path]) -> None:
        self._folder_of = folder if callable(folder) else lambda: folder
        self._folder: Path | None = None
        self._stack = contextlib.ExitStack()
        self._states: dict[int, MappedState] = {}
        self.trouble = ""
        """Why operators of this micro-batch are not shared, in a sentence."""

    def __enter__(self) -> "MappedMemory":
        try:
            self._folder = private_folder(self._folder_of())
        except OSError as error:
            self.trouble = str(error)
        return self

    def __exit__(self, *failure: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def _state(self, version: int) -> Iterator[MappedState | None]:
        """Have the state of a version, if there is memory at all, and note what is wrong with it."""
        if self._folder is None:
            yield None
            return
        if version not in self._states:
            self._states[version] = self._stack.enter_context(MappedState(self._folder / str(version)))
        state = self._states[version]
        yield state
        self.trouble = self.trouble or state.trouble

    def take(self, version: int, token: str, plan: Plan) -> Any | None:
        """Return the operators stamped with a token, working on the mapped arrays; None when there are none.

        Functions of the user are those of the plan.
        """
        with self._state(version) as state:
            taken = None if state is None else state.take(token)
            if taken is None:
                return None
            try:
                return put_together(*taken, own_aggregates(plan.query.root))
            except StateError as error:
                self.trouble = str(error)
                return None

    def publish(self, version: int, token: str, exported: Any) -> bool:
        """Stamp operators with a token; return whether there was room for their arrays."""
        with self._state(version) as state:
            try:
                return state is not None and state.publish(token, *take_apart(exported))
            except StateError as error:
                self.trouble = str(error)
                return False

    def forget(self, version: int) -> None:
        """Remove what is mapped of a version."""
        if self._folder is not None:
            shutil.rmtree(self._folder / str(version), ignore_errors=True)
        self._states.pop(version, None)
