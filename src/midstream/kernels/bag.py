"""Bags of rows: rows of 64-bit codes in one matrix, found by the hash of some of their columns.

A bag is `rows` (a line per row), `until` (the last time each is valid; DEAD when it was taken out) and `chains`: for
each row its hash and the row behind it in its chain, where `heads` has the first row of each chain, by the low bits of
the hash. NULL is a code of its own. Memory is asked for some rows ahead: bags are larger than the processor's caches.
"""

import numpy as np
import numpy.typing as npt

from midstream.kernels.compile import Word, kernel
from midstream.kernels.prefetch import prefetch_row

Vector = npt.NDArray[np.int64]
Matrix = npt.NDArray[np.int64]
Links = npt.NDArray[np.int32]
"""One column, so that it can be asked for ahead."""

NULL = -(2**63)
"""The code of NULL; no other value has it."""
DEAD = -(2**62) - (2**61)
"""The end of rows that were taken out: before every time."""

HASH, NEXT = 0, 1
"""Columns of `chains`."""
FAR, NEAR, NEXT_TO = 16, 8, 4
"""How many rows ahead heads, chains and rows are asked for."""

_GOLDEN = -7046029254386353131
_MIX = -4658895280553007687


@kernel
def mix(value: Word, seed: Word) -> Word:
    """Stir a code into a hash."""
    x = (seed ^ value) * _GOLDEN
    x = (x ^ ((x >> 32) & 0xFFFFFFFF)) * _MIX
    return x ^ ((x >> 29) & 0x7FFFFFFFF)


@kernel
def hash_rows(rows: Matrix, places: Vector) -> Vector:
    """Return a hash of some columns of every row."""
    out = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        x = 0
        for p in places:
            x = mix(rows[i, p], x + 1)
        out[i] = x
    return out


@kernel
def link(heads: Links, chains: Matrix, start: int, stop: int) -> None:
    """Put the rows `[start, stop)` at the head of their chains."""
    mask = len(heads) - 1
    for i in range(start, stop):
        if i + FAR < stop:
            prefetch_row(heads, chains[i + FAR, HASH] & mask)
        chain = chains[i, HASH] & mask
        chains[i, NEXT] = heads[chain, 0]
        heads[chain, 0] = i


@kernel
def same_places(a: Matrix, i: Word, a_places: Vector, b: Matrix, j: Word, b_places: Vector) -> bool:
    """Tell whether two rows agree in pairs of columns, NULLs equal."""
    for k in range(len(a_places)):
        if a[i, a_places[k]] != b[j, b_places[k]]:
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
def look_ahead(heads: Links, chains: Matrix, rows: Matrix, hashes: Vector, i: int) -> None:
    """Ask for the memory that looking up some hashes ahead will need."""
    mask = len(heads) - 1
    if i + FAR < len(hashes):
        prefetch_row(heads, hashes[i + FAR] & mask)
        j = np.int64(heads[hashes[i + NEAR] & mask, 0])
        if j >= 0:
            prefetch_row(chains, j)
        j = np.int64(heads[hashes[i + NEXT_TO] & mask, 0])
        if j >= 0:
            prefetch_row(rows, j)


