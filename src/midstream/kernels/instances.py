"""Instances of windows: which of them close, which rows they hold, and which of those are in which group."""

import numpy as np

from midstream.kernels.arrays import Mask, Vector
from midstream.kernels.compile import Word, kernel


@kernel
def close_times(
    times: Vector, closed: int, limit: int, width: int, slide: int, out: Vector, lows: Vector, highs: Vector
) -> int:
    """Find the multiples T of `slide`, `closed` < T <= `limit`, that have rows with T - width <= time < T.

    Write each T and its range of rows, and return how many there are; with nothing to write to, only count them.
    """
    count, last, low, high = 0, closed, 0, 0
    for i in range(times.size):
        if times[i] >= limit or last >= limit:
            break
        first = (times[i] // slide + 1) * slide
        if first <= last:
            first = last + slide
        final = min((times[i] + width) // slide * slide, limit)
        if first > final:
            continue
        last = final
        if out.size == 0:
            count += (final - first) // slide + 1
            continue
        for t in range(first, final + 1, slide):
            while times[low] < t - width:
                low += 1
            high = max(high, low)
            while high < times.size and times[high] < t:
                high += 1
            out[count], lows[count], highs[count] = t, low, high
            count += 1
    return count


@kernel
def follow_conditions(starts: Mask, ends: Mask, is_open: bool) -> tuple[Mask, Mask, bool]:
    """Tell which rows are inside a window and which close one, and whether one is open afterwards."""
    inside, closes = np.zeros(starts.size, np.bool_), np.zeros(starts.size, np.bool_)
    for i in range(starts.size):
        is_open = is_open or starts[i]
        inside[i] = is_open
        closes[i] = is_open and ends[i]
        is_open = is_open and not ends[i]
    return inside, closes, is_open


@kernel
def needed(count: Word, size: Word, slide: Word) -> Word:
    """Return how many of the last rows of a key an open instance holds, `count` rows of it having come."""
    start = (count - size) // slide * slide + slide if count >= size else 0
    return max(count - start, 0)


@kernel
def kept(count: Word, size: Word, slide: Word) -> Word:
    """Return how many of the last rows of a key to keep: between instances its last one, which tells the count."""
    held = needed(count, size, slide)
    return 1 if held == 0 and count % slide else held


@kernel
def count_rows(
    slots: Vector, first: int, counts: Vector, lasts: Vector, nths: Vector, links: Vector, size: int, slide: int
) -> tuple[Vector, int]:
    """Number rows within their keys and link each to the one before.

    The rows lie at places `first`, `first` + 1, ... and belong to the keys in `slots`. `counts` and `lasts` have the
    number of rows and the place of the last one of each key; `nths` and `links` are filled in. Return the rows that
    close an instance, by their index in `slots`, and by how much the rows to keep have become more.
    """
    closers = np.empty(slots.size, np.int64)
    found, more = 0, 0
    for i in range(slots.size):
        slot = slots[i]
        count = counts[slot]
        nths[i], links[i] = count, lasts[slot]
        counts[slot], lasts[slot] = count + 1, first + i
        more += kept(count + 1, size, slide) - kept(count, size, slide)
        if count + 1 >= size and (count + 1 - size) % slide == 0:
            closers[found] = i
            found += 1
    return closers[:found], more


@kernel
def take_owed(slots: Vector, counts: Vector, owed: Vector) -> tuple[Mask, int]:
    """Tell which rows their keys still wait for, and how many keys have got their last one.

    `slots` are the keys of the rows or -1, `counts` how many rows each has, `owed` how many it will take.
    """
    out = np.zeros(slots.size, np.bool_)
    taken = np.zeros(counts.size, np.int64)
    done = 0
    for i in range(slots.size):
        key = slots[i]
        if key >= 0 and counts[key] + taken[key] < owed[key]:
            out[i] = True
            taken[key] += 1
            if counts[key] + taken[key] == owed[key]:
                done += 1
    return out, done


@kernel
def link_rows(slots: Vector, counts: Vector, lasts: Vector, nths: Vector, links: Vector) -> None:
    """Link rows that know their number within their key already."""
    for i in range(slots.size):
        links[i] = lasts[slots[i]]
        counts[slots[i]], lasts[slots[i]] = nths[i] + 1, i


@kernel
def mark_rows(counts: Vector, lasts: Vector, links: Vector, size: int, slide: int, also: int) -> Mask:
    """Tell which rows an open instance holds (also 0), are to be kept (1), or are kept or the last of a key (2)."""
    out = np.zeros(links.size, np.bool_)
    for key in range(counts.size):
        at = lasts[key]
        held = needed(counts[key], size, slide) if also == 0 else kept(counts[key], size, slide)
        for _ in range(max(held, 1) if also == 2 else held):
            out[at] = True
            at = links[at]
    return out


@kernel
def gather_rows(closers: Vector, slots: Vector, nths: Vector, links: Vector, size: int) -> tuple[Vector, Vector]:
    """Return the rows that instances hold, key by key in order, each once; and where the rows of each instance start.

    `closers` are the places of the rows that closed the instances, those of a key (`slots`) together and in order.
    """
    lows = np.empty(closers.size, np.int64)
    total = 0
    for fill in range(2):
        places = np.empty(total, np.int64)
        total, i = 0, 0
        while i < closers.size:
            end = i + 1
            while end < closers.size and slots[end] == slots[i]:
                end += 1
            first = nths[closers[i]] + 1 - size
            length = nths[closers[end - 1]] + 1 - first
            if fill:
                at = closers[end - 1]
                for k in range(total + length - 1, total - 1, -1):
                    places[k] = at
                    at = links[at]
                for k in range(i, end):
                    lows[k] = total + nths[closers[k]] + 1 - size - first
            total += length
            i = end
    return places, lows


@kernel
def sort_codes(codes: Vector, size: int) -> tuple[Vector, Vector]:
    """Return places ordered by code, those of equal codes as they came; and where each code below `size` starts."""
    starts = np.zeros(size + 1, np.int64)
    for i in range(codes.size):
        starts[codes[i] + 1] += 1
    for code in range(size):
        starts[code + 1] += starts[code]
    free = starts[:size].copy()
    order = np.empty(codes.size, np.int64)
    for i in range(codes.size):
        order[free[codes[i]]] = i
        free[codes[i]] += 1
    return order, starts


@kernel
def find_groups(rows: Vector, starts: Vector, lows: Vector, highs: Vector) -> tuple[Vector, Vector, Vector]:
    """Find the instances that hold rows of each group: instance, and the range of `rows` in it.

    Group g has the ascending `rows[starts[g]:starts[g + 1]]`; instance i holds the rows of `[lows[i], highs[i])`,
    neither of which decreases.
    """
    count = 0
    for fill in range(2):
        instances, firsts, ends = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
        count = 0
        for group in range(starts.size - 1):
            first, end, limit = starts[group], starts[group], starts[group + 1]
            i = 0
            while first < limit:
                # The first instance from i on that ends after the row: the others have no more rows of this group.
                if i < highs.size and highs[i] <= rows[first]:
                    i += np.searchsorted(highs[i:], rows[first], "right")
                if i == highs.size:
                    break
                while first < limit and rows[first] < lows[i]:
                    first += 1
                if first == limit or rows[first] >= highs[i]:
                    continue
                end = max(end, first)
                while end < limit and rows[end] < highs[i]:
                    end += 1
                if fill:
                    instances[count], firsts[count], ends[count] = i, first, end
                count += 1
                i += 1
    return instances, firsts, ends
