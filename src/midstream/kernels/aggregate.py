"""Aggregates of ranges: one number for each range of an array, where the ranges move forward only.

Range i is `[starts[i], ends[i])`; neither starts nor ends decrease. What can be taken back exactly (counts, whole
numbers, places) slides: each value enters once and leaves once. Sums of floats are in `float_sums`.
"""

import math

import numpy as np

from midstream.kernels.arrays import Floats, Limbs, Mask, Vector
from midstream.kernels.compile import Word, kernel


@kernel
def find_extremes(values: Vector, starts: Vector, ends: Vector, sign: int) -> Vector:
    """Return the place of the least (sign 1) or greatest (-1) value of each range, the first of equals; -1 if empty."""
    out = np.full(starts.size, -1, np.int64)
    queue = np.empty(values.size, np.int64)  # places whose values do not decrease, the best one first
    head, tail, entered = 0, 0, 0
    for i in range(starts.size):
        if starts[i] >= entered:
            head, tail, entered = 0, 0, starts[i]
        while entered < ends[i]:
            value = values[entered] if sign > 0 else ~values[entered]  # ~ turns the order round
            while tail > head and (values[queue[tail - 1]] if sign > 0 else ~values[queue[tail - 1]]) > value:
                tail -= 1
            queue[tail] = entered
            tail += 1
            entered += 1
        while head < tail and queue[head] < starts[i]:
            head += 1
        if head < tail:
            out[i] = queue[head]
    return out


@kernel
def find_earlier(codes: Vector, size: int) -> Vector:
    """Return the place of the value before with the same code, or -1; codes are below `size`."""
    last = np.full(size, -1, np.int64)
    out = np.empty(codes.size, np.int64)
    for i in range(codes.size):
        out[i] = last[codes[i]]
        last[codes[i]] = i
    return out


@kernel
def count_different(codes: Vector, size: int, starts: Vector, ends: Vector) -> Vector:
    """Count the different codes of each range; codes are below `size`."""
    out = np.empty(starts.size, np.int64)
    held = np.zeros(size, np.int64)
    left, entered, different = 0, 0, 0
    for i in range(starts.size):
        while left < min(starts[i], entered):
            held[codes[left]] -= 1
            different -= held[codes[left]] == 0
            left += 1
        if starts[i] >= entered:
            left, entered = starts[i], starts[i]
        while entered < ends[i]:
            different += held[codes[entered]] == 0
            held[codes[entered]] += 1
            entered += 1
        out[i] = different
    return out


@kernel
def add_limbs(total: Limbs, low: Word, high: Word) -> None:
    """Add a signed number of 128 bits to one of 192."""
    one, zero = np.uint64(1), np.uint64(0)
    first = total[0] + low
    second = total[1] + high
    carry = one if second < high else zero
    if first < low:
        second += one
        carry += one if second == zero else zero
    total[0], total[1] = first, second
    total[2] += carry - (high >> np.uint64(63))


@kernel
def take_limbs(total: Limbs, low: Word, high: Word) -> None:
    """Take a signed number of 128 bits off one of 192."""
    one, zero = np.uint64(1), np.uint64(0)
    borrow = one if total[1] < high else zero
    second = total[1] - high
    if total[0] < low:
        borrow += one if second == zero else zero
        second -= one
    total[0], total[1] = total[0] - low, second
    total[2] += (high >> np.uint64(63)) - borrow


@kernel
def add_wide(total: Limbs, other: Limbs) -> None:
    """Add a number of 192 bits to another one."""
    one, zero = np.uint64(1), np.uint64(0)
    first, second = total[0] + other[0], total[1] + other[1]
    carry = one if second < other[1] else zero
    if first < other[0]:
        second += one
        carry += one if second == zero else zero
    total[0], total[1] = first, second
    total[2] += other[2] + carry


@kernel
def take_wide(total: Limbs, other: Limbs) -> None:
    """Take a number of 192 bits off another one."""
    one, zero = np.uint64(1), np.uint64(0)
    borrow = one if total[1] < other[1] else zero
    second = total[1] - other[1]
    if total[0] < other[0]:
        borrow += one if second == zero else zero
        second -= one
    total[0], total[1] = total[0] - other[0], second
    total[2] -= other[2] + borrow


@kernel
def sum_exactly(low: Limbs, high: Limbs, codes: Vector, size: int, starts: Vector, ends: Vector) -> Limbs:
    """Add up the 128-bit numbers of each range, as three limbs of 64 bits, least first.

    Given codes (below `size`) of the numbers, each different one counts once; without, pass none.
    """
    out = np.empty((starts.size, 3), np.uint64)
    total = np.zeros(3, np.uint64)
    once = codes.size > 0
    held = np.zeros(size if once else 0, np.int64)
    left, entered = 0, 0
    for i in range(starts.size):
        while left < min(starts[i], entered):
            if once:
                held[codes[left]] -= 1
            if not once or held[codes[left]] == 0:
                take_limbs(total, low[left], high[left])
            left += 1
        if starts[i] >= entered:
            left, entered = starts[i], starts[i]
        while entered < ends[i]:
            if not once or held[codes[entered]] == 0:
                add_limbs(total, low[entered], high[entered])
            if once:
                held[codes[entered]] += 1
            entered += 1
        out[i, :] = total
    return out


