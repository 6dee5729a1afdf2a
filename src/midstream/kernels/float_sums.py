"""Exact sums of floats: no order of adding, uniting and taking off makes a difference.

    float = mantissa * 2**n ──▶ added to three digits of 32 bits of a line ──▶ carried, and rounded once, to the nearest

A line is how many NaN, infinite and negative infinite values there are, and digits, least first, from some digit on.
Each digit is a signed number of 64 bits: carries wait until `MOST` values have been added. Digit 0 begins at the least
bit of a double.

A sum can also be held, as words: the first digit that is not 0 and what is not finite, then the digits to the last
that is not 0.
"""

import math

import numpy as np

from midstream.kernels.arrays import Floats, Matrix, Vector
from midstream.kernels.bag import NULL
from midstream.kernels.compile import Word, kernel

SPECIAL = 3
"""Columns of a line before its digits."""
DIGITS = 66
"""Digits that every sum of doubles fits in."""
SPREAD = 3
"""Digits that a double is added to."""
MOST = 1 << 29
"""Values that can be added to a line before its digits are carried."""
SHORT = 32
"""Values that are added up anew sooner than that others are taken off."""
LOW = (1 << 32) - 1
LEAST = 1074
"""The least bit of a double is `2**-LEAST`."""


@kernel
def first_digit(bits: Word) -> Word:
    """Return the first digit that a double is added to; -1 for 0 and for what is not finite."""
    exponent = (bits >> 52) & 0x7FF
    if exponent == 0x7FF or bits & 0x7FFFFFFFFFFFFFFF == 0:
        return -1
    return max(exponent - 1, 0) >> 5


@kernel
def add_float(line: Vector, base: Word, bits: Word, sign: Word) -> Word:
    """Add a double to a line whose digits begin with digit `base`, or take it off; return as `first_digit` does."""
    exponent = (bits >> 52) & 0x7FF
    mantissa = bits & 0xFFFFFFFFFFFFF
    if exponent == 0x7FF:
        line[0 if mantissa != 0 else 1 if bits > 0 else 2] += sign
        return -1
    if exponent != 0:
        mantissa |= 1 << 52
        exponent -= 1
    elif mantissa == 0:
        return -1
    if bits < 0:
        sign = -sign
    digit, shift = exponent >> 5, exponent & 31
    low, high = (mantissa & LOW) << shift, (mantissa >> 32) << shift
    at = SPECIAL + digit - base
    line[at] += sign * (low & LOW)
    line[at + 1] += sign * ((low >> 32) + (high & LOW))
    line[at + 2] += sign * (high >> 32)
    return digit


@kernel
def carry(line: Vector, first: Word, last: Word) -> None:
    """Carry the digits at some places, so that all but the last, which has the sign, have 32 bits."""
    for k in range(first, last):
        over = line[k] >> 32
        line[k] -= over << 32
        line[k + 1] += over


@kernel
def round_line(line: Vector, first: Word, last: Word, digit: Word) -> float:
    """Return the double nearest to the sum of a line, half to even; its digits at other places are 0.

    `digit` is that at place `first`. The line is another one of the same sum afterwards.
    """
    if line[0] > 0 or (line[1] > 0 and line[2] > 0):
        return np.nan
    if line[1] > 0 or line[2] > 0:
        return np.inf if line[1] > 0 else -np.inf
    if first > last:
        return 0.0
    carry(line, first, last)
    sign = -1 if line[last] < 0 else 1
    if sign < 0:
        for k in range(first, last + 1):
            line[k] = -line[k]
        carry(line, first, last)
    top = last
    while top > first and line[top] == 0:
        top -= 1
    if line[top] == 0:
        return 0.0
    # The 64 bits from the highest on, more than a double has: what is lost only decides between the two nearest.
    _, size = math.frexp(float(line[top]))
    room = 64 - size
    word, lost = np.uint64(line[top]) << np.uint64(room), False
    exponent = 32 * (digit + top - first) - LEAST - room
    for k in range(top - 1, first - 1, -1):
        if room >= 32:
            room -= 32
            word |= np.uint64(line[k]) << np.uint64(room)
        else:
            word |= np.uint64(line[k]) >> np.uint64(32 - room)
            lost = lost or line[k] & ((1 << (32 - room)) - 1) != 0
            room = 0
    value = math.ldexp(np.float64(word | np.uint64(1 if lost else 0)), exponent)
    if sign < 0:
        for k in range(first, last + 1):
            line[k] = -line[k]
    return sign * value


