"""Moving state: compute the new plan's states at once, then go on with the new plan alone.

    match states ──▶ move them ──▶ compute the others from the bottom up ──▶ new plan

Output pauses while the states are computed: nothing leaves until they are.
"""

from midstream.migrate.match import Matching, all_pairs, demote, held_states, take_over
from midstream.migrate.switch import Switch, progress_of
from midstream.operators.contract.execution import Switched
from midstream.operators.sliding.tree import Input, Step


def move_state_over(switch: Switch) -> Switched:
    """Return the new plan alone, with complete states.

    Each missing state is the join of the two below it; with nested loops that costs the product of their sizes.
    """
    old, new, moment, matching = switch.old, switch.new, switch.moment, Matching()
    demoted = demote(old, new)
    complete = {p for p, (step, side) in held_states(old).items() if step.join.states[side].coverage.complete}
    completed = 0

    def compute(step: Step, side: int, source: Input) -> None:
        nonlocal completed
        below = new.producer(source.parts)
        assert below is not None, "the state of a single source is never missing"
        entries = source.feed.prepare(all_pairs(below, moment))
        step.join.put(side, entries)
        completed += len(entries)
        switch.sources.entries_kept += len(entries)
        matching.missing.append(source.parts)

    take_over(old, new, moment, matching, lambda _, source: source.parts in complete, compute)
    for join in new.joins():
        join.cuts = True
    progress = progress_of(
        matching, states_completed=len(matching.missing), entries_completed=completed, entries_demoted=demoted
    )
    return Switched(new, progress)
