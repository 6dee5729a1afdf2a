"""Groups: counts and exact sums of the tuples of each, when tuples end, and what changes of the rows groups give.

A group is a slot. `totals[slot]` has its tuples, and from the place of an argument on how many of its values are not
NULL and, if they are summed, three limbs of 64 bits, least first, or the line of a sum of floats (see `float_sums`): no
order of adding and taking off makes a difference.
A portion is what some tuples of a group that end together add to its totals: how many they are, and a line of the
other columns.
"""

import numpy as np

from midstream.kernels.aggregate import add_limbs, add_wide, take_limbs, take_wide
from midstream.kernels.arrays import Limbs, Mask, Matrix, Vector
from midstream.kernels.bag import FAR, NULL
from midstream.kernels.compile import kernel
from midstream.kernels.prefetch import prefetch_row

COUNTED, WHOLE, DECIMAL, FLOAT = 0, 1, 2, 3
"""What is kept of an argument: a count; that and the sum of whole numbers, of decimals, or of floats."""
LIMBS = 3
BLOCK = 256
"""Ends of which the least is known."""
TAKEN = 2**63 - 1
"""In the place of an end that was taken out."""


@kernel
def add_portions(
    totals: Matrix, limbs: Limbs, slots: Vector, portions: Matrix, portion_limbs: Limbs, counts: Vector, sums: Vector,
    off: bool,
) -> None:  # fmt: skip
    """Add portions to the totals of groups, or take them off.

    `counts` are the columns of the totals that are added one by one, `sums` those where limbs begin; a portion has the
    same columns but the first.
    """
    for i in range(len(slots)):
        if i + FAR < len(slots):
            prefetch_row(totals, slots[i + FAR])
        slot = slots[i]
        for k in counts:
            totals[slot, k] += -portions[i, k - 1] if off else portions[i, k - 1]
        for k in sums:
            if off:
                take_wide(limbs[slot, k : k + LIMBS], portion_limbs[i, k - 1 : k - 1 + LIMBS])
            else:
                add_wide(limbs[slot, k : k + LIMBS], portion_limbs[i, k - 1 : k - 1 + LIMBS])


@kernel
def add_values(
    totals: Matrix, limbs: Limbs, place: int, kind: int, slots: Vector, signs: Vector, codes: Matrix, column: int,
    words: Limbs,
) -> None:  # fmt: skip
    """Count the values of an argument in and out of groups, and maybe sum them; NULL is left out.

    They are a column of `codes`. Whole numbers are their own codes, `words` has the low and high word of each decimal.
    `limbs` are the totals as unsigned numbers.
    """
    for i in range(len(slots)):
        if i + FAR < len(slots):
            prefetch_row(totals, slots[i + FAR])
        value = codes[i, column]
        if value == NULL:
            continue
        slot = slots[i]
        totals[slot, place] += signs[i]
        if kind == COUNTED:
            continue
        if kind == WHOLE:
            low, high = np.uint64(value), np.uint64(value >> 63)
        else:
            low, high = words[i, 0], words[i, 1]
        total = limbs[slot, place + 1 : place + 1 + LIMBS]
        if signs[i] > 0:
            add_limbs(total, low, high)
        else:
            take_limbs(total, low, high)


@kernel
def enter_ends(
    ends: Vector, entries: Matrix, least: Vector, count: int,
    slots: Vector, until: Vector, signs: Vector, rows: Matrix, columns: Vector, forever: int,
) -> int:  # fmt: skip
    """Enter slot, sign and some columns of tuples after those there are, but of tuples without an end."""
    for i in range(len(slots)):
        if until[i] >= forever:
            continue
        ends[count], entries[count, 0], entries[count, 1] = until[i], slots[i], signs[i]
        for k in range(len(columns)):
            entries[count, 2 + k] = rows[i, columns[k]]
        block = count // BLOCK
        if count % BLOCK == 0 or until[i] < least[block]:
            least[block] = until[i]
        count += 1
    return count


