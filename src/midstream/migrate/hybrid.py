"""Hybrid (HybMig): the new plan answers at once what it can; the old plan only what is left.

    rows ──▶ new plan over shared states ──▶ results ─────────────┐
        └──▶ old plan, cut back to the characteristics table ─────┴──▶ merge ──▶ out

The states of single sources and of what both plans compute are shared. A state only the new plan has starts empty; what
lies in its region comes from the old plan until the region has expired, or until background computation has filled it.
"""

import numpy as np

from midstream.migrate.decompose import decompose
from midstream.migrate.match import Matching, Moment, held_states
from midstream.migrate.migration import Migration
from midstream.migrate.switch import Switch, progress_of
from midstream.migrate.task_run import TaskRun
from midstream.model.coverage import COMPLETE
from midstream.operators.contract.execution import Execution, Parts, Progress, Switched
from midstream.operators.sliding.entry import Matrix
from midstream.operators.sliding.join import Join
from midstream.operators.source.sources import Renumbering, Taken

PART = 1 << 14
"""Evaluations after which the background looks at what it has spent."""


def divide_work(switch: Switch) -> Switched:
    """Return the new plan at work, and of the old one what it cannot answer yet."""
    both = Hybrid(switch)
    return Switched(both, both.progress())


class Hybrid(Migration):
    """Two plans at work, divided task by task.

    Invariant: each result leaves once, in max order.
    Cost: the new plan's, and of the old plan's only what the tables ask for, for at most one window.
    """

    divides_work = True

    def __init__(self, switch: Switch) -> None:
        asked = switch.request
        self.new = switch.new
        self.components = switch.new.components
        self.ordering = asked.ordering
        self.budget = asked.budget if asked.background else 0
        """Predicate evaluations per micro-batch spent on the new plan's states in the background."""
        self.sources = switch.sources
        self.capacity = asked.capacity
        """Evaluations per second of event time to spend in all; None: the budget says what the background may."""
        self._spare = 0
        """Evaluations that rows have left to the background; below 0 they have had more than there was."""
        self._seen_us = switch.moment.now_us
        self._seen_cost = switch.sources.effort.cost
        self.matching = Matching()
        self.tasks = [
            TaskRun(task, switch.sources, switch.position, asked.pairs)
            for task in decompose(switch.old, switch.new, asked.sharing)
        ]
        held = held_states(switch.old)
        for task in self.tasks:
            task.share_states(held, self.matching, switch.moment)
        self._orders = {t.task.parts: t.components for t in self.tasks}

    def on_rows(self, rows: Taken, now_us: int, seq: int) -> Matrix:
        """Run rows through the new plan and what is left of the old one."""
        for task in self.tasks:
            task.drop_expired(now_us, seq)
        if self.ordering == "parallel":
            return self._run(rows, now_us, seq)
        # One row at a time: what the old plan makes of it, then what the new plan does.
        seqs = np.sort(np.concatenate([taken.rows.seqs for taken in rows.values()])).tolist()
        found = [self._run({a: t.between(s, s + 1) for a, t in rows.items()}, now_us, s - 1).copy() for s in seqs]
        return np.concatenate(found) if found else self._run(rows, now_us, seq)

    def _run(self, rows: Taken, now_us: int, seq: int) -> Matrix:
        joined: dict[Parts, Matrix] = {}
        for task in self.tasks:
            joined[task.task.parts] = task.run(rows, joined, self._orders, now_us, seq)
        return joined[frozenset(self.components)]

    def work(self, now_us: int, seq: int) -> None:
        """Compute states in the background."""
        for task in self.tasks:
            task.drop_expired(now_us, seq)
        if self.capacity is None:
            self._work(self.budget, Moment(now_us, seq))
            return
        self._account(now_us)
        while self._spare > 0:
            # In parts, since what is found costs more than what is only passed.
            part = min(self._spare, PART)
            if self._work(part, Moment(now_us, seq)) == part:
                break
            self._account(now_us)

    def _work(self, budget: int, moment: Moment) -> int:
        """Spend so many evaluations on states; return what is left of them."""
        for task in self.tasks:
            budget = task.work(budget, moment)
        return budget

    def _account(self, now_us: int) -> None:
        """See what time has brought since the last look, and what was spent; what was not used is lost."""
        assert self.capacity is not None
        cost = self.sources.effort.cost
        brought = self.capacity * max(0, now_us - self._seen_us) // 1_000_000
        if brought:
            self._spare = min(self._spare, 0) + brought
        self._spare -= cost - self._seen_cost
        self._seen_us, self._seen_cost = max(now_us, self._seen_us), cost

    def progress(self) -> Progress:
        """Return how many states are shared, and what was computed in the background."""
        return progress_of(
            self.matching,
            states_completed=sum(t.states_completed for t in self.tasks),
            entries_completed=sum(t.entries_completed for t in self.tasks),
        )

    def joins(self) -> list[Join]:
        """Return the joins of the new plan, and those of the old one that are still needed."""
        return [*self.new.joins(), *(join for task in self.tasks for join in task.old_joins())]

    def renumber(self, change: Renumbering) -> None:
        """Follow a row store that has numbered its rows anew."""
        for state in {id(s): s for join in self.joins() for s in join.states}.values():
            state.renumber(change.alias, change.places, change.base)
        for task in self.tasks:
            task.renumber(change)

    def successor(self, now_us: int, seq: int) -> Execution | None:
        """Return the new plan once the old one has nothing left to answer."""
        for task in self.tasks:
            task.drop_expired(now_us, seq)
        if any(len(task.table) for task in self.tasks):
            return None
        for _, _, state in self.new.inputs():
            state.coverage = COMPLETE
        return self.new
