"""The one way kernels are compiled: no Python objects, no GIL, kept on disk between runs.

Numba notices a change in a kernel's own file only, but kernels call each other across files. So what is kept is kept
under a name made from all of their sources, and a change to any of them compiles anew.

What is kept is code that will be run, so it lies with the package, or where this user alone can write. A process that
has no such place compiles for itself.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config as numba_config

from midstream.model.private_folder import private_folder, private_place
from midstream.model.release import name_of_sources

F = TypeVar("F", bound=Callable[..., Any])
Word = Any
"""An integer inside a kernel: 64 bits there, a Python int outside."""


def _name() -> str:
    """Return a name for what is compiled of exactly these sources."""
    return f"compiled-{name_of_sources(Path(__file__).resolve().parent)}"


def _package() -> Path:
    return Path(__file__).resolve().parent / "__pycache__"


def _places() -> Iterator[Path]:
    """Yield where else compiled kernels may be kept, the best place first."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(os.environ["NUMBA_CACHE_DIR"])
    for above in (os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), tempfile.gettempdir()):
        try:
            yield private_folder(private_place(Path(above)) / f"midstream-{os.geteuid()}")
        except OSError:
            continue


def _cache_folder() -> str | None:
    """Return the folder for compiled kernels of these sources, or None where there is no place for one."""
    package = _package() / _name()
    try:
        if not package.is_dir():
            for old in package.parent.glob("compiled-*"):
                shutil.rmtree(old, ignore_errors=True)
            package.mkdir(parents=True, exist_ok=True)
    except OSError:
        pass
    if os.access(package, os.W_OK):
        return str(package)
    try:
        for place in _places():
            folder = place / package.name
            with contextlib.suppress(OSError):
                _fill(folder, package)
            if os.access(folder, os.W_OK):
                return str(folder)
    except OSError:  # not even a folder for temporary files
        return None
    return None


def _fill(folder: Path, package: Path) -> None:
    """Make a folder with what has been compiled in the package by somebody who may write there."""
    if folder.is_dir():
        return
    beside = Path(tempfile.mkdtemp(prefix=".compiled-", dir=folder.parent))
    try:
        if package.is_dir():
            shutil.copytree(package, beside, dirs_exist_ok=True, copy_function=shutil.copyfile)
            for path in (beside, *(p for p in beside.rglob("*") if p.is_dir())):
                path.chmod(0o700)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


_FOLDER = _cache_folder()


def kernel(function: F) -> F:
    """Compile a function over arrays when it is first called."""
    config: Any = numba_config
    before = config.CACHE_DIR
    config.CACHE_DIR = _FOLDER or before
    try:
        return cast(F, numba.njit(cache=_FOLDER is not None, nogil=True)(function))
    finally:
        config.CACHE_DIR = before
