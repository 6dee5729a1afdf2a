"""Integers of 128 bits, each a row of its low and its high word."""

import numpy as np

from midstream.kernels.arrays import Matrix
from midstream.kernels.compile import Word, kernel


@kernel
def magnitude(low: Word, high: Word) -> tuple[Word, Word]:
    """Return a number without its sign."""
    if high >= 0:
        return np.uint64(low), np.uint64(high)
    lower = ~np.uint64(low) + np.uint64(1)
    return lower, ~np.uint64(high) + np.uint64(1 if lower == 0 else 0)


@kernel
def remainders(a: Matrix, b: Matrix) -> Matrix:
    """Return what is left of each number divided by another, with the sign of the first; 0 for a division by 0."""
    out = np.zeros(a.shape, np.int64)
    one, top = np.uint64(1), np.uint64(63)
    for i in range(a.shape[0]):
        low, high = magnitude(a[i, 0], a[i, 1])
        by_low, by_high = magnitude(b[i, 0], b[i, 1])
        if by_low == 0 and by_high == 0:
            continue
        left_low, left_high = np.uint64(0), np.uint64(0)
        for _ in range(128):
            left_high = (left_high << one) | (left_low >> top)
            left_low = (left_low << one) | (high >> top)
            high = (high << one) | (low >> top)
            low = low << one
            if left_high > by_high or (left_high == by_high and left_low >= by_low):
                left_high = left_high - by_high - np.uint64(1 if left_low < by_low else 0)
                left_low = left_low - by_low
        if a[i, 1] < 0:
            left_low = ~left_low + one
            left_high = ~left_high + np.uint64(1 if left_low == 0 else 0)
        out[i, 0], out[i, 1] = np.int64(left_low), np.int64(left_high)
    return out
