"""The one way kernels are compiled: no Python objects, no GIL, kept on disk between runs."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a function over arrays when it is first called."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))


def inlined(function: F) -> F:
    """Compile a small function that only kernels call, in the middle of their loops."""
    return cast(F, numba.njit(cache=True, nogil=True, inline="never")(function))
