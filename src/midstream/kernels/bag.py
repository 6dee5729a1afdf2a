"""Bags of rows: rows of 64-bit codes in one matrix, found by the hash of some of their columns.

A bag is `rows` (a line per row), `until` (the last time each is valid; DEAD when it was taken out) and `chains`: for
each row its hash, the row after it in its chain, and its end once more; `heads` has the first row of each chain, by
the low bits of the hash, in one column, so that it can be asked for ahead. NULL is a code of its own. Memory is asked
for some rows ahead: bags are larger than the processor's caches, and what tells that a row is not wanted lies side by
side.
"""

import numpy as np

from midstream.kernels.arrays import Links, Mask, Matrix, Vector
from midstream.kernels.codes import mix
from midstream.kernels.compile import Word, kernel
from midstream.kernels.prefetch import prefetch_row

NULL = -(2**63)
"""The code of NULL; no other value has it."""
DEAD = -(2**62) - (2**61)
"""The end of rows that were taken out: before every time."""

HASH, NEXT, UNTIL, LINKS = 0, 1, 2, 4
"""Columns of `chains`, and how many there are: a power of two, so that a row's are in one line of the cache."""
FAR, NEAR, NEXT_TO = 16, 8, 4
"""How many rows ahead heads, chains and rows are asked for."""


@kernel
def hash_rows(rows: Matrix, places: Vector) -> Vector:
    """Return a hash of some columns of every row."""
    out = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        x = 0
        for p in places:
            x = mix(x + 1, rows[i, p])
        out[i] = x
    return out


@kernel
def link(heads: Links, chains: Matrix, until: Vector, start: int, stop: int) -> None:
    """Put the rows `[start, stop)`, whose hashes are known, at the head of their chains."""
    mask = len(heads) - 1
    for i in range(start, stop):
        if i + FAR < stop:
            prefetch_row(heads, chains[i + FAR, HASH] & mask)
        chain = chains[i, HASH] & mask
        chains[i, NEXT] = heads[chain, 0]
        chains[i, UNTIL] = until[i]
        heads[chain, 0] = i


@kernel
def same_places(a: Matrix, i: Word, a_places: Vector, b: Matrix, j: Word, b_places: Vector) -> bool:
    """Tell whether two rows agree in pairs of columns, NULLs equal."""
    for k in range(len(a_places)):
        if a[i, a_places[k]] != b[j, b_places[k]]:
            return False
    return True


@kernel
def same_rows(a: Matrix, i: Word, b: Matrix, j: Word) -> bool:
    """Tell whether two rows are equal, NULLs as well."""
    for k in range(a.shape[1]):
        if a[i, k] != b[j, k]:
            return False
    return True


@kernel
def has_null(rows: Matrix, i: int, places: Vector) -> bool:
    """Tell whether a row has NULL in one of some columns."""
    for p in places:
        if rows[i, p] == NULL:
            return True
    return False


@kernel
def look_ahead(heads: Links, chains: Matrix, rows: Matrix, hashes: Vector, i: int, by_hash: bool) -> None:
    """Ask for the memory that looking up some hashes ahead will need; `by_hash`: rows themselves are not looked at."""
    mask = len(heads) - 1
    if i + FAR < len(hashes):
        prefetch_row(heads, hashes[i + FAR] & mask)
        j = np.int64(heads[hashes[i + NEAR] & mask, 0])
        if j >= 0:
            prefetch_row(chains, j)
        if not by_hash:
            j = np.int64(heads[hashes[i + NEXT_TO] & mask, 0])
            if j >= 0:
                prefetch_row(rows, j)


