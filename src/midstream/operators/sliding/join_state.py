"""Join input state: what one input of a join has delivered and may still match.

State: entries (row numbers, latest row, deadline, key) in arrival order, and how far they cover what there is. A hash
join indexes them by key. After a migration a part of them may still be in the backlog, laid out for another key.
"""

from dataclasses import dataclass

import numpy as np

from midstream.kernels.arrays import Links, Mask, Matrix, Vector
from midstream.kernels.complete import live_before
from midstream.kernels.entries import ROWS, drop_dead
from midstream.model.coverage import COMPLETE, Coverage
from midstream.model.time import FOREVER_US
from midstream.operators.sliding.backlog import Backlog, FormerIndex
from midstream.operators.sliding.feed import Feed
from midstream.operators.source.window import EvictionTable, moved

ROOM, ROOM_OF_SMALL = 1.3, 2.5
"""Entries held per live entry before the dead ones are dropped: memory against moving."""
SMALL_BYTES = 4 << 20
"""States up to this size have more room: their memory is nothing, and with many joins they turn over fast."""
SMALLEST = 64


@dataclass(eq=False)
class Bookmark:
    """A place among the entries of a state that stays with them when they move.

    When its entry is dropped it goes to the next older one, of the same key if it is `chained`, and is `lost`.
    """

    place: int
    chained: bool = False
    lost: bool = False

    def follow(self, alive: Mask, moved: Links) -> None:
        """Follow the entries: which of them stay, and where each, or the next older of its key, is now."""
        if self.place >= 0:
            self.lost = self.lost or not alive[self.place]
            kept = np.count_nonzero(alive[: self.place + 1]) - 1
            self.place = int(moved[self.place]) if self.chained else int(kept)


class JoinInputState:
    """Entries of one join input.

    Invariant: every live entry the coverage speaks of is present once, here or in the backlog. Entries are in order of
    their latest row, except those that were completed later or come from the backlog; those of a source with the same
    key are in order always.
    """

    def __init__(self, components: tuple[str, ...], values: int, in_order: bool, lines: tuple[int, ...]) -> None:
        self.components = components
        self.in_order = in_order
        self.slots = np.array(lines if max(lines) >= 0 else (), np.int64)
        self.entries: Matrix = np.empty((SMALLEST, ROWS + len(components) + values), np.int64)
        self.count = 0
        self.coverage: Coverage = COMPLETE
        self.bookmarks: list[Bookmark] = []
        """Places that somebody comes back to."""
        self.backlog: list[Backlog] = []
        """What an earlier plan has left and is not among the entries yet."""
        self.moves = 0
        """How often entries have moved, and their places do not mean what they did."""

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return int(self.entries.nbytes) + sum(b.nbytes for b in self.backlog)

    @property
    def tuples(self) -> int:
        """Return how many entries there are, dead ones and those in the backlog included."""
        return self.count + sum(len(b) for b in self.backlog)

    def follow_on(self, former: "JoinInputState", known: FormerIndex | None, layout: Feed, since: int = 0) -> None:
        """Have the entries of another state from row `since` on as backlog; that one is used up by that.

        `known` is the index they had there.
        """
        gone = np.zeros(former.count, np.bool_)
        own = Backlog(former.held, former.components, former.slots, layout, since, gone, known)
        self.backlog = [own, *(b.again(layout, since) for b in former.backlog)]
        former.clear()
        # Room costs nothing before it is used, growing does.
        self.entries = np.empty((max(SMALLEST, int(self.tuples * ROOM)), self.entries.shape[1]), np.int64)

    def clear(self) -> None:
        """Drop all entries."""
        self.count, self.backlog = 0, []

    def reserve(self, count: int, now_us: int, seq: int, evictions: EvictionTable, linked: bool) -> Links | None:
        """Make room for `count` entries: drop the dead, then grow (or shrink) to what is live.

        `now_us` is the time of the next row, `seq` the last sequence number that has arrived. Return where each entry
        has moved when entries are `linked` by an index and have moved, else None.
        """
        if self.count + count <= len(self.entries):
            return None
        moved = np.empty(self.count if linked else 0, np.int32)
        table = (self.slots, evictions.table, evictions.bases)
        marks = self.bookmarks
        alive = live_before(self.entries, self.count if marks else 0, FOREVER_US, now_us, seq, *table)
        self.count = drop_dead(self.entries, self.count, now_us, seq, *table, linked, moved)
        self.moves += 1
        for mark in marks:
            mark.follow(alive, moved)
        needed = self.count + count
        room = ROOM if needed * self.entries.shape[1] * 8 > SMALL_BYTES else ROOM_OF_SMALL
        wanted = max(SMALLEST, int(needed * room))
        # Resizing costs a fresh block: only when there is too little room, or far too much.
        if needed > len(self.entries) * 0.85 or wanted * 2 < len(self.entries):
            grown = np.empty((wanted, self.entries.shape[1]), np.int64)
            grown[: self.count] = self.entries[: self.count]
            self.entries = grown
        return moved if linked else None

    @property
    def held(self) -> Matrix:
        """Return the entries held, dead ones included."""
        return self.entries[: self.count]

    def renumber(self, component: str, places: Vector, base: int) -> None:
        """Follow a row store that has numbered its rows anew."""
        if component in self.components:
            column = self.held[:, ROWS + self.components.index(component)]
            column[:] = moved(column, places, base)
        for backlog in self.backlog:
            backlog.renumber(component, places, base)
