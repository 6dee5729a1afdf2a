"""The layout of entries and keeping them compact."""

import numpy as np

from midstream.kernels.arrays import Links, Mask, Matrix, Vector
from midstream.kernels.compile import kernel

KEY, LATEST, DEADLINE, LINK, ROWS = 0, 1, 2, 3, 4
"""Columns of an entry; row numbers start at ROWS."""
TIME = LINK
"""In a batch between joins the link column holds the time of the latest row."""


@kernel
def is_evicted(
    entries: Matrix, i: int, slots: Vector, evict: Matrix, bases: Vector, seq: int
) -> bool:  # pragma: no cover - compiled
    """Tell whether a counted window has evicted a row of entry i by the arrival of `seq`.

    `slots[c]` is the line of component c in the eviction table, or -1 when its window is not counted.
    """
    for c in range(slots.size):
        line = slots[c]
        if line >= 0:
            place = entries[i, ROWS + c] - bases[line]
            if place < 0 or evict[line, place] <= seq:
                return True
    return False


@kernel
def drop_dead(
    entries: Matrix,
    count: int,
    now_us: int,
    seq: int,
    slots: Vector,
    evict: Matrix,
    bases: Vector,
    linked: bool,
    moved: Links,
) -> int:
    """Move the entries that can still join a row at or after `now_us` to the front; return how many there are.

    `seq` is the last sequence number that has arrived: an eviction at or before it has happened. Links are cut
    around the dead; `moved[i]` says where entry i, or the next older live one in its chain, is now.
    """
    width = entries.shape[1]
    kept = 0
    for i in range(count):
        older = moved[entries[i, LINK]] if linked and entries[i, LINK] >= 0 else -1
        if entries[i, DEADLINE] < now_us or is_evicted(entries, i, slots, evict, bases, seq):
            if linked:
                moved[i] = older
            continue
        for c in range(width):
            entries[kept, c] = entries[i, c]
        if linked:
            entries[kept, LINK] = older
            moved[i] = kept
        kept += 1
    return kept


@kernel
def gather(batch: Matrix, column: int, values: Vector, base: int, target: int) -> None:
    """Copy the value of each entry's row (numbered from `base`) into another column of the entry."""
    for i in range(batch.shape[0]):
        batch[i, target] = values[batch[i, column] - base]


@kernel
def values_of(entries: Matrix, column: int, values: Vector, base: int) -> tuple[Vector, Mask]:
    """Return the value of each entry's row (numbered from `base`), and which entries have one: some rows are gone."""
    out = np.zeros(entries.shape[0], np.int64)
    there = np.empty(entries.shape[0], np.bool_)
    for i in range(entries.shape[0]):
        place = entries[i, column] - base
        there[i] = place >= 0
        if place >= 0:
            out[i] = values[place]
    return out, there


@kernel
def keep_valid(batch: Matrix, kept: int, column: int, valid: Mask, base: int) -> int:
    """Move the first `kept` entries whose row has a value to the front; return how many there are."""
    width = batch.shape[1]
    n = 0
    for i in range(kept):
        if valid[batch[i, column] - base]:
            if n != i:
                for c in range(width):
                    batch[n, c] = batch[i, c]
            n += 1
    return n
