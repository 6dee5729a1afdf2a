"""Join: match the entries of two inputs, by key (hash join) or all with all (nested-loop join).

    left  ──▶ insert left,  walk right ──▶ check residuals ──▶ joined
    right ──▶ insert right, walk left  ──▶ check residuals ──▶ joined

State: one JoinInputState per side. The two methods differ in how partners are found, not in what is remembered.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.complete import (
    HIDDEN,
    PAIR_CURSOR_SIZE,
    PAIR_LEFT,
    PAIR_RIGHT,
    PAIR_WALK,
    PAIRS_PASSED,
    PAIRS_TESTED,
    pair_newest,
    show_hidden,
)
from midstream.kernels.entries import KEY, LATEST, ROWS
from midstream.kernels.join import (
    ALIVE_AFTER,
    ALIVE_AT,
    CURSOR_SIZE,
    FRESH,
    LEFT_AT,
    LEFT_COUNT,
    NEWER_ONLY,
    RIGHT_AT,
    RIGHT_COUNT,
    TAKEN,
    TESTED,
    WALK,
    join_batches,
    pair_run,
)
from midstream.kernels.key_index import LEFT_HEAD, RIGHT_HEAD
from midstream.model.time import FOREVER_US
from midstream.operators.sliding.backlog import FormerIndex
from midstream.operators.sliding.check import Residual
from midstream.operators.sliding.entry import in_order
from midstream.operators.sliding.join_state import JoinInputState
from midstream.operators.sliding.key_index import KeyIndex
from midstream.operators.source.memory import check_room
from midstream.operators.source.sources import Sources
from midstream.plan.expr import Expr

LEFT, RIGHT = 0, 1
"""The sides of a join."""
HEADS = (LEFT_HEAD, RIGHT_HEAD)
OUT_ROWS = 1 << 16
"""Results found before the walk stops to have them checked and moved on."""


@dataclass(frozen=True)
class JoinSpec:
    """What a join does, without what it remembers."""

    components: tuple[str, ...]
    hashed: bool
    """Find partners by key; otherwise walk over all entries."""
    keyed: bool
    """In a walk over all entries: keys must be equal."""
    groups: tuple[int, ...]
    """The equality classes of its key parts."""
    ops: tuple[int, ...]
    """Codes of the comparisons between left and right values."""
    residuals: tuple[Expr, ...]


class Buffer:
    """Room for results, kept from call to call: a fresh block would have to be touched page by page."""

    def __init__(self) -> None:
        self._rows = min(1024, OUT_ROWS)
        self._room: Matrix = np.empty((0, 0), np.int64)

    def of(self, width: int) -> Matrix:
        """Return room for results of so many numbers."""
        if self._room.shape != (self._rows, width):
            self._room = np.empty((self._rows, width), np.int64)
        return self._room

    def grow(self) -> None:
        """Have more room next time, up to what is handed on at a time."""
        self._rows = min(self._rows * 4, OUT_ROWS)


class Join:
    """One join of a tree."""

    def __init__(
        self,
        spec: JoinSpec,
        left: JoinInputState,
        right: JoinInputState,
        sources: Sources,
        checks: tuple[Residual, ...],
        out_values: int,
    ) -> None:
        self.spec = spec
        self.states = [left, right]
        self.sources = sources
        self.checks = checks
        self.out_values = out_values
        """Comparison values the join above wants room for."""
        self.index = KeyIndex()
        self.inserts = [True, True]
        """Whether a side puts its rows into its state: a state shared with another join is filled by that one."""
        self.until = [FOREVER_US, FOREVER_US]
        """Only entries of a side before this sequence number are matched."""
        self.cuts = True
        """Whether entries found dead are cut out of their chain; not while states are completed from here, as a row of
        the same slice further up may still ask for them."""
        self._ops = np.array(spec.ops, np.int64)
        self._results = Buffer()
        self._pairs = Buffer()

    @property
    def left(self) -> JoinInputState:
        """Return the state of the left input."""
        return self.states[LEFT]

    @property
    def right(self) -> JoinInputState:
        """Return the state of the right input."""
        return self.states[RIGHT]

    @property
    def index_bytes(self) -> int:
        """Return the memory of the index."""
        return self.index.nbytes

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_results": Buffer(), "_pairs": Buffer()}

    @property
    def _width(self) -> int:
        return ROWS + len(self.spec.components) + self.out_values

    def on_batches(self, left: Matrix, right: Matrix, now_us: int, seq: int) -> Matrix:
        """Insert both batches, match them, and return the results in order of their latest row.

        `now_us` is the time of the first row that can arrive from now on, `seq` the last number before it. The results
        are the caller's until the next call.
        """
        found: list[Matrix] = []
        for part, done in self._matches(left, right, now_us, seq):
            found.append(part if done and not found else own(part))
            self._check_room(found)
        return found[0] if len(found) == 1 else np.concatenate(found)

    def in_pieces(self, left: Matrix, right: Matrix, now_us: int, seq: int) -> Iterator[Matrix]:
        """Yield what `on_batches` returns as it is found, to be read to the end; each is the caller's until the next.

        Results that share their latest row are in one piece.
        """
        held: list[Matrix] = []
        for part, done in self._matches(left, right, now_us, seq):
            whole = len(part) if done or not len(part) else int(np.searchsorted(part[:, LATEST], part[-1, LATEST]))
            if done or (whole and sum(map(len, held)) + whole >= OUT_ROWS):
                yield np.concatenate([*held, part[:whole]]) if held else part[:whole]
                held, part = [], part[whole:]
            if len(part):
                held.append(part.copy())
                self._check_room(held)

    def _matches(self, left: Matrix, right: Matrix, now_us: int, seq: int) -> Iterator[tuple[Matrix, bool]]:
        """Insert both batches and yield results as room for them is used up, and whether they are the last."""
        if self._lags:
            self._bring(now_us, seq, left[:, KEY], right[:, KEY], ahead=True)
        self.reserve(len(left), len(right), now_us, seq)
        cursor = self._cursor()
        done = False
        while not done:
            out = self._results.of(self._width)
            count = self._match(cursor, left, right, out)
            done = bool(cursor[LEFT_AT] == len(left) and cursor[RIGHT_AT] == len(right))
            if done:
                self.left.count, self.right.count = int(cursor[LEFT_COUNT]), int(cursor[RIGHT_COUNT])
                self.index.taken += int(cursor[TAKEN])
                self.sources.predicate_evaluations += int(cursor[TESTED])
                self.sources.entries_kept += len(left) * self.inserts[LEFT] + len(right) * self.inserts[RIGHT]
                self.sources.probes += len(left) + len(right)
            else:
                self._results.grow()
            yield self._checked(out[:count]), done

    def _check_room(self, found: list[Matrix]) -> None:
        """Refuse more results than there is memory to put them together in."""
        if len(found) > 1:
            check_room(sum(part.nbytes for part in found), "the results of a join")

    def _cursor(self) -> Vector:
        cursor = np.zeros(CURSOR_SIZE, np.int64)
        cursor[WALK], cursor[LEFT_COUNT], cursor[RIGHT_COUNT] = FRESH, self.left.count, self.right.count
        return cursor

    def reserve(self, left: int, right: int, now_us: int, seq: int) -> None:
        """Make room for that many new entries on each side."""
        hashed = self.spec.hashed
        for side, count in ((LEFT, left), (RIGHT, right)):
            if self.inserts[side]:
                moved = self.states[side].reserve(count, now_us, seq, self.sources.evictions, hashed)
                if moved is not None:
                    self.index.follow(HEADS[side], moved)
        if hashed and self._lags:
            self.index.make_room(left + right)
        elif hashed and not self.index.has_room(left + right):
            self.index.rebuild(self.left.held, self.right.held, left + right)

    def _match(self, cursor: Vector, left: Matrix, right: Matrix, out: Matrix) -> int:
        (a, b), spec, evictions = self.states, self.spec, self.sources.evictions
        return join_batches(
            cursor,
            left, a.entries, len(a.components), a.in_order, a.slots, self.inserts[LEFT], self.until[LEFT],
            right, b.entries, len(b.components), b.in_order, b.slots, self.inserts[RIGHT], self.until[RIGHT],
            self.index.words, self.index.heads, spec.hashed, spec.keyed, self.cuts,
            self._ops, evictions.table, evictions.bases, out,
        )  # fmt: skip

    def _checked(self, candidates: Matrix) -> Matrix:
        """Return the candidates that pass every residual."""
        for check in self.checks:
            if len(candidates):
                candidates = candidates[check(candidates)]
        return candidates

    def fill(self, side: int, entries: Matrix, now_us: int, seq: int) -> None:
        """Add entries that were found elsewhere to a side's state."""
        if self._lags:
            self._bring(now_us, seq, entries[:, KEY])
        self._append(side, entries, now_us, seq)

    def _append(self, side: int, entries: Matrix, now_us: int, seq: int) -> None:
        room = (len(entries), 0) if side == LEFT else (0, len(entries))
        self.reserve(*room, now_us, seq)
        state = self.states[side]
        start = state.count
        state.entries[start : start + len(entries)] = entries
        state.count += len(entries)
        self.sources.entries_kept += len(entries)
        if self.spec.hashed:
            self.index.add(HEADS[side], state.held, start)

    def fill_hidden(self, side: int, entries: Matrix, now_us: int, seq: int) -> None:
        """Add entries to a side's state that nobody finds before `show`; they expire like others."""
        entries[:, LATEST] += HIDDEN
        self.fill(side, entries, now_us, seq)

    def show(self, side: int) -> None:
        """Let hidden entries of a side be found."""
        show_hidden(self.states[side].entries, self.states[side].count)

    @property
    def _lags(self) -> bool:
        """Tell whether there are keys the index does not know all entries of."""
        return bool(self.index.elders or self.left.backlog or self.right.backlog)

    def _bring(self, now_us: int, seq: int, *keys: Vector, ahead: bool = False) -> None:
        """Have keys in the index with all their entries, those of earlier indexes and of backlogs too.

        With `ahead` also a few that nobody asks for: in the end there are none left, first in backlogs.
        """

        def alive(entries: Matrix, slots: Vector) -> Mask:
            return self.sources.live(entries, slots, FOREVER_US, now_us, seq)

        blocks = list(keys)
        if ahead:
            # One after the other: each costs about as much as a small micro-batch.
            left = [backlog.next_keys() for state in self.states for backlog in state.backlog]
            blocks += left or self.index.next_keys()
        wanted = self.index.admit(np.concatenate(blocks))
        self.index.part_from_elders()
        for side, state in enumerate(self.states):
            if state.backlog and len(wanted):
                wanted = np.unique(wanted)
                found = [backlog.take(wanted, alive) for backlog in state.backlog]
                self._append(side, in_order(np.concatenate(found)), now_us, seq)
            state.backlog = [backlog for backlog in state.backlog if not backlog.is_over]

    def settle(self, now_us: int, seq: int) -> None:
        """Have all entries in the states."""
        while self.left.backlog or self.right.backlog:
            self._bring(now_us, seq, ahead=True)

    def put(self, side: int, entries: Matrix) -> None:
        """Hold exactly these entries on a side; `reindex` must follow."""
        state = self.states[side]
        state.entries, state.count, state.moves, state.backlog = entries, len(entries), state.moves + 1, []

    def inherit(self, origins: "list[tuple[Join, int] | None]", now_us: int, seq: int) -> None:
        """Find the entries of each side by the index of the join they come from; index those without one.

        Unlike `reindex` this costs the same however many entries have an origin, or are in a backlog.
        """
        if not self.spec.hashed:
            return
        self.index = KeyIndex()
        for side, origin in enumerate(origins):
            if origin is not None:
                self.index.inherit(HEADS[side], origin[0].index, HEADS[origin[1]])
        if not self._lags:
            self.reindex()
            return
        for side, origin in enumerate(origins):
            state = self.states[side]
            if origin is None and not state.backlog:
                self._bring(now_us, seq, state.held[:, KEY])
                self.index.make_room(state.count)
                self.index.add(HEADS[side], state.held, 0)

    def former_index(self, side: int) -> FormerIndex | None:
        """Return how entries of a side are found after the join has been given up, if its index knows all of them."""
        known = self.spec.hashed and not self.index.elders
        return FormerIndex(self.spec.groups, self.index, HEADS[side]) if known else None

    def reindex(self) -> None:
        """Chain the entries of both sides anew, after they have been put there from elsewhere."""
        if self.spec.hashed:
            self.index.rebuild(self.left.held, self.right.held, 0)

    def entries_with(self, side: int, keys: Vector, before: int, now_us: int, seq: int) -> Matrix:
        """Return a side's live entries with one of the keys, by the index, whose latest row is below `before`."""
        if self._lags:
            self._bring(now_us, seq, keys)
        state = self.states[side]
        found = state.entries[self.index.places(HEADS[side], keys, state.entries)]
        return found[self.sources.live(found, state.slots, before, now_us, seq)]

    def live(self, side: int, before: int, now_us: int, seq: int) -> Matrix:
        """Return a side's entries that can still match a row at `now_us` or later, their latest row below `before`."""
        self.settle(now_us, seq)
        held, slots = self.states[side].held, self.states[side].slots
        return held[self.sources.live(held, slots, before, now_us, seq)]

    def pair(self, probes: Matrix, side: int, before: int, newer_only: bool, now_us: int, seq: int) -> Matrix:
        """Pair live entries of one side with the other side's, all with their latest row below `before`.

        With `newer_only` a pair is found only from the one whose latest row is earlier.
        """
        mine, other = self.states[side], self.states[1 - side]
        spec, evictions = self.spec, self.sources.evictions
        if self._lags:
            self._bring(now_us, seq, probes[:, KEY])
        cursor = self._cursor()
        cursor[ALIVE_AT], cursor[ALIVE_AFTER], cursor[NEWER_ONLY] = now_us, seq, newer_only
        found: list[Matrix] = []
        while True:
            out = self._pairs.of(self._width)
            count = pair_run(
                cursor, side == LEFT, probes, FOREVER_US, mine.entries, len(mine.components), False,
                other.entries, len(other.components), False, other.slots, before,
                self.index.words, self.index.heads, spec.hashed, spec.keyed, False,
                self._ops, evictions.table, evictions.bases, out, 0,
            )  # fmt: skip
            found.append(own(self._checked(out[:count])))
            if cursor[LEFT_AT if side == LEFT else RIGHT_AT] == len(probes):
                break
            self._pairs.grow()
        self.sources.predicate_evaluations += int(cursor[TESTED])
        self.sources.probes += len(probes)
        return found[0] if len(found) == 1 else np.concatenate(found)

    def newer_side(self, at: list[int]) -> int:
        """Return the side whose entry at a place has the later latest row; below 0 there is none."""
        latest = [
            state.entries[place, LATEST] if place >= 0 else -1 for state, place in zip(self.states, at, strict=True)
        ]
        return LEFT if latest[LEFT] > latest[RIGHT] else RIGHT

    def pair_newest(
        self, at: list[int], walk: int, tops: list[int], ordered: list[bool], before: int, now_us: int, seq: int,
        budget: int,
    ) -> tuple[Matrix, int, int]:  # fmt: skip
        """Pair live entries of both sides whose latest row is below `before`, newest first, as far as the budget goes.

        `at` says which entry of each side comes next, downwards to -1, and `walk` how far its partners have been
        visited; both are moved on. Return the pairs, where the walk stopped, and how many entries were passed.
        """
        (a, b), spec, evictions = self.states, self.spec, self.sources.evictions
        cursor = np.zeros(PAIR_CURSOR_SIZE, np.int64)
        cursor[PAIR_LEFT], cursor[PAIR_RIGHT], cursor[PAIR_WALK] = at[LEFT], at[RIGHT], walk
        found: list[Matrix] = []
        while True:
            out = self._pairs.of(self._width)
            count = pair_newest(
                cursor, a.entries, tops[LEFT] + 1, len(a.components), a.slots, ordered[LEFT],
                b.entries, tops[RIGHT] + 1, len(b.components), b.slots, ordered[RIGHT],
                self.index.words, self.index.heads, spec.hashed, spec.keyed, self._ops, before, now_us, seq,
                evictions.table, evictions.bases, budget, out,
            )  # fmt: skip
            found.append(own(self._checked(out[:count])))
            if count < len(out):
                break
            self._pairs.grow()
        at[LEFT], at[RIGHT] = int(cursor[PAIR_LEFT]), int(cursor[PAIR_RIGHT])
        self.sources.predicate_evaluations += int(cursor[PAIRS_TESTED])
        pairs = found[0] if len(found) == 1 else np.concatenate(found)
        return pairs, int(cursor[PAIR_WALK]), int(cursor[PAIRS_PASSED])


def own(results: Matrix) -> Matrix:
    """Return results that lie in room of their own, not in a buffer."""
    return results if results.base is None else results.copy()