@kernel
def clear(line: Vector, first: Word, last: Word) -> None:
    """Make a line that of no values; its digits at other places are 0."""
    line[:SPECIAL] = 0
    line[first : last + 1] = 0


@kernel
def sum_in_two(values: Floats, earlier: Vector, start: Word, end: Word) -> tuple[float, bool]:
    """Add up a range in two doubles, what is rounded off the one being added to the other; return whether they held it.

    Most sums of a few values fit. Given `earlier`, the first of equal values only (without, pass none).
    """
    once = earlier.size > 0
    total, rest, lost = 0.0, 0.0, False
    for k in range(start, end):
        if once and earlier[k] >= start:
            continue
        more = total + values[k]
        own = more - total
        off = (total - (more - own)) + (values[k] - own)
        total = more
        more = rest + off
        own = more - rest
        lost |= (rest - (more - own)) + (off - own) != 0.0  # or NaN
        rest = more
    return total + rest, not lost


@kernel
def sum_floats(values: Floats, earlier: Vector, starts: Vector, ends: Vector) -> Floats:
    """Add up each range; given `earlier`, the first of equal values only (without, pass none)."""
    out = np.empty(starts.size, np.float64)
    bits = values.view(np.int64)
    once = earlier.size > 0
    line = np.zeros(SPECIAL + DIGITS, np.int64)
    first, last, added = line.size, -1, 0
    left, entered = 0, 0
    for i in range(starts.size):
        # What ranges have in common stays, where that is most of them and they are long.
        anew = once or starts[i] - left > entered - starts[i]
        if anew or ends[i] - starts[i] <= SHORT:
            out[i], exact = sum_in_two(values, earlier, starts[i], ends[i])
            if exact:
                continue
        if anew:
            clear(line, first, last)
            first, last, added, left, entered = line.size, -1, 0, starts[i], starts[i]
        added += starts[i] - left + ends[i] - entered
        if added > MOST and first <= last:
            carry(line, first, last)
            added = starts[i] - left + ends[i] - entered
        while left < starts[i]:
            add_float(line, 0, bits[left], -1)
            left += 1
        for k in range(entered, ends[i]):
            if not once or earlier[k] < starts[i]:
                digit = add_float(line, 0, bits[k], 1)
                if digit >= 0:
                    first, last = min(first, SPECIAL + digit), max(last, SPECIAL + digit + SPREAD - 1)
        entered = max(entered, ends[i])
        out[i] = round_line(line, first, last, first - SPECIAL)
    return out


@kernel
def find_digits(codes: Matrix, column: int) -> tuple[Word, Word]:
    """Return the first and the last digit that the floats with some codes are added to; (DIGITS, -1) for none."""
    first, last = DIGITS, -1
    for i in range(codes.shape[0]):
        code = codes[i, column]
        digit = -1 if code == NULL else first_digit(code if code >= 0 else -code)
        if digit >= 0:
            first, last = min(first, digit), max(last, digit + SPREAD - 1)
    return first, last


@kernel
def add_floats(totals: Matrix, place: int, base: int, slots: Vector, signs: Vector, codes: Matrix, column: int) -> None:
    """Count floats in and out of groups, and add them to the lines after the counts; NULL is left out.

    They are a column of `codes`, which are their bits but for the sign (see `code_floats`).
    """
    for i in range(len(slots)):
        code = codes[i, column]
        if code == NULL:
            continue
        slot = slots[i]
        totals[slot, place] += signs[i]
        add_float(totals[slot, place + 1 :], base, code if code >= 0 else -code | np.int64(-(2**63)), signs[i])


