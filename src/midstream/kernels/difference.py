"""The difference chain: follow one value after another through windows that come and go, in the order of events.

    arriving row ──▶ expirations due before it ──▶ its own event ──▶ changes of the answer

Values (distinct rows, numbered by whoever calls) and the rows of all windows are lines of two int64 matrices:

    value   0        1       2        3 ...
            member   known   newest   rows in the window of each alias
    entry   0     1       2      3     4
            row   value   time   seq   older

`member` has a bit per level of the chain: the value is in that level's difference state. A level is complete, or the
bit counts only where the `known` bit is set too. `newest` leads to the outer's entries that hold the value, newest
first by `older`. An entry without a value (-1) has left its window.
"""

import numpy as np

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.compile import Word, kernel

MEMBER, KNOWN, NEWEST, COUNTS = range(4)
"""Columns of a value; the count of alias a is at COUNTS + a."""
ROW, VALUE, TIME, SEQ, OLDER, ENTRY_SIZE = range(6)
"""Columns of an entry."""
START, FIRST, END, LIMIT, LIVE, WINDOW_SIZE = range(6)
"""Columns of a window: where its part of the entries starts, its oldest live entry, its end, where its part ends."""
ALIAS, COLUMN, PENDING, SIZE, LEVEL_SIZE = range(5)
"""Columns of a level: the alias it subtracts, its bit, the outer's values it is unsure of, the values it holds.

Level 0 is the outer itself. A level with nothing pending is complete.
"""
IN_TIME, IN_SEQ, IN_ROW, IN_PUSHED, IN_VALUE, IN_SIZE = range(6)
"""Columns of an arriving row: it pushes out row IN_PUSHED; -1 stands for no row."""
OUT_TIME, OUT_SIGN, OUT_ROW, OUT_EXPIRY, OUT_ALIAS, OUT_BY, OUT_SEQ, OUT_SIZE = range(8)
"""Columns of a change: which row of the outer shows the value; alias, row and seq of the row that came or expired."""
TESTED, TOTALS_SIZE = range(2)
"""The totals: probes of states."""


@kernel
def is_known(values: Matrix, v: Word, levels: Matrix, level: Word) -> bool:
    """Tell whether the member bit of a value can be trusted at a level."""
    return bool(levels[level, PENDING] == 0 or (values[v, KNOWN] >> levels[level, COLUMN]) & 1)


@kernel
def is_member(values: Matrix, v: Word, levels: Matrix, level: Word) -> bool:
    """Tell whether a value is noted in the state of a level."""
    return bool((values[v, MEMBER] >> levels[level, COLUMN]) & 1)


@kernel
def settle(values: Matrix, v: Word, levels: Matrix, level: Word, inside: bool) -> None:
    """Note whether a value is in a level, which is one pending value less if that was not known.

    Call it before the outer's count changes: only values of the outer are pending.
    """
    bit = np.int64(1) << levels[level, COLUMN]
    if levels[level, PENDING] > 0 and values[v, KNOWN] & bit == 0:
        if values[v, COUNTS + levels[0, ALIAS]] > 0:
            levels[level, PENDING] -= 1
        values[v, KNOWN] |= bit
    if inside and values[v, MEMBER] & bit == 0:
        values[v, MEMBER] |= bit
        levels[level, SIZE] += 1
    elif not inside and values[v, MEMBER] & bit != 0:
        values[v, MEMBER] &= ~bit
        levels[level, SIZE] -= 1


@kernel
def climb(
    values: Matrix, v: Word, levels: Matrix, bottom: Word, top: Word, inside: bool, trusting: bool, totals: Vector
) -> bool:
    """Settle a value that is `inside` below `bottom`, from there up to level `top`; tell whether it is in that level.

    It is in a level unless the subtracted state holds it. With `trusting`, what a level knows of it stands.
    """
    for level in range(bottom, top + 1):
        if trusting and is_known(values, v, levels, level):
            inside = is_member(values, v, levels, level)
            continue
        if inside:
            totals[TESTED] += 1
            inside = bool(values[v, COUNTS + levels[level, ALIAS]] == 0)
        settle(values, v, levels, level, inside)
    return inside


@kernel
def complete_up_to(values: Matrix, v: Word, levels: Matrix, top: Word, totals: Vector) -> bool:
    """Fill in what is not known of a value, from the outer up to level `top`; tell whether it is in that level."""
    inside = bool(values[v, COUNTS + levels[0, ALIAS]] > 0)
    return climb(values, v, levels, 1, top, inside, True, totals)


@kernel
def remove_from(values: Matrix, v: Word, levels: Matrix, bottom: Word, totals: Vector) -> bool:
    """Remove a value from each level from `bottom` up until one is known not to hold it; tell whether it was on top.

    A level that does not know passes the probe on, up to one that does: the top always knows.
    """
    climbing = True
    for level in range(bottom, levels.shape[0]):
        if climbing:
            totals[TESTED] += 1
            if is_known(values, v, levels, level):
                climbing = is_member(values, v, levels, level)
        settle(values, v, levels, level, False)
    return climbing


