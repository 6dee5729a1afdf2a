"""Just in time: go on with the new plan at once and complete its states key by key, when somebody asks for a key.

    batch ──▶ keys not asked for yet ──▶ find them below ──▶ pair up ──▶ add to the state ──▶ probe as always

A state of the new plan is complete when the old plan had it complete; otherwise it is incomplete since the position. A
state stays incomplete through any number of further migrations until its keys are completed or its old rows are gone.
"""

from collections.abc import Iterator, Mapping

from midstream.migrate.completion import StateCompletion
from midstream.migrate.gap import Gap
from midstream.migrate.match import Matching, Moment, demote, held_states, laid_out, live_entries, take_over
from midstream.migrate.migration import Migration
from midstream.migrate.request import JUST_IN_TIME, overlap
from midstream.migrate.switch import Switch, progress_of
from midstream.model.coverage import Coverage
from midstream.operators.contract.execution import Execution, Parts, PlanSwitch, Progress, StateSize, Switched
from midstream.operators.sliding.entry import LATEST, Matrix
from midstream.operators.sliding.join import Join
from midstream.operators.sliding.tree import Input, JoinTree, Step
from midstream.operators.source.sources import Renumbering, Sources, Taken


class JustInTime(Migration):
    """The new plan with states that fill on demand.

    Invariant: a state incomplete since `s` holds every live entry whose latest row is at or after `s`, and every entry
    of the keys attempted. Each key of a state is completed at most once.
    Cost: what is never asked for is never computed.
    """

    def __init__(
        self,
        tree: JoinTree,
        sources: Sources,
        gaps: dict[Parts, Gap],
        matching: Matching,
        moment: Moment,
        demoted: int = 0,
    ) -> None:
        self.tree = tree
        self.matching = matching
        self._demoted = demoted
        self.components = tree.components
        self.completion = StateCompletion(tree, sources, gaps)
        tree.completion = self.completion
        for join in tree.joins():
            join.cuts = False
        for step, side, state in tree.inputs():
            if step.inputs[side].parts in gaps:
                state.coverage = Coverage(gaps[step.inputs[side].parts].position.seq)
        self.completion.count_all(moment.now_us, moment.seq)

    def on_rows(self, rows: Taken, now_us: int, seq: int) -> Matrix:
        """Run rows through the new plan, completing what they probe."""
        self.completion.sweep(rows, now_us, seq)
        return self.tree.on_rows(rows, now_us, seq)

    def in_pieces(self, rows: Taken, now_us: int, seq: int) -> Iterator[Matrix]:
        """Run rows through the new plan, completing what they probe, and yield its results as they are found."""
        self.completion.sweep(rows, now_us, seq)
        yield from self.tree.in_pieces(rows, now_us, seq)

    def switch_plan(self, switch: PlanSwitch) -> Switched:
        """Let the strategy go on from the new plan; what is still missing in its states is known."""
        self.completion.stop_counting()
        return switch.rebuild(self.tree, self.completion.gaps)

    def overlaps(self, strategy: str) -> bool:
        """Say yes to strategies that can go on from incomplete states."""
        return overlap(JUST_IN_TIME, strategy)

    def progress(self) -> Progress:
        """Return how many states matched, and what has been completed on demand."""
        done = self.completion
        return progress_of(
            self.matching,
            states_completed=done.states_completed,
            entries_completed=done.entries_completed,
            entries_demoted=self._demoted,
            keys_attempted=done.keys_attempted,
        )

    def joins(self) -> list[Join]:
        """Return the joins of the new plan."""
        return self.tree.joins()

    def size(self) -> StateSize:
        """Return what the joins hold, and what is known about what they lack."""
        size = super().size()
        size.add(StateSize(0, self.completion.nbytes))
        return size

    def renumber(self, change: Renumbering) -> None:
        """Follow a row store that has numbered its rows anew."""
        self.tree.renumber(change)
        self.completion.renumber(change)

    def successor(self, now_us: int, seq: int) -> Execution | None:
        """Return the plain tree once every state is complete."""
        self.completion.close_expired(now_us, seq)
        if self.completion.gaps:
            return None
        self.tree.completion = None
        for join in self.tree.joins():
            join.cuts = True
        return self.tree


def complete_on_demand(switch: Switch) -> Switched:
    """Return the new plan at work; the old plan's states are handed over to it."""
    old, new, gaps, moment, matching = switch.old, switch.new, switch.gaps, switch.moment, Matching()
    demoted = demote(old, new)
    held = held_states(old)
    left: dict[Parts, Gap] = {}

    def usable(step: Step, source: Input) -> bool:
        return source.parts in held and _goes_on(gaps, source.parts, held[source.parts], step, new, old)

    def begin(step: Step, side: int, source: Input) -> None:
        gap = gaps.get(source.parts)
        left[source.parts] = Gap(switch.position if gap is None else gap.position)
        if gap is None:
            matching.missing.append(source.parts)
            return
        # Completed under another key: nobody knows what is missing for this one.
        before, old_side = held[source.parts]
        matching.moved.append(source.parts)
        if step.join.spec.hashed:
            former, known = before.join.states[old_side], before.join.former_index(old_side)
            step.join.states[side].follow_on(former, known, source.layout, gap.position.seq)
            return
        entries = live_entries(before.join, old_side, moment)
        entries = entries[entries[:, LATEST] >= gap.position.seq]
        step.join.put(side, laid_out(entries, before.inputs[old_side], source))

    take_over(old, new, moment, matching, usable, begin)
    for step in new.steps:
        for source in step.inputs:
            if source.parts in gaps and source.parts not in left:
                left[source.parts] = _carried(gaps[source.parts], step)
    running = JustInTime(new, switch.sources, left, matching, moment, demoted)
    return Switched(running, running.progress())


def _carried(gap: Gap, step: Step) -> Gap:
    """Return a gap for the new plan: what was attempted holds on; the keys to count are those of another join below."""
    return Gap(gap.position, gap.attempted, counted=None if step.join.spec.groups else gap.counted, kept=gap.kept)


def _goes_on(gaps: Mapping[Parts, Gap], parts: Parts, place: tuple[Step, int], step: Step, new: JoinTree,
             old: JoinTree) -> bool:  # fmt: skip
    """Tell whether what was completed of a state so far is of use in the new plan: its keys mean the same there."""
    if parts not in gaps:
        return True
    before, after = place[0].join.spec.groups, step.join.spec.groups
    if before and after:
        return before[0] == after[0]
    below, former = new.producer(parts), old.producer(parts)
    if before or after or below is None or former is None:
        return False
    return [s.parts for s in below.inputs] == [s.parts for s in former.inputs]
