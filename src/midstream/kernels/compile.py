"""The one way kernels are compiled: no Python objects, no GIL, kept on disk between runs.

Numba notices a change in a kernel's own file only, but kernels call each other across files. So what is kept is kept
under a name made from all of their sources, and a change to any of them compiles anew.
"""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config as numba_config

F = TypeVar("F", bound=Callable[..., Any])
Word = Any
"""An integer inside a kernel: 64 bits there, a Python int outside."""


def _cache_folder() -> str | None:
    """Return the folder for compiled kernels of exactly these sources, or None to leave the choice to Numba."""
    here = Path(__file__).resolve().parent
    sources = hashlib.sha256()
    for file in sorted(here.glob("*.py")):
        sources.update(file.name.encode() + file.read_bytes())
    folder = here / "__pycache__" / f"compiled-{sources.hexdigest()[:16]}"
    try:
        if not folder.is_dir():
            for old in folder.parent.glob("compiled-*"):
                shutil.rmtree(old, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return str(folder) if os.access(folder, os.W_OK) else None


_FOLDER = _cache_folder()


def kernel(function: F) -> F:
    """Compile a function over arrays when it is first called."""
    config: Any = numba_config
    before = config.CACHE_DIR
    config.CACHE_DIR = _FOLDER or before
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    finally:
        config.CACHE_DIR = before
