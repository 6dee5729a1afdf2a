"""Completing states: find entries that are alive, those with certain keys, those that a batch touches; old or new.

Entries that are found before their state may show them are hidden: their latest row is numbered beyond any other.
"""

import numpy as np

from midstream.kernels.arrays import Links, Mask, Matrix, Vector
from midstream.kernels.compile import kernel
from midstream.kernels.entries import DEADLINE, KEY, LATEST, LINK, ROWS, TIME, is_evicted
from midstream.kernels.join import holds
from midstream.kernels.key_index import FREE, LEFT_HEAD, RIGHT_HEAD, find_slot

PAIR_LEFT, PAIR_RIGHT, PAIR_WALK, PAIRS_TESTED, PAIRS_PASSED, PAIR_CURSOR_SIZE = range(6)
"""The cursor of `pair_newest`: the next entry of each side, the walk in progress, evaluations, entries passed."""
NO_WALK = -2
"""PAIR_WALK when the next entry has not begun its walk."""
HIDDEN = 2**62
"""Added to the latest row of entries that nobody may find yet."""


@kernel
def pair_newest(
    cursor: Vector,
    left: Matrix,
    left_count: int,
    left_components: int,
    left_slots: Vector,
    left_ordered: bool,
    right: Matrix,
    right_count: int,
    right_components: int,
    right_slots: Vector,
    right_ordered: bool,
    words: Matrix,
    heads: Links,
    chained: bool,
    keyed: bool,
    ops: Vector,
    before: int,
    now_us: int,
    seq: int,
    evict: Matrix,
    bases: Vector,
    budget: int,
    out: Matrix,
) -> int:
    """Pair live entries of both sides whose latest row is below `before`, newest first; return how many pairs.

    A pair is found from the one whose latest row is earlier, among those that are later: the first of a walk where
    entries are `ordered`, that is by their latest row. It goes on until as many entries are passed as the
    budget says, both cursors are below 0, or `out` is full. Without chains only the first `count` entries are walked.
    """
    written = 0
    while cursor[PAIRS_PASSED] < budget and written < out.shape[0]:
        i, j = cursor[PAIR_LEFT], cursor[PAIR_RIGHT]
        if i < 0 and j < 0:
            break
        from_left = i >= 0 and (j < 0 or left[i, LATEST] > right[j, LATEST])
        if from_left:
            at, mine, theirs, ordered, count = i, left_components, right_components, right_ordered, right_count
            probes, others, slots, other_slots = left, right, left_slots, right_slots
        else:
            at, mine, theirs, ordered, count = j, right_components, left_components, left_ordered, left_count
            probes, others, slots, other_slots = right, left, right_slots, left_slots
        latest, key, q = probes[at, LATEST], probes[at, KEY], cursor[PAIR_WALK]
        dead = probes[at, DEADLINE] < now_us or is_evicted(probes, at, slots, evict, bases, seq)
        if q == NO_WALK:
            cursor[PAIRS_PASSED] += 1
        if latest >= before or dead:
            q = -1
        elif q == NO_WALK:
            q = count - 1
            if chained:
                slot = find_slot(words, heads, key)
                head = heads[slot, RIGHT_HEAD if from_left else LEFT_HEAD]
                q = -1 if heads[slot, LEFT_HEAD] == FREE else np.int64(head)
        while q >= 0 and cursor[PAIRS_PASSED] < budget and written < out.shape[0]:
            theirs_latest = others[q, LATEST]
            if ordered and theirs_latest <= latest:
                q = -1
                break
            cursor[PAIRS_PASSED] += 1
            fits = latest < theirs_latest and theirs_latest < before and others[q, DEADLINE] >= now_us
            if fits and not is_evicted(others, q, other_slots, evict, bases, seq):
                cursor[PAIRS_TESTED] += 1
                accept = (not keyed) or others[q, KEY] == key
                for k in range(ops.size):
                    if not accept:
                        break
                    a, b = probes[at, ROWS + mine + k], others[q, ROWS + theirs + k]
                    accept = holds(ops[k], a, b) if from_left else holds(ops[k], b, a)
                if accept:
                    out[written, KEY] = key
                    out[written, LATEST] = theirs_latest
                    out[written, DEADLINE] = min(probes[at, DEADLINE], others[q, DEADLINE])
                    out[written, TIME] = 0
                    my_start = ROWS if from_left else ROWS + theirs
                    their_start = ROWS + mine if from_left else ROWS
                    for c in range(mine):
                        out[written, my_start + c] = probes[at, ROWS + c]
                    for c in range(theirs):
                        out[written, their_start + c] = others[q, ROWS + c]
                    written += 1
            q = others[q, LINK] if chained else q - 1
        if q >= 0:
            cursor[PAIR_WALK] = q
        else:
            cursor[PAIR_WALK] = NO_WALK
            cursor[PAIR_LEFT if from_left else PAIR_RIGHT] = at - 1
    return written


@kernel
def show_hidden(entries: Matrix, count: int) -> None:
    """Let entries be found that were hidden."""
    for i in range(count):
        if entries[i, LATEST] >= HIDDEN:
            entries[i, LATEST] -= HIDDEN


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
def find_by_keys(
    keys: Vector, entries: Matrix, words: Matrix, heads: Links, side: int, link: int, found: Vector
) -> int:
    """Write the places of all entries of one side that have one of the keys into `found`, as far as it has room.

    Return how many there are, which may be more than `found` holds. Links are in column `link`.
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
            q = entries[q, link]
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