@kernel
def enter(values: Matrix, v: Word, levels: Matrix, place: Word, totals: Vector) -> bool:
    """Count a row in the window of the alias at a place of the chain (0: the outer); tell if the answer changes."""
    count = COUNTS + levels[place, ALIAS]
    top = levels.shape[0] - 1
    changed = False
    if place > 0 and values[v, count] == 0:
        changed = remove_from(values, v, levels, place, totals)
    elif place > 0:
        # Nothing changes, but this value is surely not in the levels from here up: those unsure may know.
        for level in range(place, top + 1):
            settle(values, v, levels, level, False)
    elif values[v, count] == 0:
        changed = climb(values, v, levels, 1, top, True, False, totals)
        levels[0, SIZE] += 1
    else:
        complete_up_to(values, v, levels, top, totals)
    values[v, count] += 1
    return changed


@kernel
def leave(values: Matrix, v: Word, levels: Matrix, place: Word, totals: Vector) -> bool:
    """Count a row out of the window of the alias at a place of the chain; tell if the answer changes."""
    count = COUNTS + levels[place, ALIAS]
    changed = False
    if values[v, count] == 1 and place == 0:
        changed = remove_from(values, v, levels, 1, totals)
        levels[0, SIZE] -= 1
    values[v, count] -= 1
    if values[v, count] == 0 and place > 0:
        totals[TESTED] += 1
        inside = complete_up_to(values, v, levels, place - 1, totals)
        settle(values, v, levels, place, inside)
        changed = climb(values, v, levels, place + 1, levels.shape[0] - 1, inside, False, totals)
    return changed


@kernel
def append(
    entries: Matrix, windows: Matrix, alias: Word, arriving: Matrix, i: Word, v: Word, values: Matrix, outer: Word
) -> None:
    """Add an arriving row to its window; a row of the outer becomes the newest of its value."""
    e = windows[alias, END]
    windows[alias, END] += 1
    windows[alias, LIVE] += 1
    entries[e, ROW], entries[e, VALUE] = arriving[i, IN_ROW], v
    entries[e, TIME], entries[e, SEQ] = arriving[i, IN_TIME], arriving[i, IN_SEQ]
    entries[e, OLDER] = -1
    if alias == outer:
        entries[e, OLDER] = values[v, NEWEST]
        values[v, NEWEST] = e


@kernel
def remove(entries: Matrix, windows: Matrix, alias: Word, e: Word) -> Word:
    """Take an entry out of its window; return the value it had."""
    v = entries[e, VALUE]
    entries[e, VALUE] = -1
    windows[alias, LIVE] -= 1
    first = windows[alias, FIRST]
    while first < windows[alias, END] and entries[first, VALUE] < 0:
        first += 1
    windows[alias, FIRST] = first
    return v


@kernel
def find_entry(entries: Matrix, windows: Matrix, alias: Word, row: Word) -> Word:
    """Return the live entry of a row, or -1; row numbers increase within a window."""
    low, high = windows[alias, FIRST], windows[alias, END]
    # Mostly numbers run without gaps: look there first.
    guess = low + row - entries[low, ROW] if low < high else low
    if low <= guess < high and entries[guess, ROW] == row:
        low = guess
    else:
        low += np.searchsorted(entries[low:high, ROW], row)
    if low < high and entries[low, ROW] == row and entries[low, VALUE] >= 0:
        return low
    return -1


@kernel
def newest_row(entries: Matrix, values: Matrix, v: Word) -> Word:
    """Return the latest row of the outer that holds a value; there must be one."""
    e = values[v, NEWEST]
    while entries[e, VALUE] < 0:
        e = entries[e, OLDER]
    values[v, NEWEST] = e
    return entries[e, ROW]


@kernel
def write(
    changes: Matrix, n: Word, time: Word, sign: Word, row: Word, expiry: Word, alias: Word, by: Word, seq: Word
) -> Word:
    """Write one change; return how many there are then."""
    changes[n, OUT_TIME], changes[n, OUT_SIGN], changes[n, OUT_ROW] = time, sign, row
    changes[n, OUT_EXPIRY], changes[n, OUT_ALIAS], changes[n, OUT_BY], changes[n, OUT_SEQ] = expiry, alias, by, seq
    return n + 1


@kernel
def leave_time(time: Word, width: Word) -> Word:
    """Return when a row is no longer in a window of that width; the end of time when that is later."""
    last = np.int64(0x7FFFFFFFFFFFFFFF)
    return last if time >= last - width else time + width + 1


@kernel
def next_to_expire(entries: Matrix, windows: Matrix, widths: Vector, now: Word) -> Word:
    """Return the alias whose oldest row expires next, by time and sequence number, at or before `now`; or -1."""
    best = -1
    when = now
    for a in range(widths.size):
        e = windows[a, FIRST]
        if widths[a] < 0 or e == windows[a, END]:
            continue
        due = leave_time(entries[e, TIME], widths[a])
        if due < when or (due == when and (best < 0 or entries[e, SEQ] < entries[windows[best, FIRST], SEQ])):
            best, when = a, due
    return best