@kernel
def carry_lines(totals: Matrix, place: int, digits: int) -> None:
    """Carry the digits of lines that begin at a place of the totals."""
    first = place + SPECIAL
    for i in range(totals.shape[0] if digits else 0):
        carry(totals[i], first, first + digits - 1)


@kernel
def round_lines(totals: Matrix, place: int, digits: int, base: int) -> Floats:
    """Return the doubles nearest to the sums of lines that begin at a place of the totals, and carry them."""
    out = np.empty(totals.shape[0], np.float64)
    for i in range(totals.shape[0]):
        out[i] = round_line(totals[i, place:], SPECIAL, SPECIAL + digits - 1, base)
    return out


@kernel
def grown_words(words: Vector, need: Word) -> Vector:
    """Return words with room for some more than there are."""
    if need <= words.size:
        return words
    out = np.empty(max(need, 2 * words.size), np.int64)
    out[: words.size] = words
    return out


@kernel
def write_held(line: Vector, first: Word, last: Word, words: Vector, count: Word) -> Word:
    """Write the sum of a line, whose digits at other places are 0, as words after so many; return how many follow."""
    if first <= last:
        carry(line, first, last)
    while first <= last and line[last] == 0:
        last -= 1
    while first < last and line[first] == 0:
        first += 1
    words[count] = (line[0] > 0) | (line[1] > 0) << 1 | (line[2] > 0) << 2
    if first > last:
        return 1
    words[count] |= (first - SPECIAL) << SPECIAL
    words[count + 1 : count + 2 + last - first] = line[first : last + 1]
    return 2 + last - first


@kernel
def hold_floats(values: Floats, starts: Vector, ends: Vector) -> tuple[Vector, Vector]:
    """Hold the sum of each range of floats: where its words begin and, at last, end, and all words; none of no values.

    Ranges are of a few values.
    """
    bits = values.view(np.int64)
    line = np.zeros(SPECIAL + DIGITS, np.int64)
    begin = np.zeros(starts.size + 1, np.int64)
    words = np.empty(4 * starts.size + line.size, np.int64)
    for i in range(starts.size):
        first, last = line.size, -1
        for k in range(starts[i], ends[i]):
            digit = add_float(line, 0, bits[k], 1)
            if digit >= 0:
                first, last = min(first, SPECIAL + digit), max(last, SPECIAL + digit + SPREAD - 1)
        begin[i + 1] = begin[i]
        if starts[i] < ends[i]:
            words = grown_words(words, begin[i] + line.size)
            begin[i + 1] += write_held(line, first, last, words, begin[i])
            clear(line, first, last)
    return begin, words[: begin[-1]].copy()


@kernel
def unite_held(begin: Vector, words: Vector, starts: Vector, ends: Vector) -> tuple[Vector, Vector, Floats]:
    """Unite sums that are held, range by range: as `hold_floats` does, and the doubles nearest to them."""
    line = np.zeros(SPECIAL + DIGITS, np.int64)
    out_begin = np.zeros(starts.size + 1, np.int64)
    out_words, out = np.empty(4 * starts.size + line.size, np.int64), np.empty(starts.size, np.float64)
    for i in range(starts.size):
        first, last, added, some = line.size, -1, 0, False
        for k in range(starts[i], ends[i]):
            if begin[k] == begin[k + 1]:
                continue
            some = True
            head, size = words[begin[k]], begin[k + 1] - begin[k] - 1
            for bit in range(SPECIAL):
                line[bit] += (head >> bit) & 1
            if size:
                at = SPECIAL + (head >> SPECIAL)
                line[at : at + size] += words[begin[k] + 1 : begin[k + 1]]
                first, last = min(first, at), min(max(last, at + size), line.size - 1)
            added += 1
            if added > MOST and first <= last:
                carry(line, first, last)
                added = 0
        out[i] = round_line(line, first, last, first - SPECIAL)
        out_begin[i + 1] = out_begin[i]
        if some:
            out_words = grown_words(out_words, out_begin[i] + line.size)
            out_begin[i + 1] += write_held(line, first, last, out_words, out_begin[i])
        clear(line, first, last)
    return out_begin, out_words[: out_begin[-1]].copy(), out
