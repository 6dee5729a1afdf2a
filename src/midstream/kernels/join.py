"""The join: insert the rows of two inputs in arrival order and match each with the other side's earlier rows.

    left batch  ──▶ insert into left,  walk right ──▶ out
    right batch ──▶ insert into right, walk left  ──▶ out

A match is accepted only if its latest row is earlier than the arriving one, so each result is found exactly once, by
its latest row. The walk follows the key's chain (hash join) or all entries from the newest (nested loop). When
`out` is full the cursor says where to go on.

Entries that are held already are paired by the same walk. Then nothing depends on who came first: the latest row of a
pair is the later of both.
"""

from collections.abc import Callable

import numpy as np

from midstream.kernels.arrays import Links, Matrix, Vector
from midstream.kernels.compile import kernel
from midstream.kernels.entries import DEADLINE, KEY, LATEST, LINK, ROWS, TIME, is_evicted
from midstream.kernels.key_index import FREE, LEFT_HEAD, RIGHT_HEAD, find_slot, slot_of, take_slot
from midstream.kernels.prefetch import prefetch_row

LEFT_AT, RIGHT_AT, WALK, BEFORE, TESTED, LEFT_COUNT, RIGHT_COUNT, TAKEN = range(8)
"""The cursor: next row of each batch, the walk in progress, predicate evaluations, entries and slots in use."""
ALIVE_AT, ALIVE_AFTER, NEWER_ONLY, CURSOR_SIZE = range(8, 12)
"""For entries that are held already: when and after which row partners are alive, and whether earlier ones count."""

SLOT_AHEAD, ENTRY_AHEAD = 24, 12
"""How many rows ahead the slot of a key, and then the newest entry it leads to, are fetched into the cache."""

SHORT_RUN = 24
"""How many results that share their latest row are sorted without extra memory."""

FRESH = -2
"""WALK when the next row has not been inserted yet."""

FOREVER = 2**63 - 1
EQ, NE, LT, LE, GT, GE = range(6)
"""Codes of the comparisons checked inside the walk."""


@kernel
def holds(op: int, left: int, right: int) -> bool:
    """Tell whether `left op right`."""
    if op == EQ:
        return left == right
    if op == NE:
        return left != right
    if op == LT:
        return left < right
    if op == LE:
        return left <= right
    if op == GT:
        return left > right
    return left >= right