@kernel
def next_to_arrive(arriving: Matrix, starts: Vector, at: Vector) -> Word:
    """Return the alias whose next row has the smallest sequence number, or -1 when all rows have arrived."""
    best = -1
    for a in range(at.size):
        if at[a] < starts[a + 1] and (best < 0 or arriving[at[a], IN_SEQ] < arriving[at[best], IN_SEQ]):
            best = a
    return best


@kernel
def expire_before(
    now: Word,
    widths: Vector,
    places: Vector,
    levels: Matrix,
    values: Matrix,
    entries: Matrix,
    windows: Matrix,
    totals: Vector,
    changes: Matrix,
    n: Word,
) -> Word:
    """Let all rows leave that expire at or before `now`, each an event of its own; return how many changes there are.

    Rows of counted windows (width -1) do not expire.
    """
    a = next_to_expire(entries, windows, widths, now)
    while a >= 0:
        e = windows[a, FIRST]
        v = remove(entries, windows, a, e)
        if leave(values, v, levels, places[a], totals):
            sign = -1 if places[a] == 0 else 1
            row = entries[e, ROW] if places[a] == 0 else newest_row(entries, values, v)
            when = leave_time(entries[e, TIME], widths[a])
            n = write(changes, n, when, sign, row, 1, a, entries[e, ROW], entries[e, SEQ])
        a = next_to_expire(entries, windows, widths, now)
    return n


@kernel
def arrive(
    arriving: Matrix,
    i: Word,
    alias: Word,
    counted: bool,
    place: Word,
    levels: Matrix,
    values: Matrix,
    entries: Matrix,
    windows: Matrix,
    totals: Vector,
    changes: Matrix,
    n: Word,
) -> Word:
    """Let a row arrive and another be pushed out in one event; return how many changes there are, or -1.

    -1: the row pushed out is not in the window.
    """
    time, seq, row = arriving[i, IN_TIME], arriving[i, IN_SEQ], arriving[i, IN_ROW]
    came = went = False
    v = w = pushed = np.int64(-1)
    if row >= 0:
        v = arriving[i, IN_VALUE]
        # Entering comes first: a value that is pushed out by itself has never gone.
        came = enter(values, v, levels, place, totals)
        append(entries, windows, alias, arriving, i, v, values, levels[0, ALIAS])
    if counted and arriving[i, IN_PUSHED] >= 0:
        pushed = arriving[i, IN_PUSHED]
        e = find_entry(entries, windows, alias, pushed)
        if e < 0:
            return -1
        w = remove(entries, windows, alias, e)
        went = leave(values, w, levels, place, totals)
    if place == 0:
        if went:
            n = write(changes, n, time, -1, pushed, 0, alias, row, seq)
        if came:
            n = write(changes, n, time, 1, row, 0, alias, row, seq)
    else:
        if came:
            n = write(changes, n, time, -1, newest_row(entries, values, v), 0, alias, row, seq)
        if went:
            n = write(changes, n, time, 1, newest_row(entries, values, w), 0, alias, row, seq)
    return n


@kernel
def apply_rows(
    arriving: Matrix,
    starts: Vector,
    widths: Vector,
    places: Vector,
    levels: Matrix,
    values: Matrix,
    entries: Matrix,
    windows: Matrix,
    totals: Vector,
    changes: Matrix,
) -> int:
    """Apply the rows of all aliases in sequence, and what expires before each; return how many changes there are.

    Alias a has `arriving[starts[a]:starts[a + 1]]`, the width `widths[a]` (-1: counted) and the place `places[a]` in
    the chain. All matrices must have room. Return -1 - i when row i pushes out a row that is not in the window.
    """
    at = starts[:-1].copy()
    n: Word = np.int64(0)
    a = next_to_arrive(arriving, starts, at)
    while a >= 0:
        i: Word = at[a]
        at[a] += 1
        now = arriving[i, IN_TIME]
        n = expire_before(now, widths, places, levels, values, entries, windows, totals, changes, n)
        counted = bool(widths[a] < 0)
        n = arrive(arriving, i, a, counted, places[a], levels, values, entries, windows, totals, changes, n)
        if n < 0:
            return -1 - int(i)
        a = next_to_arrive(arriving, starts, at)
    return int(n)


@kernel
def chain_newest(entries: Matrix, first: int, end: int, values: Matrix) -> None:
    """Chain the outer's entries anew after they have moved; all of them are live."""
    for e in range(first, end):
        values[entries[e, VALUE], NEWEST] = -1
    for e in range(first, end):
        v = entries[e, VALUE]
        entries[e, OLDER] = values[v, NEWEST]
        values[v, NEWEST] = e
