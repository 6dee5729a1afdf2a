"""STAIRs: joins as pairs of dual state modules between which an eddy routes batches.

    batch ──▶ eddy ──▶ insert into its STAIR, probe the dual ──▶ back to the eddy, one join further

A STAIR holds what the input of a join would hold. Which STAIRs there are is the plan; the eddy decides when to visit
them. Demoting drops the intermediate results of a STAIR, promoting computes them from the STAIRs below
(`migrate/promote.py`).
"""

from midstream.kernels.arrays import Matrix
from midstream.operators.contract.execution import Parts
from midstream.operators.sliding.tree import JoinTree, Step
from midstream.operators.source.sources import Taken


class Stairs(JoinTree):
    """A tree of joins whose batches go back to an eddy after every visit."""

    def __init__(self, steps: list[Step], components: tuple[str, ...]) -> None:
        super().__init__(steps, components)
        self.visits = 0
        """Batches the eddy has routed."""

    def on_rows(self, rows: Taken, now_us: int, seq: int) -> Matrix:
        """Route rows until nothing is left to visit; return what has been through all STAIRs."""
        if not self.steps:
            return super().on_rows(rows, now_us, seq)
        lanes: dict[Parts, Matrix] = {}
        open_steps = list(self.steps)
        while open_steps:
            step = next(s for s in open_steps if all(i.leaf is not None or i.parts in lanes for i in s.inputs))
            open_steps.remove(step)
            left, right = (self.batch(i, rows, lanes) for i in step.inputs)
            self.visits += 2
            if self.completion is not None:
                self.completion.before_step(step, left, right, now_us, seq)
            lanes[step.parts] = step.join.on_batches(left, right, now_us, seq)
        return lanes[frozenset(self.components)]
