"""Arrival order: merge sorted streams into one sequence, and deal rows out to buckets."""

import numpy as np
import numpy.typing as npt

from midstream.kernels.compile import kernel

Vector = npt.NDArray[np.int64]


@kernel
def merge_streams(times: Vector, starts: Vector, copies: Vector, first: int) -> Vector:
    """Return the first sequence number of every row of several streams laid end to end.

    Stream s is `times[starts[s]:starts[s + 1]]`, sorted; ties in time go to the earlier stream, then the earlier row.
    A row of stream s takes `copies[s]` numbers, one per alias that reads it. Numbers start at `first`.
    """
    streams = copies.size
    seqs = np.empty(times.size, np.int64)
    at = starts[:-1].copy()
    seq = first
    for _ in range(times.size):
        best = -1
        for s in range(streams):
            if at[s] < starts[s + 1] and (best < 0 or times[at[s]] < times[at[best]]):
                best = s
        seqs[at[best]] = seq
        seq += copies[best]
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