def _matcher(held: bool) -> Callable[..., int]:
    """Compile the walk for rows that come, or for entries of the state itself (`held`).

    Those are paired with partners that are alive (`ALIVE_AT`, `ALIVE_AFTER`), earlier or not; with `NEWER_ONLY` with
    later ones alone, so that two calls with the sides swapped find each pair once.
    """

    @kernel
    def match(
        cursor: Vector,
        from_left: bool,
        batch: Matrix,
        before_seq: int,
        entries: Matrix,
        mine: int,
        inserts: bool,
        others: Matrix,
        theirs: int,
        in_order: bool,
        slots: Vector,
        until: int,
        words: Matrix,
        heads: Links,
        chained: bool,
        keyed: bool,
        cuts: bool,
        ops: Vector,
        evict: Matrix,
        bases: Vector,
        out: Matrix,
        written: int,
    ) -> int:
        """Insert and match the rows of one side before a sequence number; return how many results `out` holds.

        `in_order` says that entries die in the order they came, so the first dead one ends a walk. With `cuts` dead
        entries are cut out of the chain: rows arrive in order, so what is dead now stays dead. Partners are earlier
        than the row and than `until`. One function for a run of rows: calls with this many arrays cost as much as a
        match.
        """
        at_place = LEFT_AT if from_left else RIGHT_AT
        count_place = LEFT_COUNT if from_left else RIGHT_COUNT
        side = LEFT_HEAD if from_left else RIGHT_HEAD
        other = RIGHT_HEAD if from_left else LEFT_HEAD
        last_other = cursor[RIGHT_COUNT if from_left else LEFT_COUNT] - 1
        my_start = ROWS if from_left else ROWS + theirs
        their_start = ROWS + mine if from_left else ROWS
        n, width, mask = batch.shape[0], batch.shape[1], words.shape[0] - 1
        at, count, q, before = cursor[at_place], cursor[count_place], cursor[WALK], cursor[BEFORE]
        tested = 0
        taken = 0
        while at < n and batch[at, LATEST] < before_seq:
            latest, now, key = batch[at, LATEST], batch[at, TIME], batch[at, KEY]
            bound, upto = min(latest, until), latest
            if held:
                now, bound, upto = cursor[ALIVE_AT], np.int64(until), cursor[ALIVE_AFTER]
            if q == FRESH:
                if chained:
                    # Fetch what rows a little further on will need: first their slot, then the entry it leads to.
                    if at + SLOT_AHEAD < n:
                        prefetch_row(words, slot_of(batch[at + SLOT_AHEAD, KEY], mask))
                    if at + ENTRY_AHEAD < n:
                        head = heads[find_slot(words, heads, batch[at + ENTRY_AHEAD, KEY]), other]
                        if head >= 0:
                            prefetch_row(others, np.int64(head))
                    if held:
                        slot = find_slot(words, heads, key)
                        q = -1 if heads[slot, LEFT_HEAD] == FREE else np.int64(heads[slot, other])
                    else:
                        slot = take_slot(words, heads, key)
                        if slot < 0:
                            slot = -1 - slot
                            taken += 1
                        for c in range(width):
                            entries[count, c] = batch[at, c]
                        entries[count, LINK] = heads[slot, side]
                        heads[slot, side] = count
                        q = np.int64(heads[slot, other])
                        count += 1
                else:
                    if inserts:
                        for c in range(width):
                            entries[count, c] = batch[at, c]
                        count += 1
                    q = last_other
                before = -1
            while q >= 0:
                following = others[q, LINK] if chained else q - 1
                if others[q, LATEST] >= bound or (held and cursor[NEWER_ONLY] and others[q, LATEST] <= latest):
                    before = q
                    q = following
                    continue
                if others[q, DEADLINE] < now or is_evicted(others, q, slots, evict, bases, upto):
                    if in_order:
                        following = -1
                    if chained and cuts and before >= 0:
                        others[before, LINK] = following
                    elif chained:
                        before = q
                    q = following
                    continue
                if written == out.shape[0]:
                    break
                tested += 1
                accept = (not keyed) or others[q, KEY] == key
                for k in range(ops.size):
                    if not accept:
                        break
                    a = batch[at, ROWS + mine + k]
                    b = others[q, ROWS + theirs + k]
                    accept = holds(ops[k], a, b) if from_left else holds(ops[k], b, a)
                if accept:
                    out[written, KEY] = key
                    out[written, LATEST] = max(latest, others[q, LATEST]) if held else latest
                    out[written, DEADLINE] = min(batch[at, DEADLINE], others[q, DEADLINE])
                    out[written, TIME] = now
                    for c in range(mine):
                        out[written, my_start + c] = batch[at, ROWS + c]
                    for c in range(theirs):
                        out[written, their_start + c] = others[q, ROWS + c]
                    written += 1
                before = q
                q = following
            if q >= 0:
                break
            q = FRESH
            at += 1
        cursor[at_place], cursor[count_place], cursor[WALK], cursor[BEFORE] = at, count, q, before
        cursor[TESTED] += tested
        cursor[TAKEN] += taken
        return written

    return match


match_run, pair_run = _matcher(held=False), _matcher(held=True)


