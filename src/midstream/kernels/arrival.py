"""Arrival order: merge sorted streams into one sequence, and deal rows out to buckets."""

import numpy as np

from midstream.kernels.arrays import Vector
from midstream.kernels.compile import kernel


@kernel
def merge_arrivals(times: Vector, offsets: Vector, starts: Vector, positions: Vector, first: int) -> Vector:
    """Return the sequence numbers, from `first`, of the rows of several aliases laid end to end.

    Alias a is `times[starts[a]:starts[a + 1]]`, sorted by (time, offset). Ties in time go to the stream declared first
    (`positions`), then to the earlier offset, then to the alias that comes first.
    """
    aliases = positions.size
    seqs = np.empty(times.size, np.int64)
    at = starts[:-1].copy()
    for seq in range(first, first + times.size):
        best = -1
        for a in range(aliases):
            if at[a] == starts[a + 1]:
                continue
            if best >= 0:
                x, y = at[a], at[best]
                if times[x] > times[y]:
                    continue
                if times[x] == times[y]:
                    if positions[a] > positions[best]:
                        continue
                    if positions[a] == positions[best] and offsets[x] >= offsets[y]:
                        continue
            best = a
        seqs[at[best]] = seq
        at[best] += 1
    return seqs


@kernel
def bucket_of(codes: Vector, buckets: int) -> Vector:
    """Spread key codes evenly over buckets."""
    out = np.empty(codes.size, np.int64)
    for i in range(codes.size):
        h = np.uint64(codes[i])
        h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
        h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
        out[i] = np.int64((h ^ (h >> np.uint64(33))) % np.uint64(buckets))
    return out
