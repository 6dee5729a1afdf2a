"""Text in UTF-8, many pieces end to end: search, match, cut and replace, each row with its own parameters.

A text is `data[offsets[i]:offsets[i + 1]]`. Where there is one text only, it is that of every row. Positions count
characters from 0.
"""

import numpy as np

from midstream.kernels.arrays import Bytes, Mask, Vector
from midstream.kernels.codes import copy_bytes, same_run
from midstream.kernels.compile import Word, kernel

ANY, ONE = ord("%"), ord("_")
"""What stands for any text and for any character in a pattern."""


@kernel
def place_of(offsets: Vector, row: Word) -> Word:
    """Return where the text of a row is."""
    return row if offsets.size > 2 else 0


@kernel
def byte_at(data: Bytes, at: Word) -> Word:
    """Return a byte. Without a sign a place needs no test for being counted from the end."""
    return data[np.uint64(at)]


@kernel
def width_at(data: Bytes, at: Word) -> Word:
    """Return how many bytes the character has that begins there."""
    first = byte_at(data, at)
    return 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4


@kernel
def width_before(data: Bytes, end: Word) -> Word:
    """Return how many bytes the character has that ends there."""
    at = end - 1
    while byte_at(data, at) & 0xC0 == 0x80:
        at -= 1
    return end - at


@kernel
def find(data: Bytes, start: Word, end: Word, part: Bytes, part_start: Word, size: Word) -> Word:
    """Return where a part first begins in a run of bytes, or -1."""
    if size == 0:
        return start
    first = part[part_start]
    for at in range(start, end - size + 1):
        if byte_at(data, at) == first and same_run(data, at, part, part_start, size):
            return at
    return -1


@kernel
def find_texts(rows: int, offsets: Vector, data: Bytes, part_offsets: Vector, parts: Bytes) -> Vector:
    """Return after how many characters of each text a part first begins, or -1."""
    out = np.empty(rows, np.int64)
    for i in range(rows):
        t, p = place_of(offsets, i), place_of(part_offsets, i)
        start = offsets[t]
        at = find(data, start, offsets[t + 1], parts, part_offsets[p], part_offsets[p + 1] - part_offsets[p])
        out[i] = -1
        if at >= 0:
            count = 0
            for k in range(start, at):
                count += byte_at(data, k) & 0xC0 != 0x80
            out[i] = count
    return out


@kernel
def begin_or_end(rows: int, offsets: Vector, data: Bytes, part_offsets: Vector, parts: Bytes, at_end: bool) -> Mask:
    """Tell which texts begin, or end, with a part."""
    out = np.empty(rows, np.bool_)
    for i in range(rows):
        t, p = place_of(offsets, i), place_of(part_offsets, i)
        size = part_offsets[p + 1] - part_offsets[p]
        fits = size <= offsets[t + 1] - offsets[t]
        start = offsets[t + 1] - size if at_end else offsets[t]
        out[i] = fits and same_run(data, start, parts, part_offsets[p], size)
    return out


@kernel
def match_pattern(
    data: Bytes, at: Word, end: Word, pattern: Bytes, p: Word, p_end: Word, escape: Bytes, e: Word, e_size: Word
) -> bool:
    """Tell whether a text is like a pattern; after the escape the next character stands for itself."""
    again_p, again_at = np.int64(-1), np.int64(-1)
    wanted = 0  # the byte that must follow the last %, if it is known
    while at < end or p < p_end:
        if p < p_end:
            escaped = e_size > 0 and p + e_size < p_end and same_run(pattern, p, escape, e, e_size)
            if not escaped and pattern[p] == ANY and not (e_size == 1 and escape[e] == ANY):
                p += 1
                if p == p_end:
                    return True
                again_p, again_at = p, at
                following = byte_at(pattern, p)
                wanted = 0 if e_size > 0 or following == ANY or following == ONE else following
                continue
            if at < end:
                if not escaped and pattern[p] == ONE and not (e_size == 1 and escape[e] == ONE):
                    p += 1
                    at += width_at(data, at)
                    continue
                q = p + e_size if escaped else p
                size = width_at(pattern, q)
                if at + size <= end and same_run(data, at, pattern, q, size):
                    p = q + size
                    at += size
                    continue
        # Let the last % take one character more.
        if again_p < 0 or again_at >= end:
            return False
        again_at += width_at(data, again_at)
        while wanted != 0 and again_at < end and byte_at(data, again_at) != wanted:
            again_at += 1
        p, at = again_p, again_at
    return True


