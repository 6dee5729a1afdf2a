"""Moving state: compute the new plan's states at once, then go on with the new plan alone.

    match states ──▶ move them ──▶ compute the others from the bottom up ──▶ new plan

Output pauses while the states are computed: nothing leaves until they are.
"""

from midstream.migrate.match import (
    Matching,
    Moment,
    held_states,
    keep_join,
    move_state,
    same_join,
    sides_of,
)
from midstream.migrate.promote import demote, promote_all
from midstream.migrate.switch import Switch, progress_of
from midstream.model.coverage import COMPLETE
from midstream.operators.contract.execution import Parts, Switched
from midstream.operators.sliding.tree import JoinTree, Step


def move_state_over(switch: Switch) -> Switched:
    """Return the new plan alone, with complete states."""
    demoted = demote(switch.old, switch.new, switch.moment)
    moving = MovingState(switch.old, switch.new, switch.moment)
    moving.run()
    progress = progress_of(
        moving.matching,
        states_completed=len(moving.matching.missing),
        entries_completed=moving.entries_completed,
        entries_demoted=demoted,
    )
    return Switched(switch.new, progress)


class MovingState:
    """Fill every state of a new plan from a running one.

    Invariant: afterwards all states of the new plan are complete.
    Cost: each missing state is the join of the two below it; with nested loops the product of their sizes.
    """

    def __init__(self, old: JoinTree, new: JoinTree, moment: Moment) -> None:
        self.old = old
        self.new = new
        self.moment = moment
        self.matching = Matching()
        self.entries_completed = 0

    def run(self) -> JoinTree:
        """Return the new plan with complete states."""
        held = {
            parts: place
            for parts, place in held_states(self.old).items()
            if place[0].join.states[place[1]].coverage.complete
        }
        for step in self.new.steps:
            former = self.old.producer(step.parts)
            complete = all(source.parts in held for source in step.inputs)
            if former is not None and complete and same_join(former, step):
                keep_join(former, step)
                step.join.cuts = True
                self.matching.kept += [source.parts for source in step.inputs]
                continue
            for side, source in sides_of(step):
                if source.parts in held:
                    move_state(*held[source.parts], step, side, self.moment, keep=False)
                    self.matching.moved.append(source.parts)
                else:
                    self._compute(source.parts, step, side)
            step.join.reindex()
        return self.new

    def _compute(self, parts: Parts, step: Step, side: int) -> None:
        below = self.new.producer(parts)
        assert below is not None, "the state of a single source is never missing"
        self.entries_completed += promote_all(below, step, side, self.moment)
        step.join.states[side].coverage = COMPLETE
        self.matching.missing.append(parts)
