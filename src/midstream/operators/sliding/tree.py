"""Join tree: the joins of one plan, inputs before the joins that read them.

    rows taken in ──▶ joins, bottom up ──▶ results in order of their latest row

With STAIRs the two states of a join are a pair of dual modules between which an eddy routes batches: it visits a pair
once the batches of both its inputs are there, which is the same way up. Which STAIRs there are is the plan. Migrations
demote what they hold, dropping intermediate results, and promote it, making them from the STAIRs below.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from midstream.kernels.arrays import Matrix
from midstream.kernels.complete import NO_WALK
from midstream.kernels.entries import ROWS, values_of
from midstream.kernels.key_index import LEFT_HEAD
from midstream.model.time import FOREVER_US
from midstream.operators.contract.execution import Execution, Parts, PlanSwitch, StateSize, Switched
from midstream.operators.sliding.feed import Feed
from midstream.operators.sliding.join import LEFT, RIGHT, Join
from midstream.operators.sliding.join_state import JoinInputState
from midstream.operators.sliding.key_index import KeyIndex
from midstream.operators.sliding.key_run import KeyRun
from midstream.operators.sliding.state_size import live_in, size_of
from midstream.operators.source.scan import Leaf
from midstream.operators.source.sources import Renumbering, Taken


@dataclass(frozen=True)
class Input:
    """One input of a join: a source's arriving rows, or the results of the join below."""

    parts: Parts
    leaf: Leaf | None
    """What is wanted of arriving rows; None when a join is below."""
    feed: Feed
    """How results of the join below are laid out."""
    layout: Feed
    """How entries from any other plan are laid out: like `feed`, but trusting no key they carry."""
    values: int
    """How many comparison values its join wants."""


@dataclass
class Step:
    """A join of the tree and where its inputs come from."""

    join: Join
    inputs: tuple[Input, Input]

    @property
    def parts(self) -> Parts:
        """Return the aliases of its results."""
        return self.inputs[LEFT].parts | self.inputs[RIGHT].parts


class Completion(Protocol):
    """Somebody who fills incomplete states before they are probed."""

    def before_step(self, step: Step, left: Matrix, right: Matrix, now_us: int, seq: int) -> None:
        """Make sure a step's states hold what the two batches will probe for."""


class JoinTree(Execution):
    """The joins of one plan.

    Invariant: after every call, the states hold all entries so far that a later row can still match, or `completion`
    knows which are missing.
    """

    replays = False

    def __init__(self, steps: list[Step], components: tuple[str, ...]) -> None:
        self.steps = steps
        self.components = components
        """Aliases in the order of a result's row numbers."""
        self.completion: Completion | None = None

    def on_rows(self, rows: Taken, now_us: int, seq: int) -> Matrix:
        """Run rows through the joins and return the results they complete."""
        if not self.steps:
            return self._alone(rows)
        top, left, right = self._below_top(rows, now_us, seq)
        return top.on_batches(left, right, now_us, seq)

    def in_pieces(self, rows: Taken, now_us: int, seq: int) -> Iterator[Matrix]:
        """Run rows through the joins and yield the results as the last join finds them."""
        if not self.steps:
            yield self._alone(rows)
            return
        top, left, right = self._below_top(rows, now_us, seq)
        yield from top.in_pieces(left, right, now_us, seq)

    def _alone(self, rows: Taken) -> Matrix:
        return rows[self.components[0]].batch(Leaf(self.components[0], (), ()))

    def _below_top(self, rows: Taken, now_us: int, seq: int) -> tuple[Join, Matrix, Matrix]:
        """Run rows through all joins but the last; return that one and its two batches."""
        joined: dict[Parts, Matrix] = {}
        for step in self.steps:
            left, right = (self.batch(i, rows, joined) for i in step.inputs)
            if self.completion is not None:
                self.completion.before_step(step, left, right, now_us, seq)
            if step is not self.steps[-1]:
                joined[step.parts] = step.join.on_batches(left, right, now_us, seq)
        return step.join, left, right

    @staticmethod
    def batch(source: Input, rows: Taken, joined: dict[Parts, Matrix]) -> Matrix:
        """Return the rows of an input laid out for its join."""
        if source.leaf is not None:
            return rows[source.leaf.alias].batch(source.leaf)
        return source.feed.prepare(joined[source.parts])

    def joins(self) -> list[Join]:
        """Return the joins, inputs before the joins that read them."""
        return [step.join for step in self.steps]

    def inputs(self) -> Iterator[tuple[Step, int, JoinInputState]]:
        """Go through all inputs with their states, bottom up."""
        for step in self.steps:
            for side in (LEFT, RIGHT):
                yield step, side, step.join.states[side]

    def producer(self, parts: Parts) -> Step | None:
        """Return the step whose results have these aliases, or None for a single source."""
        return next((s for s in self.steps if s.parts == parts), None)

    def renumber(self, change: Renumbering) -> None:
        """Follow a row store that has numbered its rows anew."""
        for _, _, state in self.inputs():
            state.renumber(change.alias, change.places, change.base)

    def size(self) -> StateSize:
        """Return what the joins hold."""
        return size_of(self.joins())

    def live_entries(self, now_us: int, seq: int) -> int:
        """Return how many entries of the joins can still match."""
        return live_in(self.joins(), now_us, seq)

    def switch_plan(self, switch: PlanSwitch) -> Switched:
        """Let the strategy go on from here: every state is complete."""
        return switch.rebuild(self, {})

    def refill(self, rows: Taken, now_us: int, seq: int) -> None:
        """Take rows into the states of their sources alone."""
        for step, side, _ in self.inputs():
            leaf = step.inputs[side].leaf
            if leaf is not None:
                step.join.fill(side, rows[leaf.alias].batch(leaf), now_us, seq)

    def warm_up(self) -> None:
        """Call what migrations ask of joins."""
        for step in self.steps[:1]:
            join = step.join
            nothing = join.left.held.copy()
            join.live(LEFT, FOREVER_US, 0, -1)
            join.entries_with(LEFT, np.empty(0, np.int64), FOREVER_US, 0, -1)
            join.fill(LEFT, nothing, 0, -1)
            join.reindex()
            join.pair(nothing, LEFT, FOREVER_US, False, 0, -1)
            join.pair_newest([-1, -1], NO_WALK, [-1, -1], [True, True], 0, 0, -1, 1)
            join.show(LEFT)
            other = KeyIndex()
            other.inherit(LEFT_HEAD, join.index, LEFT_HEAD)
            other.places(LEFT_HEAD, np.zeros(1, np.int64), nothing)
            other.admit(np.zeros(1, np.int64))
            KeyRun(np.zeros(1, np.int64), np.ones(1, np.bool_)).places(np.zeros(1, np.int64))
            values_of(nothing, ROWS, np.empty(0, np.int64), 0)