@kernel
def like_patterns(
    rows: int,
    offsets: Vector,
    data: Bytes,
    pattern_offsets: Vector,
    patterns: Bytes,
    escape_offsets: Vector,
    escapes: Bytes,
) -> Mask:
    """Tell which texts are like their patterns; the first character of an escape counts, an empty one is none."""
    out = np.empty(rows, np.bool_)
    for i in range(rows):
        t, p, e = place_of(offsets, i), place_of(pattern_offsets, i), place_of(escape_offsets, i)
        first = escape_offsets[e]
        escape_size = width_at(escapes, first) if first < escape_offsets[e + 1] else 0
        out[i] = match_pattern(
            data, offsets[t], offsets[t + 1], patterns, pattern_offsets[p], pattern_offsets[p + 1],
            escapes, first, escape_size,
        )  # fmt: skip
    return out


@kernel
def copied(starts: Vector, ends: Vector, data: Bytes) -> tuple[Vector, Bytes]:
    """Copy runs of bytes end to end; return their offsets and bytes."""
    offsets = np.empty(starts.size + 1, np.int64)
    offsets[0] = 0
    for i in range(starts.size):
        offsets[i + 1] = offsets[i] + ends[i] - starts[i]
    out = np.empty(offsets[-1], np.uint8)
    for i in range(starts.size):
        copy_bytes(out, offsets[i], data, starts[i], ends[i] - starts[i])
    return offsets, out


@kernel
def cut(rows: int, offsets: Vector, data: Bytes, begins: Vector, ends: Vector, plain: bool) -> tuple[Vector, Bytes]:
    """Take the characters from `begins` to before `ends` out of each text, as far as it has them.

    `plain`: every character is a byte.
    """
    out_starts, out_ends = np.empty(rows, np.int64), np.empty(rows, np.int64)
    for i in range(rows):
        t = place_of(offsets, i)
        at, end = offsets[t], offsets[t + 1]
        if plain:
            out_starts[i] = at + min(max(begins[i], 0), end - at)
            out_ends[i] = max(out_starts[i], at + min(ends[i], end - at))
            continue
        passed = 0
        while passed < begins[i] and at < end:
            at += width_at(data, at)
            passed += 1
        out_starts[i] = at
        while passed < ends[i] and at < end:
            at += width_at(data, at)
            passed += 1
        out_ends[i] = at
    return copied(out_starts, out_ends, data)


@kernel
def trim(
    rows: int, offsets: Vector, data: Bytes, set_offsets: Vector, sets: Bytes, at_start: bool, at_end: bool
) -> tuple[Vector, Bytes]:
    """Take characters of a set off the start and the end of each text."""
    out_starts, out_ends = np.empty(rows, np.int64), np.empty(rows, np.int64)
    for i in range(rows):
        t, s = place_of(offsets, i), place_of(set_offsets, i)
        start, end = offsets[t], offsets[t + 1]
        while at_start and start < end:
            size = width_at(data, start)
            if find(sets, set_offsets[s], set_offsets[s + 1], data, start, size) < 0:
                break
            start += size
        while at_end and start < end:
            size = width_before(data, end)
            if find(sets, set_offsets[s], set_offsets[s + 1], data, end - size, size) < 0:
                break
            end -= size
        out_starts[i], out_ends[i] = start, end
    return copied(out_starts, out_ends, data)


