"""Join: match the entries of two inputs, by key (hash join) or all with all (nested-loop join).

    left  ──▶ insert left,  walk right ──▶ check residuals ──▶ joined
    right ──▶ insert right, walk left  ──▶ check residuals ──▶ joined

State: one JoinInputState per side. The two methods differ in how partners are found, not in what is remembered.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
from midstream.operators.arrays import Arrays, inside, numbers, under
from midstream.operators.join_state import JoinInputState
from midstream.operators.key_index import KeyIndex
from midstream.operators.window import EvictionTable
from midstream.plan.expr import Expr

Matrix = npt.NDArray[np.int64]
Residual = Callable[[Matrix], npt.NDArray[np.bool_]]
"""Tells for each candidate result whether it holds."""

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
    ops: tuple[int, ...]
    """Codes of the comparisons between left and right values."""
    residuals: tuple[Expr, ...]
    out_values: int
    """Comparison values the join above wants room for."""


class Join:
    """One join of a tree."""

    def __init__(
        self,
        spec: JoinSpec,
        left: JoinInputState,
        right: JoinInputState,
        evictions: EvictionTable,
        checks: tuple[Residual, ...],
    ) -> None:
        self.spec = spec
        self.left = left
        self.right = right
        self.evictions = evictions
        self.checks = checks
        self.index = KeyIndex()
        self.predicate_evaluations = 0
        self._ops = np.array(spec.ops, np.int64)
        self._out: Matrix = np.empty((1024, ROWS + len(spec.components) + spec.out_values), np.int64)

    def on_batches(self, left: Matrix, right: Matrix, now_us: int, seq: int) -> Matrix:
        """Insert both batches, match them, and return the results in order of their latest row.

        `now_us` is the time of the first row that can arrive from now on, `seq` the last number before it.
        """
        self._reserve(len(left), len(right), now_us, seq)
        cursor = np.zeros(CURSOR_SIZE, np.int64)
        cursor[WALK] = FRESH
        cursor[LEFT_COUNT], cursor[RIGHT_COUNT] = self.left.count, self.right.count
        found: list[Matrix] = []
        while True:
            count = self._match(cursor, left, right)
            found.append(self._checked(self._out[:count]))
            if cursor[LEFT_AT] == len(left) and cursor[RIGHT_AT] == len(right):
                break
            if len(self._out) < OUT_ROWS:
                self._out = np.empty((len(self._out) * 4, self._out.shape[1]), np.int64)
        self.left.count, self.right.count = int(cursor[LEFT_COUNT]), int(cursor[RIGHT_COUNT])
        self.index.taken += int(cursor[TAKEN])
        self.predicate_evaluations += int(cursor[TESTED])
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _reserve(self, left: int, right: int, now_us: int, seq: int) -> None:
        """Make room for that many new entries on each side."""
        hashed = self.spec.hashed
        for state, count, head in ((self.left, left, LEFT_HEAD), (self.right, right, RIGHT_HEAD)):
            moved = state.reserve(count, now_us, seq, self.evictions, hashed)
            if moved is not None:
                self.index.follow(head, moved)
        if hashed and not self.index.has_room(left + right):
            self.index.rebuild(self.left.held, self.right.held, left + right)

    def _match(self, cursor: npt.NDArray[np.int64], left: Matrix, right: Matrix) -> int:
        a, b, spec = self.left, self.right, self.spec
        return join_batches(
            cursor,
            left, a.entries, len(a.components), a.in_order, a.slots,
            right, b.entries, len(b.components), b.in_order, b.slots,
            self.index.words, self.index.heads, spec.hashed, spec.keyed,
            self._ops, self.evictions.table, self.evictions.bases, self._out,
        )  # fmt: skip

    def export(self) -> Arrays:
        """Return the states of both sides, and the index that chains them."""
        counts = {"counts": numbers((self.predicate_evaluations,))}
        sides = inside("left", self.left.export()) | inside("right", self.right.export())
        return sides | inside("index", self.index.export()) | counts

    def load(self, arrays: Arrays) -> None:
        """Take over what another join of the same shape exported."""
        self.left.load(under(arrays, "left"))
        self.right.load(under(arrays, "right"))
        self.index.load(under(arrays, "index"))
        self.predicate_evaluations = int(arrays["counts"][0])

    def _checked(self, candidates: Matrix) -> Matrix:
        """Return the candidates that pass every residual, as a batch of their own."""
        for check in self.checks:
            if len(candidates):
                candidates = candidates[check(candidates)]
        return candidates.copy() if candidates.base is not None else candidates