@kernel
def find_pairs(
    heads: Links, chains: Matrix, rows: Matrix, until: Vector, places: Vector, now_us: int,
    probes: Matrix, probe_hashes: Vector, probe_places: Vector, left: Vector, right: Vector, i: int, j: Word,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Find pairs (probe, row) with equal keys, none of them NULL, of rows that are valid now, until there is no room.

    Begins at probe `i` and row `j` of its chain (-2: at its head). Returns how many pairs were found, where to go on,
    and how many rows were looked at.
    """
    mask = len(heads) - 1
    n, looked, most = 0, 0, len(left)
    while i < len(probes):
        look_ahead(heads, chains, rows, probe_hashes, i)
        h = probe_hashes[i]
        if j == -2:
            j = np.int64(heads[h & mask, 0])
            if j >= 0 and has_null(probes, i, probe_places):
                j = -1
        while j >= 0:
            if chains[j, HASH] == h and until[j] >= now_us:
                looked += 1
                if same_places(rows, j, places, probes, i, probe_places):
                    if n == most:
                        return n, i, j, looked - 1
                    left[n] = i
                    right[n] = j
                    n += 1
            j = chains[j, NEXT]
        j = -2
        i += 1
    return n, i, j, looked


@kernel
def concatenate(
    a: Matrix, a_until: Vector, i: Vector, a_places: Vector, b: Matrix, b_until: Vector, j: Vector, b_places: Vector
) -> tuple[Matrix, Vector]:
    """Return chosen columns of pairs of rows side by side, valid as long as both are."""
    width = len(a_places)
    out = np.empty((len(i), width + len(b_places)), np.int64)
    until = np.empty(len(i), np.int64)
    for n in range(len(i)):
        for k in range(width):
            out[n, k] = a[i[n], a_places[k]]
        for k in range(len(b_places)):
            out[n, width + k] = b[j[n], b_places[k]]
        until[n] = min(a_until[i[n]], b_until[j[n]])
    return out, until


@kernel
def find_equal(
    heads: Links, chains: Matrix, rows: Matrix, until: Vector,
    wanted: Matrix, wanted_until: Vector, wanted_hashes: Vector,
) -> Vector:  # fmt: skip
    """Find for every wanted row one that is equal and valid as long, each at most once, and take it out; -1: none."""
    mask = len(heads) - 1
    out = np.full(len(wanted), -1, np.int64)
    for i in range(len(wanted)):
        look_ahead(heads, chains, rows, wanted_hashes, i)
        chain = wanted_hashes[i] & mask
        before, j = np.int64(-1), np.int64(heads[chain, 0])
        while j >= 0:
            if chains[j, HASH] == wanted_hashes[i] and until[j] == wanted_until[i]:
                same = True
                for k in range(rows.shape[1]):
                    if rows[j, k] != wanted[i, k]:
                        same = False
                        break
                if same:
                    until[j] = DEAD
                    out[i] = j
                    if before < 0:
                        heads[chain, 0] = chains[j, NEXT]
                    else:
                        chains[before, NEXT] = chains[j, NEXT]
                    break
            before, j = j, chains[j, NEXT]
    return out


@kernel
def count_ended(until: Vector, count: int, now_us: int) -> int:
    """Count the rows that are not valid any more."""
    ended = 0
    for i in range(count):
        ended += until[i] < now_us
    return ended


@kernel
def keep_valid(rows: Matrix, until: Vector, chains: Matrix, extra: Vector, count: int, now_us: int) -> int:
    """Move the rows that are valid to the front, in their order; return how many there are."""
    kept = 0
    for i in range(count):
        if until[i] >= now_us:
            if kept != i:
                for k in range(rows.shape[1]):
                    rows[kept, k] = rows[i, k]
                until[kept] = until[i]
                chains[kept, HASH] = chains[i, HASH]
                if len(extra):
                    extra[kept] = extra[i]
            kept += 1
    return kept


@kernel
def cancel(
    rows: Matrix, until: Vector, other: Matrix, other_until: Vector, by_until: bool
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which rows of two bags are left when equal ones cancel out, one for one."""
    places = np.arange(rows.shape[1])
    hashes, theirs = hash_rows(rows, places), hash_rows(other, places)
    if by_until:
        for i in range(len(hashes)):
            hashes[i] = mix(until[i], hashes[i])
        for i in range(len(theirs)):
            theirs[i] = mix(other_until[i], theirs[i])
    size = 16
    while size < 2 * len(rows):
        size *= 2
    heads, chains = np.full((size, 1), -1, np.int32), np.empty((len(rows), 2), np.int64)
    for i in range(len(rows)):
        chains[i, HASH] = hashes[i]
    link(heads, chains, 0, len(rows))
    left, right = np.ones(len(rows), np.bool_), np.ones(len(other), np.bool_)
    for i in range(len(other)):
        look_ahead(heads, chains, rows, theirs, i)
        before, j = np.int64(-1), np.int64(heads[theirs[i] & (size - 1), 0])
        while j >= 0:
            if chains[j, HASH] == theirs[i] and (not by_until or until[j] == other_until[i]):
                if same_places(rows, j, places, other, i, places):
                    left[j] = right[i] = False
                    if before < 0:
                        heads[theirs[i] & (size - 1), 0] = chains[j, NEXT]
                    else:
                        chains[before, NEXT] = chains[j, NEXT]
                    break
            before, j = j, chains[j, NEXT]
    return left, right


@kernel
def mark_matched(
    heads: Links, chains: Matrix, rows: Matrix, places: Vector,
    probes: Matrix, probe_hashes: Vector, probe_places: Vector,
) -> npt.NDArray[np.bool_]:  # fmt: skip
    """Tell which probes find a row with an equal key; NULL finds none."""
    mask = len(heads) - 1
    out = np.zeros(len(probes), np.bool_)
    for i in range(len(probes)):
        look_ahead(heads, chains, rows, probe_hashes, i)
        j = np.int64(heads[probe_hashes[i] & mask, 0])
        if j >= 0 and has_null(probes, i, probe_places):
            continue
        while j >= 0:
            if chains[j, HASH] == probe_hashes[i] and same_places(rows, j, places, probes, i, probe_places):
                out[i] = True
                break
            j = chains[j, NEXT]
    return out


@kernel
def change_matches(
    numbers: Vector, until: Vector, now_us: int, places: Vector, changes: Vector, each: bool
) -> tuple[Vector, Vector, int]:
    """Add to the number of partners of rows; return the rows that lose their last one (+1) or find a first (-1).

    One by one, or all at once and then each row at most once; and how often a row crossed over.
    """
    out, signs = np.empty(len(places), np.int64), np.empty(len(places), np.int64)
    n = 0
    if each:
        for i in range(len(places)):
            p = places[i]
            before = numbers[p] == 0
            numbers[p] += changes[i]
            if before != (numbers[p] == 0) and until[p] >= now_us:
                out[n], signs[n] = p, -1 if before else 1
                n += 1
        return out[:n], signs[:n], n
    state = np.zeros(len(numbers), np.int8)
    touched, m = np.empty(len(places), np.int64), 0
    for i in range(len(places)):
        p = places[i]
        if not state[p]:
            state[p] = 1 if numbers[p] == 0 else 2
            touched[m] = p
            m += 1
        numbers[p] += changes[i]
    for p in touched[:m]:
        before = state[p] == 1
        if before != (numbers[p] == 0) and until[p] >= now_us:
            out[n], signs[n] = p, -1 if before else 1
            n += 1
    return out[:n], signs[:n], n
