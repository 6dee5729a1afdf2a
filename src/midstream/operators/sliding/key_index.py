"""Key index: where the entries of each key are. Derived: it can be rebuilt from the entries."""

from typing import Any

import numpy as np

from midstream.kernels.arrays import Links, Matrix
from midstream.kernels.entries import KEY, LINK
from midstream.kernels.key_index import LEFT_HEAD, RIGHT_HEAD, chain_entries, clear, follow_moves

FULL = 0.65
"""The part of the slots that may be taken: memory against longer searches."""
SMALLEST = 256


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


class KeyIndex(KeyTable):
    """The entries of both sides of a hash join, or of one side alone, by the code in a column.

    Invariant: every entry is in the chain of its key, by its link in another column.
    """

    def __init__(self, key: int = KEY, link: int = LINK) -> None:
        super().__init__()
        self.key = key
        self.link = link

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
        self.taken = 0
        return self._chain(LEFT_HEAD, left, 0, room) and self._chain(RIGHT_HEAD, right, 0, room - self.taken)

    def _chain(self, side: int, entries: Matrix, start: int, room: int) -> bool:
        taken = chain_entries(self.words, self.heads, side, entries, start, self.key, self.link, room)
        self.taken += taken
        return taken >= 0

    def add(self, side: int, entries: Matrix, start: int) -> None:
        """Chain the entries from `start` on of one side; there must be room for their keys."""
        self._chain(side, entries, start, len(entries) - start)

    def follow(self, side: int, moved: Links) -> None:
        """Keep up with the entries of one side having moved."""
        follow_moves(self.heads, side, moved)
