"""State matching: which states of a new plan a running one already has, and how they are moved.

    states of the old joins ──▶ same aliases? ──▶ whole join kept, or entries laid out anew ──▶ states of the new joins

Two states match when they hold results over the same aliases. A join whose both inputs match in shape is kept as it is,
index and all; a state that is asked by the same key moves with its index; otherwise its entries become the backlog of
the new join's state, or are copied into its layout where the join walks over all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from midstream.model.time import FOREVER_US
from midstream.operators.contract.execution import Parts
from midstream.operators.sliding.entry import Matrix, in_order
from midstream.operators.sliding.feed import Feed
from midstream.operators.sliding.join import LEFT, RIGHT, Join
from midstream.operators.sliding.tree import Input, JoinTree, Step


@dataclass(frozen=True)
class Moment:
    """When something happens: the time of the next row, and the last sequence number before it."""

    now_us: int
    seq: int


@dataclass
class Matching:
    """What a migration found: sets of aliases by what became of their state."""

    kept: list[Parts] = field(default_factory=list)
    """States whose join goes on as it is."""
    moved: list[Parts] = field(default_factory=list)
    """States copied into another layout."""
    missing: list[Parts] = field(default_factory=list)
    """States the old plan does not have."""

    @property
    def matched(self) -> int:
        """Return how many states the plans share."""
        return len(self.kept) + len(self.moved)


def held_states(tree: JoinTree) -> dict[Parts, tuple[Step, int]]:
    """Return where a tree keeps the state of each set of aliases."""
    return {step.inputs[side].parts: (step, side) for step, side, _ in tree.inputs()}


def same_join(old: Step, new: Step) -> bool:
    """Tell whether two steps do the same with the same layout, so that one's join can stand in for the other's."""
    return old.join.spec == new.join.spec and all(
        a.parts == b.parts and a.leaf == b.leaf and _layout(a.layout) == _layout(b.layout)
        for a, b in zip(old.inputs, new.inputs, strict=True)
    )


def _layout(feed: Feed) -> tuple[object, ...]:
    codes = [feed.key, *feed.values]
    return feed.components, feed.combined, [None if c is None else (c.component, c.index) for c in codes]


def keep_join(old: Step, new: Step) -> None:
    """Let the join of an old step go on in the place of a new one's."""
    old.join.out_values = new.join.out_values
    new.join = old.join


def live_entries(join: Join, side: int, moment: Moment, before: int = FOREVER_US) -> Matrix:
    """Return a copy of a side's live entries with their latest row below `before`, in order of it."""
    return in_order(join.live(side, before, moment.now_us, moment.seq))


def laid_out(entries: Matrix, old: Input, new: Input) -> Matrix:
    """Return entries of one plan's state laid out for another's, without those that can match nothing there."""
    if old.leaf is not None and old.leaf == new.leaf:
        return entries
    return new.layout.prepare(new.layout.arrange(entries, old.layout.components))


def move_state(old: Step, old_side: int, new: Step, side: int, moment: Moment, keep: bool) -> bool:
    """Bring the entries of an old state into a new one; `reindex` or `inherit` must follow.

    When the old join is not used any more (`keep` is false) and the layout is the same, the state itself moves. Return
    whether it did, and the old join's index knows its entries. For another layout they become a backlog.
    """
    a, b, state = old.inputs[old_side], new.inputs[side], old.join.states[old_side]
    # Walks over all entries want them in order; what has come from a backlog is in order by key alone.
    ordered = new.join.spec.hashed or not old.join.spec.hashed
    if not keep and same_layout(a, b) and ordered:
        state.coverage = new.join.states[side].coverage
        new.join.states[side] = state
        return old.join.spec.hashed
    if not keep and new.join.spec.hashed:
        new.join.states[side].follow_on(state, old.join.former_index(old_side), b.layout)
        return False
    new.join.put(side, laid_out(live_entries(old.join, old_side, moment), a, b))
    return False


def same_layout(a: Input, b: Input) -> bool:
    """Tell whether entries of two inputs look the same."""
    return a.leaf == b.leaf and _layout(a.layout) == _layout(b.layout)


def take_over(
    old: JoinTree,
    new: JoinTree,
    moment: Moment,
    matching: Matching,
    usable: Callable[[Step, Input], bool],
    make: Callable[[Step, int, Input], None],
) -> None:
    """Give the joins of a new plan what those of the old one hold, from the bottom up; the old ones are used up.

    `usable` tells whether what the old plan holds of a step's input will do as it is; else `make` sees to its state.
    """
    held = held_states(old)
    walked = [s.parts for step in new.steps if not step.join.spec.hashed for s in step.inputs if s.parts in held]
    for parts in walked:
        # As long as all states of the old joins are where they were.
        held[parts][0].join.settle(moment.now_us, moment.seq)
    for step in new.steps:
        former = old.producer(step.parts)
        if former is not None and all(usable(step, source) for source in step.inputs) and same_join(former, step):
            keep_join(former, step)
            matching.kept += [source.parts for source in step.inputs]
            continue
        origins: list[tuple[Join, int] | None] = [None, None]
        for side, source in sides_of(step):
            if usable(step, source):
                before, old_side = held[source.parts]
                if move_state(before, old_side, step, side, moment, keep=False):
                    origins[side] = before.join, old_side
                matching.moved.append(source.parts)
            else:
                make(step, side, source)
        step.join.inherit(origins, moment.now_us, moment.seq)


def share_state(old: Step, old_side: int, new: Step, side: int) -> bool:
    """Let two nested-loop joins work on one state, filled by the new one; return whether their layouts allow it."""
    if old.join.spec.hashed or new.join.spec.hashed:
        return False
    if not same_layout(old.inputs[old_side], new.inputs[side]):
        return False
    new.join.states[side] = old.join.states[old_side]
    old.join.inserts[old_side] = False
    return True


def all_pairs(step: Step, moment: Moment, before: int = FOREVER_US) -> Matrix:
    """Return every live result of a step, computed from its states, in order of the latest row."""
    join = step.join
    probes = live_entries(join, LEFT, moment, before)
    return in_order(join.pair(probes, LEFT, before, False, moment.now_us, moment.seq))


def demote(old: JoinTree, new: JoinTree) -> int:
    """Drop the intermediate results that the new plan has no state for; return how many there were.

    What they are made of stays in the states of the sources. Those whose end was not noticed yet count.
    """
    wanted = {source.parts for step in new.steps for source in step.inputs}
    gone = 0
    for step, side, state in old.inputs():
        if step.inputs[side].leaf is None and step.inputs[side].parts not in wanted:
            gone += state.tuples
            state.clear()
    return gone


def sides_of(step: Step) -> tuple[tuple[int, Input], tuple[int, Input]]:
    """Return both sides of a step with their inputs."""
    return (LEFT, step.inputs[LEFT]), (RIGHT, step.inputs[RIGHT])
