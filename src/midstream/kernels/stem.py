"""SteMs: meet partial results with the rows of one alias, found by any of its codes.

A partial result is KEY, LATEST, DEADLINE, TIME, the codes it carries, then its row numbers in the order found. All
rows of a slice are in the SteMs before the first probe, so a partner counts only if it is earlier than the row that
leads the partial result, and alive at its time.
"""

import numpy as np

from midstream.kernels.arrays import Floats, Links, Matrix, Vector
from midstream.kernels.compile import Word, kernel
from midstream.kernels.entries import DEADLINE, LATEST, ROWS, TIME, is_evicted
from midstream.kernels.join import ENTRY_AHEAD, SLOT_AHEAD, holds
from midstream.kernels.key_index import LEFT_HEAD, find_slot, slot_of
from midstream.kernels.prefetch import prefetch_row

PROBE_LANE, PROBE_AT, PROBE_WALK, PROBES_TESTED, PROBE_CURSOR_SIZE = range(5)
"""The cursor of `probe`: lane and row in progress, the walk in progress, predicate evaluations."""
NEXT = -3
"""PROBE_WALK when the row has not begun its walk."""


@kernel
def newest_before(entries: Matrix, count: int, latest: int) -> Word:
    """Return the last entry that is earlier than `latest`, or -1; entries are in order of arrival."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if entries[middle, LATEST] < latest:
            low = middle + 1
        else:
            high = middle
    return low - 1


@kernel
def fetch_ahead(batch: Matrix, at: int, key: int, entries: Matrix, words: Matrix, heads: Links) -> None:
    """Fetch what rows a little further on will need: first their slot, then the entry it leads to."""
    if at + SLOT_AHEAD < batch.shape[0]:
        prefetch_row(words, slot_of(batch[at + SLOT_AHEAD, key], words.shape[0] - 1))
    if at + ENTRY_AHEAD < batch.shape[0]:
        head = heads[find_slot(words, heads, batch[at + ENTRY_AHEAD, key]), LEFT_HEAD]
        if head >= 0:
            prefetch_row(entries, np.int64(head))


@kernel
def probe(
    cursor: Vector,
    batch: Matrix,
    starts: Vector,
    stops: Vector,
    key: int,
    entries: Matrix,
    count: int,
    words: Matrix,
    heads: Links,
    link: int,
    in_order: bool,
    slots: Vector,
    evict: Matrix,
    bases: Vector,
    now_us: int,
    seq: int,
    ops: Vector,
    mine: Vector,
    theirs: Vector,
    taken: Vector,
    placed: Vector,
    out: Matrix,
    written: int,
    marks: Vector,
) -> int:
    """Extend the partial results of some lanes (`starts` to `stops` of the batch) by the rows of a SteM.

    Partners are found by the code in column `key` and the chains in column `link`; without a link all entries are
    walked, newest first. Comparison k is `mine[k] ops[k] theirs[k]`; code columns `taken` of the entry are then carried
    in columns `placed`. `now_us` and `seq` are those before the slice: an entry dead by then is cut out of its chain.

    Results go to `out` from `written` on; `marks` says where those of each lane end. Return how many `out` holds; the
    probe is finished when the cursor's lane is past the last.
    """
    width = batch.shape[1]
    lane = cursor[PROBE_LANE]
    i = cursor[PROBE_AT]
    tested = 0
    while lane < starts.size:
        if cursor[PROBE_WALK] == NEXT:
            i = starts[lane]
        while i < stops[lane]:
            latest, now = batch[i, LATEST], batch[i, TIME]
            q = cursor[PROBE_WALK]
            if q == NEXT:
                if link >= 0:
                    fetch_ahead(batch, i, key, entries, words, heads)
                    q = np.int64(heads[find_slot(words, heads, batch[i, key]), LEFT_HEAD])
                else:
                    q = newest_before(entries, count, latest)
            before = np.int64(-1)
            while q >= 0:
                following = entries[q, link] if link >= 0 else q - 1
                if entries[q, LATEST] >= latest:
                    before = q
                    q = following
                    continue
                if entries[q, DEADLINE] < now or is_evicted(entries, q, slots, evict, bases, latest):
                    if in_order:
                        q = np.int64(-1)
                        break
                    long_dead = entries[q, DEADLINE] < now_us or is_evicted(entries, q, slots, evict, bases, seq)
                    if link >= 0 and before >= 0 and long_dead:
                        entries[before, link] = following
                    else:
                        before = q
                    q = following
                    continue
                if written == out.shape[0]:
                    break
                tested += 1
                accept = True
                for k in range(ops.size):
                    if not holds(ops[k], batch[i, mine[k]], entries[q, theirs[k]]):
                        accept = False
                        break
                if accept:
                    for c in range(width):
                        out[written, c] = batch[i, c]
                    out[written, width] = entries[q, ROWS]
                    out[written, DEADLINE] = min(batch[i, DEADLINE], entries[q, DEADLINE])
                    for k in range(taken.size):
                        out[written, placed[k]] = entries[q, taken[k]]
                    written += 1
                before = q
                q = following
            if q >= 0:
                cursor[PROBE_LANE], cursor[PROBE_AT], cursor[PROBE_WALK] = lane, i, q
                cursor[PROBES_TESTED] += tested
                return written
            cursor[PROBE_WALK] = NEXT
            i += 1
        marks[lane] = written
        lane += 1
    cursor[PROBE_LANE] = lane
    cursor[PROBES_TESTED] += tested
    return written


@kernel
def fan_out(
    batch: Matrix, starts: Vector, stops: Vector, out: Matrix, first: int, marks: Vector, rows: Floats, grown: Floats
) -> None:
    """Count for each lane the arriving rows that lead its partial results, and sum up how many times more these became.

    Lane k went in as `starts[k]` to `stops[k]` of the batch and came out up to `marks[k]` of `out`, the first lane from
    `first` on; both are in order of their latest row. A row counts once, however many partial results it leads.
    """
    for lane in range(starts.size):
        i, j = starts[lane], first
        rows[lane], grown[lane] = 0.0, 0.0
        while i < stops[lane]:
            latest, before, after = batch[i, LATEST], i, j
            while i < stops[lane] and batch[i, LATEST] == latest:
                i += 1
            while j < marks[lane] and out[j, LATEST] == latest:
                j += 1
            rows[lane] += 1.0
            grown[lane] += (j - after) / (i - before)
        first = marks[lane]
