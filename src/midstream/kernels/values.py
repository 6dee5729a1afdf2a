"""Values: every different row once, in a table of slots, and how often each comes on either side.

`table` holds slot numbers by hash (open addressing, -1 is free); slot i is `rows[i]` with `hashes[i]`. What an operator
gives for a value follows from its counts: for a set whether the value is there, for a bag how often.
"""

import numpy as np

from midstream.kernels.arrays import Links, Mask, Matrix, Vector
from midstream.kernels.bag import FAR, NEAR, hash_rows, same_rows
from midstream.kernels.compile import Word, kernel
from midstream.kernels.prefetch import prefetch_row

SET, BAG = 0, 1
"""What is left of a value: one, or as many as the left side has more than the right."""


@kernel
def place_slots(table: Links, hashes: Vector, count: int) -> None:
    """Enter the slots anew into an empty table."""
    mask = len(table) - 1
    for i in range(count):
        if i + FAR < count:
            prefetch_row(table, hashes[i + FAR] & mask)
        at = hashes[i] & mask
        while table[at, 0] >= 0:
            at = (at + 1) & mask
        table[at, 0] = i


@kernel
def known_slots(table: Links, rows: Matrix, wanted: Matrix) -> Vector:
    """Return the slot of every wanted row, or -1 where there is none."""
    mask = len(table) - 1
    out = np.full(len(wanted), -1, np.int64)
    found = hash_rows(wanted, np.arange(rows.shape[1]))
    for i in range(len(wanted)):
        if i + FAR < len(wanted):
            prefetch_row(table, found[i + FAR] & mask)
            slot = np.int64(table[found[i + NEAR] & mask, 0])
            if slot >= 0:
                prefetch_row(rows, slot)
        at = found[i] & mask
        while table[at, 0] >= 0:
            if same_rows(rows, np.int64(table[at, 0]), wanted, i):
                out[i] = table[at, 0]
                break
            at = (at + 1) & mask
    return out


@kernel
def find_slots(table: Links, rows: Matrix, hashes: Vector, count: int, wanted: Matrix) -> tuple[Vector, int]:
    """Return the slot of every wanted row, new slots for new ones; and how many slots there are then.

    There must be room for as many new slots as there are wanted rows, in the table twice.
    """
    mask = len(table) - 1
    out = np.empty(len(wanted), np.int64)
    width = rows.shape[1]
    found = hash_rows(wanted, np.arange(width))
    for i in range(len(wanted)):
        if i + FAR < len(wanted):
            prefetch_row(table, found[i + FAR] & mask)
            slot = np.int64(table[found[i + NEAR] & mask, 0])
            if slot >= 0:
                prefetch_row(rows, slot)
        h = found[i]
        at = h & mask
        while True:
            slot = np.int64(table[at, 0])
            if slot < 0:
                table[at, 0] = count
                hashes[count] = h
                for k in range(width):
                    rows[count, k] = wanted[i, k]
                out[i] = count
                count += 1
                break
            if same_rows(rows, slot, wanted, i):  # fetched ahead, which its hash is not
                out[i] = slot
                break
            at = (at + 1) & mask
    return out, count


@kernel
def keep_slots(rows: Matrix, hashes: Vector, count: int, kept: Vector) -> Vector:
    """Move the values in chosen slots, in order, to the front; return the new slot of each value, -1: none."""
    numbers = np.full(count, -1, np.int64)
    for i in range(len(kept)):
        hashes[i] = hashes[kept[i]]
        numbers[kept[i]] = i
    keep_lines(rows, kept)
    return numbers


@kernel
def keep_lines(lines: Matrix, kept: Vector) -> None:
    """Move chosen lines, in order, to the front."""
    for i in range(len(kept)):
        for k in range(lines.shape[1]):
            lines[i, k] = lines[kept[i], k]


@kernel
def left_of(left: Word, right: Word, kind: int) -> Word:
    """Return how often a value is in the difference of its sides."""
    if kind == BAG:
        return max(left - right, 0)
    return 1 if left > 0 and right <= 0 else 0


@kernel
def add_counts(counts: Matrix, slots: Vector, signs: Vector, column: int, touched: Vector, marks: Mask, n: int) -> int:
    """Add signs to a count of slots; note the slots that were touched, each once; return how many there are."""
    for i in range(len(slots)):
        if i + FAR < len(slots):
            prefetch_row(counts, slots[i + FAR])
        slot = slots[i]
        counts[slot, column] += signs[i]
        if not marks[slot]:
            marks[slot] = True
            touched[n] = slot
            n += 1
    return n