@kernel
def size_of_limbs(totals: Limbs, i: Word) -> tuple[Word, Word, Word, Word]:
    """Return the limbs of a total without its sign, and whether it is negative."""
    zero, one = np.uint64(0), np.uint64(1)
    first, second, third = totals[i, 0], totals[i, 1], totals[i, 2]
    negative = (third >> np.uint64(63)) != zero
    if negative:
        first, second, third = ~first + one, ~second, ~third
        if first == zero:
            second += one
            third += one if second == zero else zero
    return first, second, third, negative


@kernel
def fit_limbs(totals: Limbs, limit_low: Word, limit_high: Word) -> Mask:
    """Tell which totals are between minus and plus a limit of 127 bits, both left out."""
    out = np.empty(totals.shape[0], np.bool_)
    for i in range(totals.shape[0]):
        first, second, third, _ = size_of_limbs(totals, i)
        below = second < limit_high or (second == limit_high and first < limit_low)
        out[i] = third == np.uint64(0) and below
    return out


@kernel
def round_limbs(totals: Limbs) -> Floats:
    """Return the double nearest to each total, half to even."""
    out = np.empty(totals.shape[0], np.float64)
    zero, one, top = np.uint64(0), np.uint64(1), np.uint64(63)
    for i in range(totals.shape[0]):
        first, second, third, negative = size_of_limbs(totals, i)
        lost, exponent = zero, 0
        while second != zero or third != zero:
            lost |= first & one
            first = (first >> one) | (second << top)
            second = (second >> one) | (third << top)
            third = third >> one
            exponent += 1
        # 64 bits are left, more than a double has: what was lost only decides between the two nearest.
        value = math.ldexp(np.float64(first | lost), exponent)
        out[i] = -value if negative else value
    return out


@kernel
def deviate(values: Floats, earlier: Vector, starts: Vector, ends: Vector) -> Floats:
    """Return the sample standard deviation of each range in two passes; NaN for fewer than two values.

    Given `earlier`, the first of equal values only (without, pass none).
    """
    out = np.empty(starts.size, np.float64)
    once = earlier.size > 0
    for i in range(starts.size):
        # Measured from the first value: equal values have no deviation at all.
        count, total, squares = 0, 0.0, 0.0
        for k in range(starts[i], ends[i]):
            if not once or earlier[k] < starts[i]:
                total += values[k] - values[starts[i]]
                count += 1
        if count < 2:
            out[i] = np.nan
            continue
        mean = total / count
        for k in range(starts[i], ends[i]):
            if not once or earlier[k] < starts[i]:
                away = values[k] - values[starts[i]] - mean
                squares += away * away
        out[i] = math.sqrt(squares / (count - 1))
    return out


@kernel
def add_rank(tree: Vector, rank: Word, change: Word) -> None:
    """Count a rank in or out of a Fenwick tree."""
    at = rank + 1
    while at < tree.size:
        tree[at] += change
        at += at & -at


@kernel
def find_rank(tree: Vector, place: Word) -> Word:
    """Return the rank of the value at a place, counted from 0 in ascending order, of those in a Fenwick tree."""
    at, step = 0, 1
    while step * 2 < tree.size:
        step *= 2
    while step > 0:
        if at + step < tree.size and tree[at + step] <= place:
            at += step
            place -= tree[at]
        step //= 2
    return at


@kernel
def find_middles(ranks: Vector, size: int, once: bool, starts: Vector, ends: Vector) -> tuple[Vector, Vector]:
    """Return the ranks of the two middle values of each range (the same for an odd number); -1 if it is empty.

    Ranks are dense and below `size`; with `once`, equal values count as one.
    """
    lower, upper = np.full(starts.size, -1, np.int64), np.full(starts.size, -1, np.int64)
    tree = np.zeros(size + 1, np.int64)
    held = np.zeros(size, np.int64)
    left, entered, count = 0, 0, 0
    for i in range(starts.size):
        while left < min(starts[i], entered):
            held[ranks[left]] -= 1
            if not once or held[ranks[left]] == 0:
                add_rank(tree, ranks[left], -1)
                count -= 1
            left += 1
        if starts[i] >= entered:
            left, entered = starts[i], starts[i]
        while entered < ends[i]:
            if not once or held[ranks[entered]] == 0:
                add_rank(tree, ranks[entered], 1)
                count += 1
            held[ranks[entered]] += 1
            entered += 1
        if count > 0:
            lower[i] = find_rank(tree, (count - 1) // 2)
            upper[i] = lower[i] if count % 2 else find_rank(tree, count // 2)
    return lower, upper
