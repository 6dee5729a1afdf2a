"""A key run: places of entries sorted by the first bits of their key's hash.

    keys    by place                5  9  5  2
    starts  of each bucket          0  1  4
    places  bucket after bucket     3 | 0  2  1

It is made in two passes over the keys, without a search; a key is found by looking through its bucket.
"""

import numpy as np

from midstream.kernels.arrays import Links, Mask, Vector
from midstream.kernels.compile import Word, kernel


@kernel
def bucket_of(key: Word, bits: int) -> Word:
    """Return the bucket of a key among 2**bits: other bits of its hash than those that choose slots of an index."""
    h = np.uint64(key)
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((h ^ (h >> np.uint64(29))) >> np.uint64(64 - bits))


@kernel
def sort_by_bucket(keys: Vector, wanted: Mask, bits: int) -> tuple[Vector, Links]:
    """Return where each bucket starts, and the places of the wanted keys by bucket, in order within it."""
    starts = np.zeros((1 << bits) + 1, np.int64)
    count = 0
    for i in range(keys.size):
        if wanted[i]:
            starts[bucket_of(keys[i], bits) + 1] += 1
            count += 1
    for b in range(1 << bits):
        starts[b + 1] += starts[b]
    free = starts.copy()
    places = np.empty(count, np.int32)
    for i in range(keys.size):
        if wanted[i]:
            b = bucket_of(keys[i], bits)
            places[free[b]] = i
            free[b] += 1
    return starts, places


@kernel
def find_in_buckets(asked: Vector, keys: Vector, starts: Vector, places: Links, bits: int, found: Vector) -> int:
    """Write the places that have one of the keys asked for into `found`, as far as it has room; return how many."""
    count = 0
    for k in range(asked.size):
        b = bucket_of(asked[k], bits)
        for at in range(starts[b], starts[b + 1]):
            if keys[places[at]] == asked[k]:
                if count < found.size:
                    found[count] = places[at]
                count += 1
    return count
