"""Sets of things to join, as bits of a number: what searches for join orders go through."""

from collections.abc import Iterable, Iterator
from itertools import combinations

MOST_PARTS = 10
"""Things that are joined in the best of all orders; more of them greedily."""


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


def splits(parts: int) -> Iterator[tuple[int, int]]:
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