@kernel
def join_batches(
    cursor: Vector,
    left_batch: Matrix,
    left_entries: Matrix,
    left_components: int,
    left_in_order: bool,
    left_slots: Vector,
    left_inserts: bool,
    left_until: int,
    right_batch: Matrix,
    right_entries: Matrix,
    right_components: int,
    right_in_order: bool,
    right_slots: Vector,
    right_inserts: bool,
    right_until: int,
    words: Matrix,
    heads: Links,
    chained: bool,
    keyed: bool,
    cuts: bool,
    ops: Vector,
    evict: Matrix,
    bases: Vector,
    out: Matrix,
) -> int:
    """Insert and match rows of both batches in order of their latest row until both or `out` are used up.

    A side that does not insert shares its entries with another join, which has put the batch in already (nested loops
    only). Only partners before a side's `until` are matched. Return how many results `out` holds; the join is finished
    when both positions of the cursor are at the end.
    """
    written = 0
    n, m = left_batch.shape[0], right_batch.shape[0]
    while cursor[LEFT_AT] < n or cursor[RIGHT_AT] < m:
        i, j = cursor[LEFT_AT], cursor[RIGHT_AT]
        if j >= m or (i < n and left_batch[i, LATEST] < right_batch[j, LATEST]):
            before_seq = FOREVER if j >= m else right_batch[j, LATEST]
            written = match_run(
                cursor, True, left_batch, before_seq, left_entries, left_components, left_inserts,
                right_entries, right_components, right_in_order, right_slots, right_until,
                words, heads, chained, keyed, cuts, ops, evict, bases, out, written,
            )  # fmt: skip
        else:
            before_seq = FOREVER if i >= n else left_batch[i, LATEST]
            written = match_run(
                cursor, False, right_batch, before_seq, right_entries, right_components, right_inserts,
                left_entries, left_components, left_in_order, left_slots, left_until,
                words, heads, chained, keyed, cuts, ops, evict, bases, out, written,
            )  # fmt: skip
        if cursor[WALK] != FRESH:
            break
    return written


@kernel
def order_ties(results: Matrix, columns: Vector) -> None:
    """Sort results that share their latest row by the given columns, in place; the rest is in order already."""
    n = results.shape[0]
    start = 0
    while start < n:
        end = start + 1
        while end < n and results[end, LATEST] == results[start, LATEST]:
            end += 1
        if end - start > 1:
            sort_run(results, start, end, columns)
        start = end


@kernel
def precedes(results: Matrix, a: int, b: int, columns: Vector) -> bool:
    """Tell whether result a comes before result b."""
    for k in range(columns.size):
        x, y = results[a, columns[k]], results[b, columns[k]]
        if x != y:
            return bool(x < y)
    return False


@kernel
def swap(results: Matrix, a: int, b: int) -> None:
    """Let two results change places."""
    for c in range(results.shape[1]):
        results[a, c], results[b, c] = results[b, c], results[a, c]


@kernel
def sort_run(results: Matrix, start: int, end: int, columns: Vector) -> None:
    """Sort the results from start to end: short runs in place, others by a heap, which has no bad case."""
    size = end - start
    if size <= SHORT_RUN:
        if precedes(results, end - 1, start, columns):  # partners are found the newest first
            for k in range(size // 2):
                swap(results, start + k, end - 1 - k)
        for k in range(start + 1, end):
            at = k
            while at > start and precedes(results, at, at - 1, columns):
                swap(results, at, at - 1)
                at -= 1
        return
    order = np.arange(start, end)
    for root in range(size // 2 - 1, -1, -1):
        sift(results, order, root, size, columns)
    for last in range(size - 1, 0, -1):
        order[0], order[last] = order[last], order[0]
        sift(results, order, 0, last, columns)
    moved = results[start:end].copy()
    for k in range(size):
        for c in range(results.shape[1]):
            results[start + k, c] = moved[order[k] - start, c]


@kernel
def sift(results: Matrix, order: Vector, root: int, size: int, columns: Vector) -> None:
    """Sink the element at `root` until both its children precede it."""
    while True:
        child = 2 * root + 1
        if child >= size:
            return
        if child + 1 < size and precedes(results, order[child], order[child + 1], columns):
            child += 1
        if not precedes(results, order[root], order[child], columns):
            return
        order[root], order[child] = order[child], order[root]
        root = child
