"""Codes: 64-bit integers that stand for values, so that joins compare integers alone.

Numbers, booleans, dates and times keep equality and order; strings and wide decimals are hashed and must be
verified where their codes are equal.
"""

import numpy as np

from midstream.kernels.arrays import Bytes, Floats, Links, Mask, Matrix, Vector
from midstream.kernels.compile import Word, kernel
from midstream.kernels.prefetch import prefetch_row

FAR = 16
"""How many runs ahead the table is asked for."""


@kernel
def code_floats(values: Floats) -> Vector:
    """Map floats to integers in the same order: -0.0 equals 0.0, NaN equals itself and is the largest."""
    out = np.empty(values.size, np.int64)
    bits = values.view(np.int64)
    for i in range(values.size):
        if np.isnan(values[i]):
            out[i] = np.int64(0x7FFFFFFFFFFFFFFF)
        elif values[i] == 0.0:
            out[i] = 0
        elif bits[i] < 0:
            out[i] = -(bits[i] & np.int64(0x7FFFFFFFFFFFFFFF))
        else:
            out[i] = bits[i]
    return out


def floats_of(codes: Vector) -> Floats:
    """Return the floats that codes stand for."""
    return np.where(codes < 0, -codes | np.int64(-(2**63)), codes).view(np.float64)


@kernel
def mix(h: Word, word: Word) -> Word:
    """Stir one word into a hash."""
    x = (np.uint64(h) ^ np.uint64(word)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64(x ^ (x >> np.uint64(29)))


@kernel
def hash_bytes(offsets: Vector, data: Bytes, seed: int) -> Vector:
    """Hash each run of bytes `data[offsets[i]:offsets[i + 1]]`; each seed gives another hash."""
    out = np.empty(offsets.size - 1, np.int64)
    for i in range(out.size):
        start, end = offsets[i], offsets[i + 1]
        h: Word = mix(seed, np.int64(end - start))
        at = start
        while at < end:
            word = np.uint64(0)
            stop = min(at + 8, end)
            for k in range(stop - at):
                word |= np.uint64(data[at + k]) << np.uint64(8 * k)
            h = mix(h, np.int64(word))
            at = stop
        out[i] = h
    return out


@kernel
def combine(codes: Matrix, seed: int) -> Vector:
    """Hash each row of a matrix of codes to one code; each seed gives another hash."""
    out = np.empty(codes.shape[0], np.int64)
    for i in range(codes.shape[0]):
        h: Word = np.int64(seed)
        for k in range(codes.shape[1]):
            h = mix(h, codes[i, k])
        out[i] = h
    return out


@kernel
def same_run(a: Bytes, at: Word, b: Bytes, start: Word, size: Word) -> bool:
    """Tell whether two runs of bytes are the same."""
    first, second = np.uint64(at), np.uint64(start)
    for k in range(np.uint64(size)):
        if a[first + k] != b[second + k]:
            return False
    return True


@kernel
def find_runs(
    table: Links, hashes: Vector, count: int, offsets: Vector, data: Bytes,
    wanted_hashes: Vector, wanted_offsets: Vector, wanted: Bytes, fresh: Vector,
) -> tuple[Vector, int]:  # fmt: skip
    """Return the slot of every wanted run of bytes, new slots for new ones; and how many slots there are then.

    The runs known so far are `data[offsets[i]:offsets[i + 1]]` with `hashes[i]`; `fresh` is given the places of the
    new ones. There must be room for as many new slots as there are wanted runs, in the table twice.
    """
    mask = len(table) - 1
    known = count
    out = np.empty(len(wanted_hashes), np.int64)
    for i in range(len(wanted_hashes)):
        if i + FAR < len(wanted_hashes):
            prefetch_row(table, wanted_hashes[i + FAR] & mask)
        h, start = wanted_hashes[i], wanted_offsets[i]
        size = wanted_offsets[i + 1] - start
        at = h & mask
        while True:
            slot = np.int64(table[at, 0])
            if slot < 0:
                table[at, 0] = count
                hashes[count] = h
                fresh[count - known] = i
                out[i] = count
                count += 1
                break
            if hashes[slot] == h:
                if slot < known:
                    other = offsets[slot]
                    same = offsets[slot + 1] - other == size and same_run(data, other, wanted, start, size)
                else:
                    place = fresh[slot - known]
                    other = wanted_offsets[place]
                    same = wanted_offsets[place + 1] - other == size and same_run(wanted, other, wanted, start, size)
                if same:
                    out[i] = slot
                    break
            at = (at + 1) & mask
    return out, count


@kernel
def copy_bytes(out: Bytes, to: Word, data: Bytes, start: Word, size: Word) -> None:
    """Copy a run of bytes. Places without a sign need no test for being counted from the end, so it is done at once."""
    first, source = np.uint64(to), np.uint64(start)
    for k in range(np.uint64(size)):
        out[first + k] = data[source + k]


@kernel
def take_bytes(offsets: Vector, data: Bytes, shift: int, places: Vector) -> tuple[Vector, Bytes]:
    """Copy the runs of bytes at the given places, end to end; offsets count from `shift` before the data."""
    new = np.empty(places.size + 1, np.int64)
    new[0] = 0
    for i in range(places.size):
        p = places[i]
        new[i + 1] = new[i] + offsets[p + 1] - offsets[p]
    out = np.empty(new[-1], np.uint8)
    for i in range(places.size):
        copy_bytes(out, new[i], data, offsets[places[i]] - shift, new[i + 1] - new[i])
    return new, out


@kernel
def words_at(offsets: Vector, data: Bytes, skip: int, places: Vector) -> Vector:
    """Return eight bytes of each run at the given places, after the first few, as integers in the order of the bytes.

    Where a run ends there are zeros.
    """
    out = np.empty(places.size, np.int64)
    for i in range(places.size):
        start = offsets[places[i]] + skip
        word = np.uint64(0)
        for k in range(min(offsets[places[i] + 1] - start, 8)):
            word |= np.uint64(data[start + k]) << np.uint64(56 - 8 * k)
        out[i] = np.int64(word ^ np.uint64(0x8000000000000000))
    return out


@kernel
def shared_bytes(offsets: Vector, data: Bytes, places: Vector) -> Word:
    """Return with how many bytes all runs at the given places, one at least, begin alike."""
    first = offsets[places[0]]
    shared = offsets[places[0] + 1] - first
    for i in range(1, places.size):
        start = offsets[places[i]]
        shared = min(shared, offsets[places[i] + 1] - start)
        for k in range(shared):
            if data[start + k] != data[first + k]:
                shared = k
                break
    return shared


@kernel
def equal_bytes(
    a_offsets: Vector,
    a_data: Bytes,
    a_shift: int,
    a_places: Vector,
    b_offsets: Vector,
    b_data: Bytes,
    b_shift: int,
    b_places: Vector,
) -> Mask:
    """Tell for each pair of places whether the runs of bytes are the same."""
    out = np.empty(a_places.size, np.bool_)
    for i in range(a_places.size):
        a, b = a_places[i], b_places[i]
        size = a_offsets[a + 1] - a_offsets[a]
        same = size == b_offsets[b + 1] - b_offsets[b]
        k = 0
        while same and k < size:
            same = a_data[a_offsets[a] - a_shift + k] == b_data[b_offsets[b] - b_shift + k]
            k += 1
        out[i] = same
    return out
