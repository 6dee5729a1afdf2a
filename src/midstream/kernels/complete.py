"""Completing states: pair entries that are held already, find those with certain keys, tell old from new.

Unlike the join of arriving rows, nothing here depends on who came first: a pair's latest row is the later of both.
"""

import numpy as np

from midstream.kernels.arrays import Links, Mask, Matrix, Vector
from midstream.kernels.compile import kernel
from midstream.kernels.entries import DEADLINE, KEY, LATEST, LINK, ROWS, TIME, is_evicted
from midstream.kernels.join import holds
from midstream.kernels.key_index import FREE, LEFT_HEAD, find_slot

PROBE_AT, PROBE_WALK, PAIRS_TESTED, PAIR_CURSOR_SIZE = range(4)
"""The cursor of `pair_up`: next probe, the walk in progress, predicate evaluations."""
NEXT = -2
"""PROBE_WALK when the next probe has not begun its walk."""


@kernel
def pair_up(
    cursor: Vector,
    probes: Matrix,
    mine: int,
    others: Matrix,
    count: int,
    theirs: int,
    words: Matrix,
    heads: Links,
    side: int,
    chained: bool,
    keyed: bool,
    from_left: bool,
    ops: Vector,
    before: int,
    newer_only: bool,
    now_us: int,
    seq: int,
    slots: Vector,
    evict: Matrix,
    bases: Vector,
    out: Matrix,
) -> int:
    """Pair each probe with the other side's live entries whose latest row is below `before`; return how many pairs.

    With `newer_only` only partners with a later latest row count, so that two calls with the sides swapped find each
    pair once. `side` is the head of the other side in the key index.
    """
    written = 0
    i = cursor[PROBE_AT]
    while i < probes.shape[0]:
        latest, key = probes[i, LATEST], probes[i, KEY]
        q = cursor[PROBE_WALK]
        if q == NEXT:
            q = count - 1
            if chained:
                slot = find_slot(words, heads, key)
                q = -1 if heads[slot, LEFT_HEAD] == FREE else np.int64(heads[slot, side])
        while q >= 0:
            following = others[q, LINK] if chained else q - 1
            theirs_latest = others[q, LATEST]
            if theirs_latest >= before or (newer_only and theirs_latest <= latest):
                q = following
                continue
            if others[q, DEADLINE] < now_us or is_evicted(others, q, slots, evict, bases, seq):
                q = following
                continue
            if written == out.shape[0]:
                break
            cursor[PAIRS_TESTED] += 1
            accept = (not keyed) or others[q, KEY] == key
            for k in range(ops.size):
                if not accept:
                    break
                a, b = probes[i, ROWS + mine + k], others[q, ROWS + theirs + k]
                accept = holds(ops[k], a, b) if from_left else holds(ops[k], b, a)
            if accept:
                out[written, KEY] = key
                out[written, LATEST] = max(latest, theirs_latest)
                out[written, DEADLINE] = min(probes[i, DEADLINE], others[q, DEADLINE])
                out[written, TIME] = 0
                my_start = ROWS if from_left else ROWS + theirs
                their_start = ROWS + mine if from_left else ROWS
                for c in range(mine):
                    out[written, my_start + c] = probes[i, ROWS + c]
                for c in range(theirs):
                    out[written, their_start + c] = others[q, ROWS + c]
                written += 1
            q = following
        if q >= 0:
            cursor[PROBE_WALK] = q
            break
        cursor[PROBE_WALK] = NEXT
        i += 1
    cursor[PROBE_AT] = i
    return written


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