@kernel
def next_part(data: Bytes, at: Word, end: Word, parts: Bytes, start: Word, size: Word) -> Word:
    """Return where the next separator begins, or -1; an empty one is between characters."""
    if size > 0:
        return find(data, at, end, parts, start, size)
    if at >= end:
        return -1
    after = at + width_at(data, at)
    return after if after < end else -1


@kernel
def split_part(
    rows: int, offsets: Vector, data: Bytes, part_offsets: Vector, parts: Bytes, numbers: Vector
) -> tuple[Vector, Bytes]:
    """Take the part with a number, from 1, or from -1 backwards, of each text that separators split; or nothing."""
    out_starts, out_ends = np.empty(rows, np.int64), np.empty(rows, np.int64)
    for i in range(rows):
        t, p = place_of(offsets, i), place_of(part_offsets, i)
        at, end = offsets[t], offsets[t + 1]
        start, size = part_offsets[p], part_offsets[p + 1] - part_offsets[p]
        number = numbers[i]
        if number < 0:
            count, place = 1, next_part(data, at, end, parts, start, size)
            while place >= 0:
                count += 1
                place = next_part(data, place + size, end, parts, start, size)
            number += count + 1
        place = at
        while number > 1 and place >= 0:
            place = next_part(data, at, end, parts, start, size)
            at = place + size
            number -= 1
        if number < 1 or place < 0:
            at = end
        stop = next_part(data, at, end, parts, start, size)
        out_starts[i], out_ends[i] = at, stop if stop >= 0 else end
    return copied(out_starts, out_ends, data)


@kernel
def replace_texts(
    rows: int, offsets: Vector, data: Bytes, old_offsets: Vector, olds: Bytes, new_offsets: Vector, news: Bytes
) -> tuple[Vector, Bytes]:
    """Put another text in the place of a part, wherever it is in each text; an empty part is nowhere."""
    out_offsets = np.empty(rows + 1, np.int64)
    out_offsets[0] = 0
    out = np.empty(0, np.uint8)
    for writes in range(2):
        filled: Word = 0
        for i in range(rows):
            t, o, n = place_of(offsets, i), place_of(old_offsets, i), place_of(new_offsets, i)
            at, end = offsets[t], offsets[t + 1]
            old, old_size = old_offsets[o], old_offsets[o + 1] - old_offsets[o]
            new, new_size = new_offsets[n], new_offsets[n + 1] - new_offsets[n]
            while at <= end:
                place = find(data, at, end, olds, old, old_size) if old_size > 0 else -1
                stop = place if place >= 0 else end
                if writes:
                    copy_bytes(out, filled, data, at, stop - at)
                filled += stop - at
                if place < 0:
                    break
                if writes:
                    copy_bytes(out, filled, news, new, new_size)
                filled += new_size
                at = place + old_size
            out_offsets[i + 1] = filled
        if not writes:
            out = np.empty(filled, np.uint8)
    return out_offsets, out


@kernel
def repeat_to(rows: int, offsets: Vector, data: Bytes, counts: Vector) -> tuple[Vector, Bytes]:
    """Repeat each text until there are as many characters as asked; an empty one stays empty."""
    out_offsets = np.empty(rows + 1, np.int64)
    out_offsets[0] = 0
    out = np.empty(0, np.uint8)
    for writes in range(2):
        filled: Word = 0
        for i in range(rows):
            t = place_of(offsets, i)
            at, end = offsets[t], offsets[t + 1]
            for _ in range(counts[i] if at < end else 0):
                size = width_at(data, at)
                if writes:
                    copy_bytes(out, filled, data, at, size)
                filled += size
                at = at + size if at + size < end else offsets[t]
            out_offsets[i + 1] = filled
        if not writes:
            out = np.empty(filled, np.uint8)
    return out_offsets, out