@kernel
def take_ends(ends: Vector, entries: Matrix, least: Vector, count: int, now_us: int) -> tuple[Vector, Vector, Matrix]:
    """Take out the entries that end before a time; return slots, signs and columns.

    Only blocks of entries that have one are looked at.
    """
    n = 0
    for start in range(0, count, BLOCK):
        if least[start // BLOCK] < now_us:
            for i in range(start, min(start + BLOCK, count)):
                n += ends[i] < now_us
    width = entries.shape[1] - 2
    slots, signs, codes = np.empty(n, np.int64), np.empty(n, np.int64), np.empty((n, width), np.int64)
    n = 0
    for start in range(0, count, BLOCK):
        if least[start // BLOCK] >= now_us:
            continue
        first = TAKEN
        for i in range(start, min(start + BLOCK, count)):
            if ends[i] < now_us:
                slots[n], signs[n] = entries[i, 0], entries[i, 1]
                for k in range(width):
                    codes[n, k] = entries[i, 2 + k]
                n += 1
                ends[i] = TAKEN
            elif ends[i] < first:
                first = ends[i]
        least[start // BLOCK] = first
    return slots, signs, codes


@kernel
def keep_ends(ends: Vector, entries: Matrix, least: Vector, count: int) -> int:
    """Move the entries that were not taken out to the front, in their order; return how many there are."""
    kept = 0
    for i in range(count):
        if ends[i] == TAKEN:
            continue
        if kept != i:
            ends[kept] = ends[i]
            for k in range(entries.shape[1]):
                entries[kept, k] = entries[i, k]
        block = kept // BLOCK
        if kept % BLOCK == 0 or ends[i] < least[block]:
            least[block] = ends[i]
        kept += 1
    return kept


@kernel
def mark_ends(ends: Vector, entries: Matrix, count: int, used: Mask) -> None:
    """Mark the slots of the entries that were not taken out."""
    for i in range(count):
        if ends[i] != TAKEN:
            used[entries[i, 0]] = True


@kernel
def renumber_ends(ends: Vector, entries: Matrix, count: int, numbers: Vector) -> None:
    """Follow the slots of the entries that were not taken out to their new numbers."""
    for i in range(count):
        if ends[i] != TAKEN:
            entries[i, 0] = numbers[entries[i, 0]]


@kernel
def best_of_lots(lots: Vector, ranks: Vector, count: int) -> Vector:
    """Return for each lot, of so many, the place of the least rank, the first of equals; every lot has one."""
    out = np.full(count, -1, np.int64)
    for i in range(len(lots)):
        best = out[lots[i]]
        if best < 0 or ranks[i] < ranks[best]:
            out[lots[i]] = i
    return out


@kernel
def keep_steps(held: Matrix, ranks: Vector, order: Vector) -> Vector:
    """Return the places of the values that will be the best of their group once those that end sooner are over.

    `held` has group, value and end of each, `order` goes by group, the last end first, and the best of equal ends.
    """
    out = np.empty(len(order), np.int64)
    n = 0
    for i in order:
        if n == 0 or held[i, 0] != held[out[n - 1], 0] or ranks[i] < ranks[out[n - 1]]:
            out[n] = i
            n += 1
    return out[:n].copy()


@kernel
def change_rows(
    keys: Matrix, given: Matrix, has: Mask, chosen: Vector, there: Mask, results: Matrix
) -> tuple[Matrix, Vector]:
    """Give chosen groups other results, or none; return the rows that go and those that come, with their signs.

    `has` tells which groups have given a row, `given` what was in it after the keys.
    """
    changed = np.empty(len(chosen), np.bool_)
    going, coming = 0, 0
    for i in range(len(chosen)):
        slot = chosen[i]
        differs = has[slot] != there[i]
        if has[slot] and there[i]:
            for k in range(results.shape[1]):
                if given[slot, k] != results[i, k]:
                    differs = True
                    break
        changed[i] = differs
        going += differs and has[slot]
        coming += differs and there[i]
    width = keys.shape[1]
    rows, signs = np.empty((going + coming, width + results.shape[1]), np.int64), np.empty(going + coming, np.int64)
    old, new = 0, going
    for i in range(len(chosen)):
        if not changed[i]:
            continue
        slot = chosen[i]
        if has[slot]:
            for k in range(width):
                rows[old, k] = keys[slot, k]
            for k in range(results.shape[1]):
                rows[old, width + k] = given[slot, k]
            signs[old] = -1
            old += 1
        if there[i]:
            for k in range(width):
                rows[new, k] = keys[slot, k]
            for k in range(results.shape[1]):
                rows[new, width + k] = given[slot, k] = results[i, k]
            signs[new] = 1
            new += 1
        has[slot] = there[i]
    return rows, signs
