"""Shared memory: where the mapped states of this user's queries lie on this machine, and who is using them.

    /dev/shm/midstream-1000/            of the user alone; the folder for temporary files where there is no /dev/shm
        0123…/                          a query
            owner                       locked by every process that works on the query
            0/1/stamp, array-…          a version in a bucket: `mapped.py`

What nobody works on any more is removed by the next query of the same user. State: the locks of this process.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from midstream.model.names import is_name
from midstream.model.private_folder import NotPrivate, open_private, private_folder, private_place

SHARED = Path("/dev/shm")
OWNER = "owner"

_held: dict[Path, int] = {}
"""The locks of this process, by the folder of the query."""


def shared_memory() -> Path:
    """Return the folder for mapped states on this machine; an OSError says why there is none."""
    root = SHARED if os.access(SHARED, os.W_OK) else Path(tempfile.gettempdir())
    return private_folder(private_place(root) / f"midstream-{os.geteuid()}")


def _folder_of(name: str) -> Path:
    if not is_name(name):
        raise NotPrivate(Path(name), "is no name of a query")
    return shared_memory() / name


def hold_query(name: str) -> Path:
    """Return the folder of a query, made if need be, and let nobody remove it while this process lives."""
    folder = private_folder(_folder_of(name))
    while folder not in _held or not _is_same(_held[folder], folder / OWNER):
        handle = open_private(folder / OWNER, os.O_CREAT | os.O_RDWR)
        fcntl.flock(handle, fcntl.LOCK_SH)
        if _is_same(handle, folder / OWNER):
            _release_gone()
            _held[folder] = handle
            _forget_dead(folder.parent)
        else:  # somebody has removed it meanwhile
            os.close(handle)
            private_folder(folder)
    return folder


def forget_query(name: str) -> None:
    """Remove the mapped states of a query on this machine; nobody works on it any more."""
    with contextlib.suppress(OSError):
        folder = _folder_of(name)
        shutil.rmtree(folder, ignore_errors=True)
        if folder in _held:
            os.close(_held.pop(folder))


def _release_gone() -> None:
    """Release the locks of queries that have been removed: a worker may serve very many."""
    for folder, handle in list(_held.items()):
        if not _is_same(handle, folder / OWNER):
            os.close(_held.pop(folder))


def _forget_dead(root: Path) -> None:
    """Remove the states of queries that no process works on."""
    for folder in root.iterdir():
        with contextlib.suppress(OSError):
            handle = open_private(folder / OWNER, os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def _is_same(handle: int, file: Path) -> bool:
    """Tell whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(file))
    except FileNotFoundError:
        return False
