"""Completing states: find entries that are alive, those with certain keys, those that a batch touches; old or new."""

import numpy as np

from midstream.kernels.arrays import Links, Mask, Matrix, Vector
from midstream.kernels.compile import kernel
from midstream.kernels.entries import DEADLINE, LATEST, LINK, is_evicted
from midstream.kernels.join import holds
from midstream.kernels.key_index import FREE, LEFT_HEAD, find_slot


@kernel
def live_before(
    entries: Matrix, count: int, before: int, now_us: int, seq: int, slots: Vector, evict: Matrix, bases: Vector
) -> Mask:
    """Tell which entries are alive and have their latest row below `before`."""
    found = np.empty(count, np.bool_)
    for i in range(count):
        found[i] = (
            entries[i, LATEST] < before
            and entries[i, DEADLINE] >= now_us
            and not is_evicted(entries, i, slots, evict, bases, seq)
        )
    return found


@kernel
def find_by_keys(keys: Vector, entries: Matrix, words: Matrix, heads: Links, side: int, found: Vector) -> int:
    """Write the places of all entries of one side that have one of the keys into `found`, as far as it has room.

    Return how many there are, which may be more than `found` holds.
    """
    count = 0
    for k in range(keys.size):
        slot = find_slot(words, heads, keys[k])
        if heads[slot, LEFT_HEAD] == FREE:
            continue
        q = np.int64(heads[slot, side])
        while q >= 0:
            if count < found.size:
                found[count] = q
            count += 1
            q = entries[q, LINK]
    return count


@kernel
def touched(
    probes: Matrix, first: int, batch: Matrix, others_first: int, ops: Vector, columns: Vector
) -> tuple[Mask, int]:
    """Tell which probes some row of a batch satisfies in all the given comparisons; and how many pairs were tested.

    Comparison k is `batch[others_first + columns[k]] ops[k] probes[first + k]`.
    """
    found = np.zeros(probes.shape[0], np.bool_)
    tested = 0
    for i in range(probes.shape[0]):
        for j in range(batch.shape[0]):
            tested += 1
            good = True
            for k in range(ops.size):
                if not holds(ops[k], batch[j, others_first + columns[k]], probes[i, first + k]):
                    good = False
                    break
            if good:
                found[i] = True
                break
    return found, tested


@kernel
def lineage(results: Matrix, columns: Vector, bounds: Vector, members: Vector) -> Vector:
    """Return for each result a bitmap of the characteristics it violates.

    Component `columns[c]` is new when its row number reaches `bounds[c]`; it then violates the ones in `members[c]`.
    """
    out = np.zeros(results.shape[0], np.int64)
    for i in range(results.shape[0]):
        bits = np.int64(0)
        for c in range(columns.size):
            if results[i, columns[c]] >= bounds[c]:
                bits |= members[c]
        out[i] = bits
    return out
