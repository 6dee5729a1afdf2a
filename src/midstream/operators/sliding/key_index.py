"""Key index: where each key's entries are on both sides of a hash join. Derived: it can be rebuilt from the entries."""

from typing import Any

import numpy as np

from midstream.kernels.arrays import Links, Matrix
from midstream.kernels.key_index import LEFT_HEAD, RIGHT_HEAD, chain_from, clear, follow_moves, index_entries

FULL = 0.65
"""The part of the slots that may be taken: memory against longer searches."""
SMALLEST = 256


class KeyIndex:
    """A table of keys.

    Invariant: every entry of both sides is in the chain of its key; at most FULL of the slots are taken.
    """

    def __init__(self) -> None:
        self.taken = 0
        self._allocate(SMALLEST)

    def _allocate(self, slots: int) -> None:
        self.words: Matrix = np.empty((slots, 2), np.int64)
        self.heads: Links = self.words.view(np.int32)
        clear(self.heads)

    def __getstate__(self) -> dict[str, Any]:
        return {"taken": self.taken, "words": self.words}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.taken, self.words = state["taken"], state["words"]
        self.heads = self.words.view(np.int32)

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        return int(self.words.nbytes)

    def has_room(self, keys: int) -> bool:
        """Tell whether that many new keys fit."""
        return self.taken + keys <= len(self.words) * FULL

    def rebuild(self, left: Matrix, right: Matrix, keys: int) -> None:
        """Index the entries of both sides anew, with room for that many more keys; forgets keys without entries."""
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
        self.taken = index_entries(self.words, self.heads, LEFT_HEAD, left, room)
        if self.taken < 0:
            return False
        more = index_entries(self.words, self.heads, RIGHT_HEAD, right, room - self.taken)
        self.taken += more
        return more >= 0

    def add(self, side: int, entries: Matrix, start: int) -> None:
        """Chain the entries from `start` on of one side; there must be room for their keys."""
        self.taken += chain_from(self.words, self.heads, side, entries, start)

    def follow(self, side: int, moved: Links) -> None:
        """Keep up with the entries of one side having moved."""
        follow_moves(self.heads, side, moved)
