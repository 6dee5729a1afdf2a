"""The search for a join order: sets of things to join, as bits of a number, and the ways to split them.

Dynamic programming over sets, bushy trees included; above MOST_PARTS things greedily. What a join costs, and which sets
may be joined at all, is up to whoever searches.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_PARTS = 10
"""Things that are joined in the best of all orders; more of them greedily."""


Split = tuple[int, int]
"""A set in two parts that are joined last."""


def sets(count: int, rank: Callable[[int, int], Any]) -> Iterator[tuple[int, Iterable[Split]]]:
    """Yield ever larger sets, up to that of all of so many things, each with the ways to split it that are tried."""
    if count <= MOST_PARTS:
        yield from ((parts, splits(parts)) for parts in subsets(count))
    else:
        yield from ((a | b, [(a, b)]) for a, b in greedy(count, rank))


@dataclass(frozen=True)
class Level:
    """All sets of one size, and all ways to split each of them, one set after the other."""

    parts: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    """Where the ways of each set begin."""
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]


@cache
def levels(count: int) -> tuple[Level, ...]:
    """Return the sets of at least two of so many things, small ones first, each with all its splits.

    >>> [(level.parts.tolist(), len(level.left)) for level in levels(3)]
    [([3, 5, 6], 3), ([7], 3)]
    """
    found = []
    for size in range(2, count + 1):
        ways = {bits_of(chosen): list(splits(bits_of(chosen))) for chosen in combinations(range(count), size)}
        starts = np.cumsum([0, *map(len, ways.values())])[:-1]
        left, right = np.array([way for mine in ways.values() for way in mine], np.int64).T
        found.append(Level(np.array(list(ways), np.int64), starts, left.copy(), right.copy()))
    return tuple(found)


def greedy(count: int, rank: Callable[[int, int], Any]) -> Iterator[Split]:
    """Yield the joins of so many things, up to that of all of them: each time the two trees whose join ranks lowest."""
    trees = [1 << n for n in range(count)]
    while len(trees) > 1:
        a, b = min(combinations(trees, 2), key=lambda pair: rank(*pair))
        yield a, b
        trees = sorted([a | b, *(t for t in trees if t not in (a, b))])


def bits_of(numbers: Iterable[int]) -> int:
    """Return a set of numbers as bits.

    >>> bits_of([0, 2])
    5
    """
    return sum(1 << n for n in numbers)


def members(parts: int) -> list[int]:
    """Return the numbers of a set.

    >>> members(5)
    [0, 2]
    """
    return [n for n in range(parts.bit_length()) if parts >> n & 1]


def subsets(count: int) -> Iterator[int]:
    """Yield the sets of at least two of so many things, small ones first.

    >>> [members(s) for s in subsets(3)]
    [[0, 1], [0, 2], [1, 2], [0, 1, 2]]
    """
    for size in range(2, count + 1):
        for chosen in combinations(range(count), size):
            yield bits_of(chosen)


def splits(parts: int) -> Iterator[Split]:
    """Yield the ways to split a set in two, each once, the lowest member on the left.

    >>> [(members(a), members(b)) for a, b in splits(0b111)]
    [([0, 2], [1]), ([0, 1], [2]), ([0], [1, 2])]
    """
    low = parts & -parts
    left = (parts - 1) & parts
    while left:
        if left & low:
            yield left, parts ^ left
        left = (left - 1) & parts
