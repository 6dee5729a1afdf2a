"""Background state computation: fill the new plan's states in spare time, so that the old plan ends earlier.

    lowest incomplete state ──▶ pairs of the entries below, newest first, a budget per micro-batch
        ──▶ hidden in the state ──▶ shown when all are found

Newest first: what expires meanwhile is never computed.
"""

from midstream.migrate.characteristics import CharacteristicsTable, Region
from midstream.migrate.match import Moment
from midstream.operators.sliding.entry import NO_WALK
from midstream.operators.sliding.join_state import Bookmark
from midstream.operators.sliding.tree import Step


class BackgroundState:
    """The computation of one state: the results of a step that lie in one of its regions, for a side of the one above.

    Invariant: of each side of the step, the old entries beyond its bookmark have met all later ones of the other side;
    what they make is in the state above, hidden.
    """

    def __init__(self, step: Step, regions: list[Region], above: Step, side: int) -> None:
        self.step = step
        self.above = above
        self.side = side
        self.lacking = CharacteristicsTable({step.parts: regions})
        self.before = max(r.seq for r in regions)
        self.entries_found = 0
        states = step.join.states
        self._tops = [Bookmark(state.count - 1) for state in states]
        self._next = [Bookmark(state.count - 1) for state in states]
        self._walks = [Bookmark(NO_WALK, step.join.spec.hashed) for _ in states]
        """How far the other side's next entry has walked over the entries of a side."""
        for state, *marks in zip(states, self._tops, self._next, self._walks, strict=True):
            state.bookmarks += marks

    def advance(self, budget: int, moment: Moment) -> int:
        """Pass up to so many entries, evaluated or not; return what is left of them (0 when there is more to do)."""
        join = self.step.join
        tops, at = [mark.place for mark in self._tops], [mark.place for mark in self._next]
        side = join.newer_side(at)
        walk = NO_WALK if self._next[side].lost else self._walks[1 - side].place
        ordered = [source.leaf is not None for source in self.step.inputs]
        pairs, walk, passed = join.pair_newest(at, walk, tops, ordered, self.before, moment.now_us, moment.seq, budget)
        for mark, place in zip(self._next, at, strict=True):
            mark.place, mark.lost = place, False
        side = join.newer_side(at)
        self._walks[side].place, self._walks[1 - side].place = NO_WALK, walk
        entries = self.above.inputs[self.side].feed.prepare(pairs[self.lacking.needed(pairs, join.spec.components)])
        self.above.join.fill_hidden(self.side, entries, moment.now_us, moment.seq)
        self.entries_found += len(entries)
        return 0 if max(at) >= 0 else budget - passed

    def close(self) -> None:
        """Give up the places it comes back to."""
        ours = (*self._tops, *self._next, *self._walks)
        for state in self.step.join.states:
            state.bookmarks = [mark for mark in state.bookmarks if mark not in ours]
