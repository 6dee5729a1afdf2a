"""Private folders: folders of this user in places that others write to as well, such as /dev/shm and /tmp.

Somebody else may have put a folder, a link or a file there under the name that is expected. So everything is looked at
before it is used: it belongs to this user, it is no link, and nobody else may write to it.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class NotPrivate(OSError):
    """Something that is not this user's alone; the text says why, in a sentence."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} {why}")


def private_folder(folder: Path) -> Path:
    """Make a folder that only this user can look into, or check the one that is there."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        mode = _check(folder, os.lstat(folder), stat.S_ISDIR, "folder").st_mode
        if mode & OTHERS:
            os.chmod(folder, 0o700)
    return folder


def private_place(folder: Path) -> Path:
    """Return where a private folder can be made, links on the way there resolved; refuse where others may rename it."""
    place = Path(os.path.realpath(folder))
    for above in (place, *place.parents):
        found = os.lstat(above)
        if found.st_uid not in (0, os.geteuid()):
            raise NotPrivate(above, f"belongs to user {found.st_uid}")
        if found.st_mode & OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
            raise NotPrivate(above, "can be written to by others")
    return place


def open_private(file: Path, flags: int) -> int:
    """Open a file that only this user can write to, and return its handle; one that is made is this user's alone."""
    handle = os.open(file, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    try:
        _check(file, os.fstat(handle), stat.S_ISREG, "file")
    except OSError:
        os.close(handle)
        raise
    return handle


def _check(path: Path, found: os.stat_result, is_kind: Callable[[int], bool], kind: str) -> os.stat_result:
    if not is_kind(found.st_mode):
        raise NotPrivate(path, f"is no {kind}")
    if found.st_uid != os.geteuid():
        raise NotPrivate(path, f"belongs to user {found.st_uid}")
    if found.st_mode & OTHERS_WRITE:
        raise NotPrivate(path, "can be written to by others")
    return found
