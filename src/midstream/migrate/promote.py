"""Promote and demote: make the intermediate results of a state from the states below it, and drop them again.

In a tree it is what moving state and just in time do to states; in STAIRs' words it is what an eddy asks of a STAIR.
Eagerly all entries are promoted at once; just in time those somebody asks for.
"""

from midstream.migrate.match import Moment, all_pairs
from midstream.model.time import FOREVER_US
from midstream.operators.sliding.entry import Matrix, in_order
from midstream.operators.sliding.tree import JoinTree, Step


def promote_all(below: Step, step: Step, side: int, moment: Moment) -> int:
    """Fill a state with every live result of the join below it; `reindex` must follow. Return how many entries."""
    entries = step.inputs[side].feed.prepare(all_pairs(below, moment))
    step.join.put(side, in_order(entries))
    return len(entries)


def promote(below: Step, entries: Matrix, driver: int, before: int, step: Step, side: int, moment: Moment) -> int:
    """Add to a state what some entries of one side of the join below make with the other side's; return how many.

    Only entries whose latest row is below `before` take part: later ones have come up by themselves.
    """
    pairs = below.join.pair(entries, driver, before, False, moment.now_us, moment.seq)
    made = step.inputs[side].feed.prepare(pairs)
    step.join.fill(side, made, moment.now_us, moment.seq)
    return len(made)


def demote(old: JoinTree, new: JoinTree, moment: Moment) -> int:
    """Drop the intermediate results that the new plan has no state for; return how many live ones there were.

    What they are made of stays in the states of the sources.
    """
    wanted = {source.parts for step in new.steps for source in step.inputs}
    gone = 0
    for step, side, state in old.inputs():
        if step.inputs[side].leaf is None and step.inputs[side].parts not in wanted:
            alive = state.live(FOREVER_US, moment.now_us, moment.seq, step.join.sources.evictions)
            gone += int(alive.sum())
            state.count = 0
    return gone
