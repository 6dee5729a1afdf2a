"""A task of a hybrid migration at work: the new joins, what is left of the old ones, the table that divides them."""

import numpy as np

from midstream.migrate.background import BackgroundState
from midstream.migrate.characteristics import CharacteristicsTable, Region
from midstream.migrate.decompose import Task
from midstream.migrate.match import Matching, Moment, keep_join, move_state, same_join, share_state, sides_of
from midstream.model.coverage import COMPLETE, Coverage
from midstream.model.time import FOREVER_US
from midstream.operators.contract.execution import Parts
from midstream.operators.sliding.entry import Matrix, in_order, reordered
from midstream.operators.sliding.join import LEFT, RIGHT, Join
from midstream.operators.sliding.tree import Input, JoinTree, Step
from midstream.operators.source.sources import Position, Renumbering, Sources, Taken


class TaskRun:
    """One task.

    Invariant: a result of the task comes from the old joins when it lies in a region of the table, else from the new.
    """

    def __init__(self, task: Task, sources: Sources, position: Position, pairs: bool = False) -> None:
        self.task = task
        self.pairs = pairs
        """What the new joins lack at the bottom: pairs of old rows, which the background can compute. Else, with only
        one join at the bottom, all old rows of one input, whatever they meet: the old plan is good at those."""
        self.sources = sources
        self.position = position
        self.table = CharacteristicsTable()
        self.background: BackgroundState | None = None
        self.states_completed = 0
        self.entries_completed = 0

    def share_states(self, held: dict[Parts, tuple[Step, int]], matching: Matching, moment: Moment) -> None:
        """Give the new joins the states both plans have; note what the others lack."""
        task = self.task
        if task.trivial and same_join(task.old[0], task.new[0]):
            keep_join(task.old[0], task.new[0])
            matching.kept += task.sources
            return
        bottom = [s for s in task.new if s.parts != task.parts and all(i.parts in task.sources for i in s.inputs)]
        for step in task.new:
            lowest = step in bottom
            pivot = self._joined_last(step) if lowest and len(bottom) == 1 and not self.pairs else None
            for side, source in sides_of(step):
                if source.parts == pivot:
                    step.join.states[side].coverage = Coverage(self.position.seq)
                    matching.missing.append(source.parts)
                elif source.parts in task.sources:
                    if task.trivial or not share_state(*held[source.parts], step, side):
                        move_state(*held[source.parts], step, side, moment, keep=not task.trivial)
                    matching.moved.append(source.parts)
                else:
                    step.join.states[side].coverage = Coverage(self.position.seq)
                    matching.missing.append(source.parts)
            step.join.settle(moment.now_us, moment.seq)
            step.join.reindex()
            if lowest:
                self.table.regions[step.parts] = [Region(dict.fromkeys(pivot or step.parts, self.position))]
        self._follow_table()

    def _joined_last(self, step: Step) -> Parts:
        """Return the input of a step that the old plan joins later than the other."""

        def place(parts: Parts) -> int:
            return next(k for k, old in enumerate(self.task.old) if any(i.parts == parts for i in old.inputs))

        return max((i.parts for i in step.inputs), key=place)

    def run(self, rows: Taken, joined: dict[Parts, Matrix], orders: dict[Parts, tuple[str, ...]], now_us: int,
            seq: int) -> Matrix:  # fmt: skip
        """Return the results of the task; `joined` are those of other tasks, with the order of their components."""
        new: dict[Parts, Matrix] = {}
        for step in self.task.new:
            left, right = (_batch(source, rows, joined, orders, new) for source in step.inputs)
            new[step.parts] = step.join.on_batches(left, right, now_us, seq)
        results = new[self.task.parts]
        if not len(self.table):
            return results
        old: dict[Parts, Matrix] = {}
        for step in self.task.old:
            batches = [_batch(source, rows, joined, orders, old) for source in step.inputs]
            for side, source in sides_of(step):
                if source.parts in self.task.sources and self.table.disconnected(source.parts):
                    batches[side] = batches[side][:0]
            found = step.join.on_batches(batches[LEFT], batches[RIGHT], now_us, seq)
            old[step.parts] = found[self.table.needed(found, step.join.spec.components)]
        mine = reordered(old[self.task.parts], self.task.old[-1].join.spec.components, self.components)
        return in_order(np.concatenate([_as_wide(mine, results), results]))

    @property
    def components(self) -> tuple[str, ...]:
        """Return the aliases in the order of a result's row numbers."""
        return self.task.new[-1].join.spec.components

    def _follow_table(self) -> None:
        """Let the old joins match only what the table asks for."""
        if not len(self.table):
            return
        for step in self.task.old:
            for side, source in sides_of(step):
                if source.parts in self.task.sources:
                    step.join.until[side] = self.table.until(source.parts, FOREVER_US)
                    if self.table.disconnected(source.parts):
                        self._forget(step, 1 - side)

    @staticmethod
    def _forget(step: Step, side: int) -> None:
        """Drop a state that only rows of a disconnected input would probe."""
        if step.join.inserts[side] and not step.join.spec.hashed:
            step.join.inserts[side] = False
            step.join.states[side].count = 0

    def drop_expired(self, now_us: int, seq: int) -> None:
        """Drop regions that have expired."""
        before = len(self.table)
        if before:
            self.table.drop_expired(self.sources, now_us, seq)
            if self.background is not None and self.background.step.parts not in self.table.regions:
                # What was found for it is as dead as its regions.
                self.background.close()
                self.background = None
            if len(self.table) != before:
                self._follow_table()

    def work(self, budget: int, moment: Moment) -> int:
        """Compute states in the background with so many evaluations; return what is left of them."""
        while budget > 0 and len(self.table):
            if self.background is None:
                step = self._lowest()
                above, side = next((s, k) for s in self.task.new for k, i in sides_of(s) if i.parts == step.parts)
                self.background = BackgroundState(step, self.table.regions[step.parts], above, side)
            budget = self.background.advance(budget, moment)
            if budget > 0:
                self._finish(self.background, moment)
                self.background = None
        return budget

    def _lowest(self) -> Step:
        """Return the lowest step whose results are lacking and whose own inputs lack nothing."""
        lacking = self.table.regions
        return next(
            step for step in self.task.new if step.parts in lacking and not any(p < step.parts for p in lacking)
        )

    def _finish(self, background: BackgroundState, moment: Moment) -> None:
        """Show what was computed to those who probe the state, and move what the old joins answer for one step up."""
        parts, above, side = background.step.parts, background.above, background.side
        background.close()
        above.join.show(side)
        self.entries_completed += background.entries_found
        self.states_completed += 1
        above.join.states[side].coverage = COMPLETE
        regions = self.table.regions.pop(parts)
        if above.parts != self.task.parts:
            # Rows of the other input that came before now never met what was lacking: they lack with it.
            here = self.sources.position(moment.seq + 1, moment.now_us)
            sibling = above.inputs[1 - side].parts
            moved = [region.and_before(sibling, here) for region in regions]
            self.table.regions.setdefault(above.parts, []).extend(moved)
        self._follow_table()

    def old_joins(self) -> list[Join]:
        """Return the old joins that are still needed."""
        return [step.join for step in self.task.old] if len(self.table) else []

    def renumber(self, change: Renumbering) -> None:
        """Follow a row store that has numbered its rows anew."""
        self.table.renumber(change)


def _batch(source: Input, rows: Taken, joined: dict[Parts, Matrix], orders: dict[Parts, tuple[str, ...]],
           own: dict[Parts, Matrix]) -> Matrix:  # fmt: skip
    """Return the rows of an input laid out for its join: arriving, from this task, or from another one."""
    if source.leaf is not None or source.parts in own:
        return JoinTree.batch(source, rows, own)
    return source.layout.prepare(source.layout.arrange(joined[source.parts], orders[source.parts]))


def _as_wide(results: Matrix, like: Matrix) -> Matrix:
    """Return results with as many columns as others; further ones are filled in later."""
    if results.shape[1] >= like.shape[1]:
        return results[:, : like.shape[1]]
    out = np.zeros((len(results), like.shape[1]), np.int64)
    out[:, : results.shape[1]] = results
    return out
