"""The key index of a hash join: for each key, the newest entry of both sides.

An open-addressing table of 16-byte slots, seen as two matrices over the same memory:

    words (int64)   0: key    1: both heads
    heads (int32)   0, 1: the key's halves    2: left head    3: right head

so that one row touches one cache line to be inserted on its side and to find its partners on the other. Entries with
the same key are chained by their link, newest first; a head or link of -1 ends the chain.
"""

import numpy as np

from midstream.kernels.arrays import Links, Mask, Matrix, Vector
from midstream.kernels.compile import Word, kernel
from midstream.kernels.entries import KEY
from midstream.kernels.prefetch import prefetch_row

LEFT_HEAD, RIGHT_HEAD = 2, 3
FREE = -2
"""The left head of a slot no key has taken."""
AHEAD = 24
"""How many keys ahead a slot is fetched into the cache."""


@kernel
def slot_of(key: Word, mask: Word) -> Word:
    """Return where the search for a key starts in a table of mask + 1 slots."""
    h = np.uint64(key)
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    h = h ^ (h >> np.uint64(29))
    return np.int64(h & np.uint64(mask))


@kernel
def find_slot(words: Matrix, heads: Links, key: Word) -> Word:
    """Return the slot of a key, or the free slot where it belongs."""
    mask = words.shape[0] - 1
    slot = slot_of(key, mask)
    while heads[slot, LEFT_HEAD] != FREE and words[slot, KEY] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def take_slot(words: Matrix, heads: Links, key: Word) -> Word:
    """Return the slot of a key, taking a free one when it has none; negative (-1 - slot) when newly taken."""
    slot = find_slot(words, heads, key)
    if heads[slot, LEFT_HEAD] == FREE:
        words[slot, KEY] = key
        heads[slot, LEFT_HEAD] = -1
        heads[slot, RIGHT_HEAD] = -1
        return -1 - slot
    return slot


@kernel
def clear(heads: Links) -> None:
    """Free all slots."""
    for slot in range(heads.shape[0]):
        heads[slot, LEFT_HEAD] = FREE
        heads[slot, RIGHT_HEAD] = -1


@kernel
def chain_entries(
    words: Matrix, heads: Links, side: int, entries: Matrix, start: int, key: int, link: int, room: int
) -> int:
    """Chain the entries of one side from `start` on by the code in column `key`, with links in column `link`.

    Return how many slots that took, or -1 as soon as it would take more than `room`.
    """
    taken = 0
    mask = words.shape[0] - 1
    for i in range(start, entries.shape[0]):
        if i + AHEAD < entries.shape[0]:
            prefetch_row(words, slot_of(entries[i + AHEAD, key], mask))
        slot = take_slot(words, heads, entries[i, key])
        if slot < 0:
            slot = -1 - slot
            taken += 1
            if taken > room:
                return -1
        entries[i, link] = heads[slot, side]
        heads[slot, side] = i
    return taken


@kernel
def take_keys(words: Matrix, heads: Links, keys: Vector) -> tuple[Mask, int]:
    """Put keys into the table; return which were not there, and how many slots that took. There must be room."""
    fresh = np.empty(keys.size, np.bool_)
    taken = 0
    mask = words.shape[0] - 1
    for i in range(keys.size):
        if i + AHEAD < keys.size:
            prefetch_row(words, slot_of(keys[i + AHEAD], mask))
        fresh[i] = take_slot(words, heads, keys[i]) < 0
        taken += fresh[i]
    return fresh, taken


@kernel
def has_keys(words: Matrix, heads: Links, keys: Vector) -> Mask:
    """Tell which keys are in the table."""
    found = np.empty(keys.size, np.bool_)
    mask = words.shape[0] - 1
    for i in range(keys.size):
        if i + AHEAD < keys.size:
            prefetch_row(words, slot_of(keys[i + AHEAD], mask))
        found[i] = heads[find_slot(words, heads, keys[i]), LEFT_HEAD] != FREE
    return found


@kernel
def follow_moves(heads: Links, side: int, moved: Links) -> None:
    """Point the heads of one side to where their entries, or the next older live ones, have moved."""
    for slot in range(heads.shape[0]):
        head = heads[slot, side]
        if head >= 0:
            heads[slot, side] = moved[head]


@kernel
def heads_of(words: Matrix, heads: Links, keys: Vector, side: int, found: Links) -> int:
    """Write the newest entry of one side for each key that has none yet (FREE); return how many still have none.

    A key that is in the table has one, or -1; of one that is not nothing is known here.
    """
    left = 0
    mask = words.shape[0] - 1
    for i in range(keys.size):
        if i + AHEAD < keys.size:
            prefetch_row(words, slot_of(keys[i + AHEAD], mask))
        if found[i] == FREE:
            slot = find_slot(words, heads, keys[i])
            if heads[slot, LEFT_HEAD] != FREE:
                found[i] = heads[slot, side]
            else:
                left += 1
    return left


@kernel
def adopt_keys(words: Matrix, heads: Links, keys: Vector, left: Links, right: Links) -> int:
    """Put keys that are not there into the table with their newest entries; return how many. There must be room."""
    taken = 0
    mask = words.shape[0] - 1
    for i in range(keys.size):
        if i + AHEAD < keys.size:
            prefetch_row(words, slot_of(keys[i + AHEAD], mask))
        slot = take_slot(words, heads, keys[i])
        if slot < 0:
            heads[-1 - slot, LEFT_HEAD] = max(left[i], -1)
            heads[-1 - slot, RIGHT_HEAD] = max(right[i], -1)
            taken += 1
    return taken