@kernel
def settle_one(counts: Matrix, slot: Word, kind: int) -> tuple[Word, Word]:
    """Give a value as often as it is in the answer; return the change, and whether it crossed 0.

    `counts[slot, 2]` is what was given so far.
    """
    now, before = left_of(counts[slot, 0], counts[slot, 1], kind), counts[slot, 2]
    counts[slot, 2] = now
    return now - before, (now > 0) != (before > 0)


@kernel
def settle(counts: Matrix, touched: Vector, marks: Mask, kind: int) -> tuple[Vector, Vector, int]:
    """Return the slots whose count in the answer has changed, and by how much; and how many times it crossed 0."""
    slots, changes = np.empty(len(touched), np.int64), np.empty(len(touched), np.int64)
    n, flips = 0, 0
    for i in range(len(touched)):
        if i + FAR < len(touched):
            prefetch_row(counts, touched[i + FAR])
        slot = touched[i]
        marks[slot] = False
        change, flipped = settle_one(counts, slot, kind)
        slots[n], changes[n] = slot, change
        n += change != 0
        flips += flipped
    return slots[:n], changes[:n], flips


@kernel
def settle_each(counts: Matrix, slots: Vector, signs: Vector, side: int, kind: int) -> tuple[Vector, Vector, int]:
    """Add signs to the counts of a side one by one; return every change of the answer as it comes, and the flips."""
    out, changes = np.empty(len(slots), np.int64), np.empty(len(slots), np.int64)
    n, flips = 0, 0
    for i in range(len(slots)):
        counts[slots[i], side] += signs[i]
        change, flipped = settle_one(counts, slots[i], kind)
        out[n], changes[n] = slots[i], change
        n += change != 0
        flips += flipped
    return out[:n], changes[:n], flips


@kernel
def repeat_rows(rows: Matrix, slots: Vector, times: Vector) -> tuple[Matrix, Vector]:
    """Return the rows of slots as often as the size of a number says, and the sign of it for each."""
    total = 0
    for t in times:
        total += abs(t)
    out, signs = np.empty((total, rows.shape[1]), np.int64), np.empty(total, np.int64)
    n = 0
    for i in range(len(slots)):
        if i + FAR < len(slots):
            prefetch_row(rows, slots[i + FAR])
        for _ in range(abs(times[i])):
            for k in range(rows.shape[1]):
                out[n, k] = rows[slots[i], k]
            signs[n] = 1 if times[i] > 0 else -1
            n += 1
    return out, signs


@kernel
def mark_counted(counts: Matrix, used: Mask) -> None:
    """Mark the first slots that are on a side or were given."""
    for slot in range(len(used)):
        used[slot] |= (counts[slot, 0] | counts[slot, 1] | counts[slot, 2]) != 0


@kernel
def add_known(counts: Vector, slots: Vector, change: int) -> None:
    """Change the counts of slots, each as often as it is there; -1 is none."""
    for i in range(len(slots)):
        if slots[i] >= 0:
            counts[slots[i]] += change


@kernel
def extend_ends(latest: Matrix, side: int, slots: Vector, until: Vector) -> Vector:
    """Raise the latest ends of slots; return those raised that were not marked, and mark them in the last column.

    What is looked at of a slot lies together. A mark is 0; there is none where the last column is negative.
    """
    mark = latest.shape[1] - 1
    out = np.empty(len(slots), np.int64)
    n = 0
    for i in range(len(slots)):
        if i + FAR < len(slots):
            prefetch_row(latest, slots[i + FAR])
        slot = slots[i]
        if until[i] > latest[slot, side]:
            latest[slot, side] = until[i]
            if latest[slot, mark] < 0:
                latest[slot, mark] = 0
                out[n] = slot
                n += 1
    return out[:n].copy()


@kernel
def take_extended(latest: Matrix, side: int, slots: Vector) -> Vector:
    """Return the latest ends of slots that were marked, and take the marks away."""
    out = np.empty(len(slots), np.int64)
    mark = latest.shape[1] - 1
    for i in range(len(slots)):
        if i + FAR < len(slots):
            prefetch_row(latest, slots[i + FAR])
        out[i] = latest[slots[i], side]
        latest[slots[i], mark] = -1
    return out


@kernel
def number_rows(slots: Vector, counts: Vector) -> Vector:
    """Return how many rows of its slot came before each row, and count them."""
    out = np.empty(len(slots), np.int64)
    for i in range(len(slots)):
        out[i] = counts[slots[i]]
        counts[slots[i]] += 1
    return out
