"""Sketches of values: which ones there are and how often, of a few of them where there are many.

codes of rows ──▶ those whose hash ends in `level` zeros ──▶ a table of at most half its slots, else a higher level

What is kept is what any other sketch of the same level keeps: sketches of streams are joined value by value, and the
size of the join is what is found, times 2 ** level.
"""

import numpy as np

from midstream.kernels.arrays import Mask, Vector
from midstream.kernels.compile import Word, kernel


@kernel
def sketch_hash(code: Word) -> Word:
    """Spread a code over 64 bits."""
    h = np.uint64(code)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0x9FB21C651E98DF25)
    h = (h ^ (h >> np.uint64(28))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(32))


@kernel
def in_sketch(codes: Vector, level: int) -> Mask:
    """Tell which codes a sketch of a level keeps."""
    out = np.empty(codes.size, np.bool_)
    low = (np.uint64(1) << np.uint64(level)) - np.uint64(1)
    for i in range(codes.size):
        out[i] = sketch_hash(codes[i]) & low == 0
    return out


@kernel
def sketch(codes: Vector, valid: Mask, step: int, level: int, codes_out: Vector, counts: Vector) -> tuple[int, int]:
    """Count the values of every `step`-th row; return the level and how many rows have a value.

    `valid` is empty when all rows do. The tables, of a size that is a power of two, hold a value where its count is not
    0; the level rises from the one given until no more than half of the slots are taken.
    """
    slots = counts.size
    counts[:] = 0
    low = (np.uint64(1) << np.uint64(level)) - np.uint64(1)
    mask, taken, rows = np.uint64(slots - 1), 0, 0
    for i in range(0, codes.size, step):
        if valid.size and not valid[i]:
            continue
        rows += 1
        h = sketch_hash(codes[i])
        if h & low != 0:
            continue
        at = np.int64((h >> np.uint64(32)) & mask)
        while counts[at] and codes_out[at] != codes[i]:
            at = (at + 1) & (slots - 1)
        if not counts[at]:
            codes_out[at] = codes[i]
            taken += 1
        counts[at] += 1
        while taken > slots // 2:
            level += 1
            low = (np.uint64(1) << np.uint64(level)) - np.uint64(1)
            taken = _keep(codes_out, counts, low, mask)
    return level, rows


@kernel
def _keep(codes: Vector, counts: Vector, low: Word, mask: Word) -> int:
    """Put the values that a higher level keeps where they belong; return how many there are."""
    slots = counts.size
    old_codes, old_counts, taken = codes.copy(), counts.copy(), 0
    counts[:] = 0
    for i in range(slots):
        if not old_counts[i]:
            continue
        h = sketch_hash(old_codes[i])
        if h & low != 0:
            continue
        at = np.int64((h >> np.uint64(32)) & mask)
        while counts[at]:
            at = (at + 1) & (slots - 1)
        codes[at], counts[at] = old_codes[i], old_counts[i]
        taken += 1
    return taken
