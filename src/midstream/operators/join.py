"""Join: match the entries of two inputs, by key (hash join) or all with all (nested-loop join).

    left  ──▶ insert left,  walk right ──▶ check residuals ──▶ joined
    right ──▶ insert right, walk left  ──▶ check residuals ──▶ joined

State: one JoinInputState per side. The two methods differ in how partners are found, not in what is remembered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from midstream.kernels.complete import (
    NEXT,
    PAIR_CURSOR_SIZE,
    PAIRS_TESTED,
    PROBE_AT,
    PROBE_WALK,
    find_by_keys,
    pair_up,
)
from midstream.kernels.entries import ROWS
from midstream.kernels.join import (
    CURSOR_SIZE,
    FRESH,
    LEFT_AT,
    LEFT_COUNT,
    RIGHT_AT,
    RIGHT_COUNT,
    TAKEN,
    TESTED,
    WALK,
    join_batches,
)
from midstream.kernels.key_index import LEFT_HEAD, RIGHT_HEAD
from midstream.model.time import FOREVER_US
from midstream.operators.join_state import JoinInputState
from midstream.operators.key_index import KeyIndex
from midstream.operators.sources import Sources
from midstream.plan.expr import Expr

Matrix = npt.NDArray[np.int64]
Vector = npt.NDArray[np.int64]
Residual = Callable[[Matrix], npt.NDArray[np.bool_]]
"""Tells for each candidate result whether it holds."""

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
        self._out: Matrix | None = None

    @property
    def left(self) -> JoinInputState:
        """Return the state of the left input."""
        return self.states[LEFT]

    @property
    def right(self) -> JoinInputState:
        """Return the state of the right input."""
        return self.states[RIGHT]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_out": None}

    def _room(self) -> Matrix:
        """Return the place where results are written before they are checked."""
        width = ROWS + len(self.spec.components) + self.out_values
        if self._out is None or self._out.shape[1] != width:
            self._out = np.empty((1024, width), np.int64)
        return self._out

    def _more_room(self) -> None:
        out = self._room()
        if len(out) < OUT_ROWS:
            self._out = np.empty((len(out) * 4, out.shape[1]), np.int64)

    def on_batches(self, left: Matrix, right: Matrix, now_us: int, seq: int) -> Matrix:
        """Insert both batches, match them, and return the results in order of their latest row.

        `now_us` is the time of the first row that can arrive from now on, `seq` the last number before it.
        """
        self.reserve(len(left), len(right), now_us, seq)
        cursor = np.zeros(CURSOR_SIZE, np.int64)
        cursor[WALK] = FRESH
        cursor[LEFT_COUNT], cursor[RIGHT_COUNT] = self.left.count, self.right.count
        found: list[Matrix] = []
        while True:
            count = self._match(cursor, left, right)
            found.append(self._checked(self._room()[:count]))
            if cursor[LEFT_AT] == len(left) and cursor[RIGHT_AT] == len(right):
                break
            self._more_room()
        self.left.count, self.right.count = int(cursor[LEFT_COUNT]), int(cursor[RIGHT_COUNT])
        self.index.taken += int(cursor[TAKEN])
        self.sources.predicate_evaluations += int(cursor[TESTED])
        return found[0] if len(found) == 1 else np.concatenate(found)

    def reserve(self, left: int, right: int, now_us: int, seq: int) -> None:
        """Make room for that many new entries on each side."""
        hashed = self.spec.hashed
        for side, count in ((LEFT, left), (RIGHT, right)):
            if self.inserts[side]:
                moved = self.states[side].reserve(count, now_us, seq, self.sources.evictions, hashed)
                if moved is not None:
                    self.index.follow(HEADS[side], moved)
        if hashed and not self.index.has_room(left + right):
            self.index.rebuild(self.left.held, self.right.held, left + right)

    def _match(self, cursor: Vector, left: Matrix, right: Matrix) -> int:
        (a, b), spec, evictions = self.states, self.spec, self.sources.evictions
        return join_batches(
            cursor,
            left, a.entries, len(a.components), a.in_order, a.slots, self.inserts[LEFT], self.until[LEFT],
            right, b.entries, len(b.components), b.in_order, b.slots, self.inserts[RIGHT], self.until[RIGHT],
            self.index.words, self.index.heads, spec.hashed, spec.keyed, self.cuts,
            self._ops, evictions.table, evictions.bases, self._room(),
        )  # fmt: skip

    def _checked(self, candidates: Matrix) -> Matrix:
        """Return the candidates that pass every residual, as a batch of their own."""
        for check in self.checks:
            if len(candidates):
                candidates = candidates[check(candidates)]
        return candidates.copy() if candidates.base is not None else candidates

    def fill(self, side: int, entries: Matrix, now_us: int, seq: int) -> None:
        """Add entries that were found elsewhere to a side's state."""
        room = (len(entries), 0) if side == LEFT else (0, len(entries))
        self.reserve(*room, now_us, seq)
        state = self.states[side]
        start = state.count
        state.entries[start : start + len(entries)] = entries
        state.count += len(entries)
        if self.spec.hashed:
            self.index.add(HEADS[side], state.held, start)

    def replace(self, side: int, entries: Matrix, now_us: int, seq: int) -> None:
        """Hold exactly these entries on a side."""
        self.states[side].count = 0
        if self.spec.hashed:
            self.index.rebuild(self.left.held, self.right.held, len(entries))
        self.fill(side, entries, now_us, seq)

    def entries_with(self, side: int, keys: Vector, before: int, now_us: int, seq: int) -> Matrix:
        """Return a side's live entries with one of the keys, by the index, whose latest row is below `before`."""
        state = self.states[side]
        places = np.empty(max(64, 2 * len(keys)), np.int64)
        args = (keys, state.entries, self.index.words, self.index.heads, HEADS[side])
        count = find_by_keys(*args, places)
        if count > len(places):
            places = np.empty(count, np.int64)
            find_by_keys(*args, places)
        found = state.entries[places[:count]]
        return found[self.sources.live(found, state, before, now_us, seq)]

    def pair(self, probes: Matrix, side: int, before: int, newer_only: bool, now_us: int, seq: int) -> Matrix:
        """Pair live entries of one side with the other side's, all with their latest row below `before`.

        With `newer_only` a pair is found only from the one whose latest row is earlier.
        """
        mine, other = self.states[side], self.states[1 - side]
        spec, evictions = self.spec, self.sources.evictions
        cursor = np.zeros(PAIR_CURSOR_SIZE, np.int64)
        cursor[PROBE_WALK] = NEXT
        found: list[Matrix] = []
        while True:
            count = pair_up(
                cursor, probes, len(mine.components), other.entries, other.count, len(other.components),
                self.index.words, self.index.heads, HEADS[1 - side], spec.hashed, spec.keyed, side == LEFT,
                self._ops, before, newer_only, now_us, seq, other.slots, evictions.table, evictions.bases,
                self._room(),
            )  # fmt: skip
            found.append(self._checked(self._room()[:count]))
            if cursor[PROBE_AT] == len(probes):
                break
            self._more_room()
        self.sources.predicate_evaluations += int(cursor[PAIRS_TESTED])
        return found[0] if len(found) == 1 else np.concatenate(found)