@kernel
def find_pairs(
    heads: Links, chains: Matrix, rows: Matrix, places: Vector, first: int, now_us: int,
    probes: Matrix, probe_hashes: Vector, probe_places: Vector,
    left: Vector, right: Vector, following: Matrix, start: int, count: int,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Find pairs (probe, row) with equal keys, none of them NULL, of rows that are valid now, until there is no room.

    Rows before `first` are over; since chains go from later rows to earlier ones, they end there.

    Some probes at a time follow their chains together, a row of each in turn, so that memory is waited for once and not
    once a row: `following` has `count` of them, probe and row, and `start` is the first probe after these. Returns how
    many pairs were found, where to go on, and how many rows were looked at. Keys of one column are equal when their
    hashes are. There must be room for as many pairs as probes follow at a time.
    """
    mask = len(heads) - 1
    by_hash = len(places) == 1
    n, looked = 0, 0
    while True:
        while count:
            if n + count > len(left):
                return n, start, count, looked
            kept = 0
            for k in range(count):
                if k + NEAR < count:
                    prefetch_row(chains, following[k + NEAR, 1])
                i, j = following[k, 0], following[k, 1]
                left[n], right[n] = i, j
                same = chains[j, HASH] == probe_hashes[i] and chains[j, UNTIL] >= now_us
                looked += same
                if not by_hash:
                    same = same and same_places(rows, j, places, probes, i, probe_places)
                n += same
                following[kept, 0], following[kept, 1] = i, chains[j, NEXT]
                kept += chains[j, NEXT] >= first
            count = kept
        if start == len(probes):
            return n, start, count, looked
        stop = min(start + len(following), len(probes))
        for i in range(start, stop):
            if i + FAR < stop:
                prefetch_row(heads, probe_hashes[i + FAR] & mask)
            following[count, 0], following[count, 1] = i, heads[probe_hashes[i] & mask, 0]
            count += following[count, 1] >= first and not has_null(probes, i, probe_places)
        start = stop


@kernel
def concatenate(
    out: Matrix, out_until: Vector, at: int,
    a: Matrix, a_until: Vector, i: Vector, a_places: Vector, b: Matrix, b_until: Vector, j: Vector, b_places: Vector,
) -> None:  # fmt: skip
    """Write chosen columns of pairs of rows side by side, valid as long as both are, into rows from `at` on.

    One column after the other: rows far apart are fetched side by side, since nothing else is to be done with them.
    """
    width = len(a_places)
    for k in range(width):
        place = a_places[k]
        for n in range(len(i)):
            out[at + n, k] = a[i[n], place]
    for k in range(len(b_places)):
        place = b_places[k]
        for n in range(len(j)):
            out[at + n, width + k] = b[j[n], place]
    for n in range(len(i)):
        out_until[at + n] = min(a_until[i[n]], b_until[j[n]])


@kernel
def find_equal(
    heads: Links, chains: Matrix, rows: Matrix, wanted: Matrix, wanted_until: Vector, wanted_hashes: Vector
) -> Vector:
    """Find for every wanted row one that is equal and valid as long, each at most once; -1: none.

    Rows that were found are taken out of their chains; their ends are for the caller to set.
    """
    mask = len(heads) - 1
    out = np.full(len(wanted), -1, np.int64)
    for i in range(len(wanted)):
        look_ahead(heads, chains, rows, wanted_hashes, i, False)
        chain = wanted_hashes[i] & mask
        before, j = np.int64(-1), np.int64(heads[chain, 0])
        while j >= 0:
            if chains[j, HASH] == wanted_hashes[i] and chains[j, UNTIL] == wanted_until[i]:
                if same_rows(rows, j, wanted, i):
                    out[i] = j
                    if before < 0:
                        heads[chain, 0] = chains[j, NEXT]
                    else:
                        chains[before, NEXT] = chains[j, NEXT]
                    break
            before, j = j, chains[j, NEXT]
    return out


@kernel
def count_ended(until: Vector, count: int, now_us: int) -> tuple[int, int]:
    """Count the rows that are not valid any more: all of them, and those before the first one that is."""
    first = 0
    while first < count and until[first] < now_us:
        first += 1
    ended = first
    for i in range(first, count):
        ended += until[i] < now_us
    return ended, first


@kernel
def keep_valid(rows: Matrix, until: Vector, chains: Matrix, extra: Vector, count: int, now_us: int) -> int:
    """Move the rows that are valid to the front, in their order; return how many there are.

    Every row is written where the next valid one belongs: to guess which are valid costs more than to write in vain.
    """
    kept = 0
    while kept < count and until[kept] >= now_us:
        kept += 1
    for i in range(kept, count):
        for k in range(rows.shape[1]):
            rows[kept, k] = rows[i, k]
        chains[kept, HASH] = chains[i, HASH]
        if len(extra):
            extra[kept] = extra[i]
        end = until[i]
        until[kept] = end
        kept += end >= now_us
    return kept


@kernel
def cancel(rows: Matrix, until: Vector, other: Matrix, other_until: Vector, by_until: bool) -> tuple[Mask, Mask]:
    """Return which rows of two bags are left when equal ones cancel out, one for one; `by_until`: with equal ends."""
    left, right = np.ones(len(rows), np.bool_), np.ones(len(other), np.bool_)
    mine, wanted = (until, other_until) if by_until else (np.zeros(len(rows), np.int64), np.zeros(len(other), np.int64))
    if not len(rows) or not len(other) or wanted.max() < mine.min():
        return left, right
    places = np.arange(rows.shape[1])
    hashes, theirs = hash_rows(rows, places), hash_rows(other, places)
    if by_until:
        for i in range(len(hashes)):
            hashes[i] = mix(hashes[i], until[i])
        for i in range(len(theirs)):
            theirs[i] = mix(theirs[i], other_until[i])
    size = 16
    while size < 2 * len(rows):
        size *= 2
    heads, chains = np.full((size, 1), -1, np.int32), np.empty((len(rows), LINKS), np.int64)
    for i in range(len(rows)):
        chains[i, HASH] = hashes[i]
    link(heads, chains, mine, 0, len(rows))
    found = find_equal(heads, chains, rows, other, wanted, theirs)
    for i in range(len(other)):
        if found[i] >= 0:
            left[found[i]] = right[i] = False
    return left, right


@kernel
def mark_matched(
    heads: Links, chains: Matrix, rows: Matrix, places: Vector,
    probes: Matrix, probe_hashes: Vector, probe_places: Vector,
) -> Mask:  # fmt: skip
    """Tell which probes find a row with an equal key; NULL finds none."""
    mask = len(heads) - 1
    by_hash = len(places) == 1
    out = np.zeros(len(probes), np.bool_)
    for i in range(len(probes)):
        look_ahead(heads, chains, rows, probe_hashes, i, by_hash)
        j = np.int64(heads[probe_hashes[i] & mask, 0])
        if j >= 0 and has_null(probes, i, probe_places):
            continue
        while j >= 0:
            if chains[j, HASH] == probe_hashes[i]:
                if by_hash or same_places(rows, j, places, probes, i, probe_places):
                    out[i] = True
                    break
            j = chains[j, NEXT]
    return out


@kernel
def change_matches(
    numbers: Vector, until: Vector, now_us: int, places: Vector, changes: Vector
) -> tuple[Vector, Vector]:
    """Add to the number of partners of rows; return the rows that lose their last one (+1) or find a first (-1)."""
    out, signs = np.empty(len(places), np.int64), np.empty(len(places), np.int64)
    n = 0
    for i in range(len(places)):
        p = places[i]
        before = numbers[p] == 0
        numbers[p] += changes[i]
        if before != (numbers[p] == 0) and until[p] >= now_us:
            out[n], signs[n] = p, -1 if before else 1
            n += 1
    return out[:n].copy(), signs[:n].copy()


@kernel
def net_matches(places: Vector, signs: Vector, count: int) -> tuple[Vector, Vector]:
    """Return the rows, of so many, whose signs do not cancel out, each once."""
    out, left = np.empty(len(places), np.int64), np.empty(len(places), np.int64)
    net, n = np.zeros(count, np.int8), 0
    for k in range(len(places)):
        net[places[k]] += signs[k]
    for p in places:
        if net[p]:
            out[n], left[n] = p, net[p]
            net[p] = 0
            n += 1
    return out[:n], left[:n]
