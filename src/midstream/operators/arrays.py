"""Exported state: flat arrays under dotted names. They are the arrays a state works on, not copies.

Whoever loads them takes them over: to hand state to somebody else while going on, copy it first.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]


def inside(name: str, arrays: Arrays) -> Arrays:
    """Put arrays under a name.

    >>> inside("left", {"entries": np.arange(2)})
    {'left.entries': array([0, 1])}
    """
    return {f"{name}.{inner}": array for inner, array in arrays.items()}


def under(arrays: Arrays, name: str) -> Arrays:
    """Return the arrays under a name, without it.

    >>> under({"left.entries": np.arange(2), "right.entries": np.arange(3)}, "left")
    {'entries': array([0, 1])}
    """
    prefix = name + "."
    return {full.removeprefix(prefix): array for full, array in arrays.items() if full.startswith(prefix)}


def numbers(values: Iterable[int]) -> npt.NDArray[np.int64]:
    """Hold a few counters as an array."""
    return np.array(list(values), np.int64)
