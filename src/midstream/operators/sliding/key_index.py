"""Key index: where the entries of each key are. Derived: it can be rebuilt from the entries."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from midstream.kernels.arrays import Links, Matrix, Vector
from midstream.kernels.complete import find_by_keys
from midstream.kernels.entries import KEY, LINK
from midstream.kernels.key_index import (
    FREE,
    LEFT_HEAD,
    RIGHT_HEAD,
    adopt_keys,
    chain_entries,
    clear,
    follow_moves,
    has_keys,
    heads_of,
)
from midstream.operators.sliding.key_run import written

FULL = 0.65
"""The part of the slots that may be taken: memory against longer searches."""
SMALLEST = 256
ADOPTED = 4096
"""Slots of an earlier index that are looked at in each micro-batch, besides those of the keys asked for."""


class KeyTable:
    """Slots of keys.

    Invariant: at most FULL of the slots are taken.
    """

    def __init__(self) -> None:
        self.taken = 0
        self._allocate(SMALLEST)

    def _allocate(self, slots: int) -> None:
        self.words: Matrix = np.empty((slots, 2), np.int64)
        self.heads: Links = self.words.view(np.int32)
        clear(self.heads)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "heads"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.heads = self.words.view(np.int32)

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        return int(self.words.nbytes)

    def has_room(self, keys: int) -> bool:
        """Tell whether that many new keys fit."""
        return self.taken + keys <= len(self.words) * FULL


@dataclass(eq=False)
class Elder:
    """An earlier index of a side's entries: it knows the chains of the keys that were not taken over from it yet."""

    table: KeyTable
    side: int
    """The entries' side there."""
    blocks: int = 0
    """So many blocks of its slots have been taken over."""

    @property
    def is_over(self) -> bool:
        """Tell whether all of its keys have been taken over."""
        return self.blocks * ADOPTED >= len(self.table.words)

    def next_keys(self) -> Vector:
        """Return the keys of another block of slots that have entries.

        Slots of a block lie far apart, and so do blocks: keys of neighbours would crowd in one place of another table.
        """
        apart = max(1, len(self.table.words) // ADOPTED)
        bits = apart.bit_length() - 1
        first = int(f"{self.blocks:0{bits}b}"[::-1], 2) if bits else 0
        self.blocks += 1
        words, heads = self.table.words[first::apart], self.table.heads[first::apart]
        keys: Vector = words[(heads[:, LEFT_HEAD] != FREE) & (heads[:, self.side] >= 0), KEY]
        return keys


class KeyIndex(KeyTable):
    """The entries of both sides of a hash join, or of one side alone, by the code in a column.

    Invariant: every entry is in the chain of its key, by its link in another column. The chain of a key that is not in
    the table is known to the side's `elders`: the first that has the key.
    """

    def __init__(self, key: int = KEY, link: int = LINK) -> None:
        super().__init__()
        self.key = key
        self.link = link
        self.elders: dict[int, list[Elder]] = {}

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        tables = {id(e.table): e.table for elders in self.elders.values() for e in elders}
        return int(self.words.nbytes) + sum(int(t.words.nbytes) for t in tables.values())

    def rebuild(self, left: Matrix, right: Matrix, keys: int) -> None:
        """Index the entries of both sides anew, with room for that many more keys; forgets keys without entries."""
        self.elders = {}
        slots = max(SMALLEST, len(self.words) // 2)
        if not self.taken:
            # A fresh index: begin near the size it would have if every key were on both sides.
            slots = max(slots, 1 << max(0, int(max(len(left), len(right)) / FULL).bit_length() - 1))
        while not self._try(slots, left, right, keys):
            slots *= 2

    def _try(self, slots: int, left: Matrix, right: Matrix, keys: int) -> bool:
        room = int(slots * FULL) - keys
        if room < 0:
            return False
        if slots == len(self.words):
            clear(self.heads)
        else:
            self._allocate(slots)
        self.taken = 0
        return self._chain(LEFT_HEAD, left, 0, room) and self._chain(RIGHT_HEAD, right, 0, room - self.taken)

    def _chain(self, side: int, entries: Matrix, start: int, room: int) -> bool:
        taken = chain_entries(self.words, self.heads, side, entries, start, self.key, self.link, room)
        self.taken += taken
        return taken >= 0

    def add(self, side: int, entries: Matrix, start: int) -> None:
        """Chain the entries from `start` on of one side; there must be room for their keys."""
        self.adopt(entries[start:, self.key])
        self._chain(side, entries, start, len(entries) - start)

    def follow(self, side: int, moved: Links) -> None:
        """Keep up with the entries of one side having moved."""
        follow_moves(self.heads, side, moved)
        for elder in self.elders.get(side, ()):
            follow_moves(elder.table.heads, elder.side, moved)

    def places(self, side: int, keys: Vector, entries: Matrix) -> Vector:
        """Return the places of a side's entries with one of the keys, dead ones included."""
        self.adopt(keys)
        args = (np.ascontiguousarray(keys), entries, self.words, self.heads, side, self.link)
        return written(lambda found: find_by_keys(*args, found), len(keys))

    def inherit(self, side: int, index: "KeyIndex", there: int) -> None:
        """Know the entries of a side by the index they had until now, on side `there`, which is used up by that."""
        self.elders[side] = [Elder(index, there), *index.elders.get(there, ())]

    def adopt(self, *keys: Vector) -> None:
        """Have keys in the table that are about to be asked for, or added."""
        if self.elders:
            self.admit(np.concatenate(keys))

    def admit(self, keys: Vector) -> Vector:
        """Have keys in the table, with the entries that elders know; return those that were not there."""
        wanted: Vector = keys[~has_keys(self.words, self.heads, keys)]
        if len(wanted):
            self.make_room(len(wanted))
            found = [self._heads(side, wanted) for side in (LEFT_HEAD, RIGHT_HEAD)]
            self.taken += adopt_keys(self.words, self.heads, wanted, *found)
        return wanted

    def next_keys(self) -> list[Vector]:
        """Return keys that nobody has asked for: in the end there are none left to take over from elders."""
        return [elders[0].next_keys() for elders in self.elders.values()]

    def part_from_elders(self) -> None:
        """Give up the elders all of whose keys have been taken over."""
        self.elders = {
            side: left for side, elders in self.elders.items() if (left := [e for e in elders if not e.is_over])
        }

    def _heads(self, side: int, keys: Vector) -> Links:
        found = np.full(len(keys), FREE, np.int32)
        for elder in self.elders.get(side, ()):
            if not heads_of(elder.table.words, elder.table.heads, keys, elder.side, found):
                break
        return found

    def make_room(self, keys: int) -> None:
        """Have room for that many more keys, without a look at the entries."""
        if not self.has_room(keys):
            used = self.heads[:, LEFT_HEAD] != FREE
            held, left, right = self.words[used, KEY], self.heads[used, LEFT_HEAD], self.heads[used, RIGHT_HEAD]
            self._allocate(1 << int((2 * self.taken + keys) / FULL).bit_length())
            adopt_keys(self.words, self.heads, held, left, right)
