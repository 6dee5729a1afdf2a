"""State completion: fill an incomplete state for the keys a batch is about to probe, from the states below it.

              J            the batch probes state Y of join J
            /   \\
          Y      batch     Y is the result of join K over D and S
        K
      /   \\
     D     S               1. entries of D with the wanted keys (completed themselves first, recursively)
                           2. S completed for the keys these entries probe
                           3. pairs of both, added to Y

Where J has no key, the unit is an entry of D: the batch is tried on D's part of J's condition, and the entries it
touches are completed.
"""

from dataclasses import dataclass

import numpy as np

from midstream.migrate.class_entries import ClassEntries, lead
from midstream.migrate.gap import Gap, KeyCount
from midstream.migrate.match import Moment, all_pairs
from midstream.model.coverage import COMPLETE
from midstream.operators.contract.execution import Parts
from midstream.operators.sliding.entry import LATEST, ROWS, Mask, Matrix, Vector, touched
from midstream.operators.sliding.join import LEFT, RIGHT
from midstream.operators.sliding.key_set import KeySet, distinct
from midstream.operators.sliding.tree import Input, JoinTree, Step
from midstream.operators.source.sources import Renumbering, Sources, Taken

MIRROR = {0: 0, 1: 1, 2: 4, 3: 5, 4: 2, 5: 3}
"""Comparisons seen from the other side: = <> < <= > >= by code."""
COUNTED = 1 << 14
"""Entries whose keys are counted in one go."""
FORGOTTEN = 1024
"""So many attempted keys are no burden, whether their entries are alive or not."""


@dataclass(frozen=True)
class _Found:
    """Entries of one side of the join below a state, from which it is completed."""

    step: Step
    side: int
    gap: Gap
    below: Step
    driver: int
    entries: Matrix
    counting: bool


class StateCompletion:
    """Completes the states of one tree on demand.

    Invariant: `gaps` names exactly the incomplete states, by their aliases.
    """

    def __init__(self, tree: JoinTree, sources: Sources, gaps: dict[Parts, Gap]) -> None:
        self.tree = tree
        self.sources = sources
        self.gaps = gaps
        self.entries_completed = 0
        self.keys_attempted = 0
        self.states_completed = 0
        self._moment = Moment(0, 0)
        self._classes = ClassEntries(sources, max((g.position.seq for g in gaps.values()), default=0))

    @property
    def nbytes(self) -> int:
        """Return the memory held: keys that were attempted or counted, and lookups."""
        keys = sum(g.attempted.nbytes + (g.count.keys.nbytes if g.count else 0) for g in self.gaps.values())
        return keys + self._classes.nbytes

    def before_step(self, step: Step, left: Matrix, right: Matrix, now_us: int, seq: int) -> None:
        """Make sure a step's states hold what the two batches will probe for; `sweep` has seen to arriving keys."""
        self._moment = Moment(now_us, seq)
        for side, batch in ((LEFT, right), (RIGHT, left)):
            if step.inputs[1 - side].leaf is None or not step.join.spec.groups:
                self._complete_for(step, side, batch)

    def _complete_for(self, step: Step, side: int, batch: Matrix) -> None:
        """Make sure a state holds every entry that rows of a batch on the other side can match."""
        if step.join.states[side].coverage.complete or not len(batch):
            return
        if not step.join.spec.groups:
            self._complete_touched(step, side, batch)
            return
        self._complete_keys(step, side, lead(step, 1 - side, batch))

    def sweep(self, rows: Taken, now_us: int, seq: int) -> None:
        """Complete states for the keys of arriving rows in one pass down and one up, before the joins ask one by one.

        Down: each state adds the keys its rows will ask for to those asked from above, and finds its entries for them.
        Up: the entries are paired, when what they meet is complete. What is not found here is completed when asked for.
        """
        self._moment = Moment(now_us, seq)
        for parts, gap in list(self.gaps.items()):
            if parts in self.gaps and gap.count is not None:
                self._count_on(parts)
            elif parts in self.gaps and gap.remaining is None:
                self._count(parts)
        wanted: dict[Parts, list[Vector]] = {}
        found: list[_Found] = []
        for step in reversed(self.tree.steps):
            for side in (LEFT, RIGHT):
                keys = wanted.pop(step.inputs[side].parts, [])
                leaf = step.inputs[1 - side].leaf
                if step.join.states[side].coverage.complete or not step.join.spec.groups:
                    continue
                if leaf is not None:
                    keys.append(lead(step, 1 - side, rows[leaf.alias].batch(leaf)))
                one = self._look_for(step, side, np.concatenate(keys)) if keys else None
                if one is not None:
                    found.append(one)
                    below, other = one.below, 1 - one.driver
                    if below.join.spec.groups and not below.join.states[other].coverage.complete:
                        parts = below.inputs[other].parts
                        wanted.setdefault(parts, []).append(lead(below, one.driver, one.entries))
        for one in reversed(found):
            self._add_found(one)

    def _complete_keys(self, step: Step, side: int, keys: Vector) -> None:
        """Complete a state for keys of its join's first equality class."""
        one = self._look_for(step, side, keys)
        if one is not None:
            self._add_found(one)

    def _look_for(self, step: Step, side: int, keys: Vector) -> "_Found | None":
        """Return the entries below from which a state is completed for keys not attempted yet, or None."""
        parts = step.inputs[side].parts
        gap = self.gaps[parts]
        fresh = np.unique(keys[~gap.attempted.has(keys)])
        if not len(fresh):
            return None
        below = self._below(parts)
        group = step.join.spec.groups[0]
        counting = gap.remaining is not None
        driver = gap.counted if gap.counted is not None else self._driver(below, group)
        entries = self._find(below, driver, group, fresh, gap.position.seq)
        if not len(entries):
            return None
        # A key without old entries lacks nothing, and will not: it need not be remembered.
        self._remember(gap, below, driver, group, self._classes.values(below, driver, group, entries))
        return _Found(step, side, gap, below, driver, entries, counting)

    def _remember(self, gap: Gap, below: Step, driver: int, group: int, keys: Vector) -> None:
        """Note keys that are attempted; now and then forget those whose old entries have left their windows."""
        self.keys_attempted += int(np.count_nonzero(gap.attempted.add(keys)))
        complete = below.join.states[driver].coverage.complete and gap.count is None
        if complete and len(gap.attempted) > 2 * gap.kept + FORGOTTEN:
            held = self._classes.select(below, driver, group, gap.attempted.held, gap.position.seq, self._moment)
            gap.attempted = KeySet()
            gap.attempted.add(self._classes.values(below, driver, group, held))
            gap.kept = len(gap.attempted)

    def _add_found(self, one: "_Found") -> None:
        """Complete a state with what its entries below make, and count the keys."""
        gap, below, parts = one.gap, one.below, one.step.inputs[one.side].parts
        self._add_pairs(one.step, one.side, below, one.driver, one.entries, gap.position.seq)
        # A count that began meanwhile has left these keys out already.
        if one.counting and gap.remaining is not None:
            group = one.step.join.spec.groups[0]
            gap.remaining -= distinct(self._classes.values(below, one.driver, group, one.entries))
            if gap.remaining <= 0 and parts in self.gaps:
                self._declare_complete(parts)

    def _above(self, parts: Parts) -> Step:
        return next(s for s in self.tree.steps if any(i.parts == parts for i in s.inputs))

    def _below(self, parts: Parts) -> Step:
        below = self.tree.producer(parts)
        assert below is not None, "the state of a single source is always complete"
        return below

    def _add_pairs(self, step: Step, side: int, below: Step, driver: int, found: Matrix, before: int) -> None:
        """Add to a state what entries of one side of the join below make with the other side's."""
        if not len(found):
            return
        made = self._made(step.inputs[side], below, driver, found, before)
        step.join.fill(side, made, self._moment.now_us, self._moment.seq)
        self.entries_completed += len(made)

    def _made(self, source: Input, below: Step, driver: int, found: Matrix, before: int) -> Matrix:
        """Return what entries of one side of a join make with the other side's, laid out for the input above.

        Only entries whose latest row is below `before` take part: later ones have come up by themselves.
        """
        self._complete_for(below, 1 - driver, found)
        pairs = below.join.pair(found, driver, before, False, self._moment.now_us, self._moment.seq)
        return source.feed.prepare(pairs)

    def _driver(self, step: Step, group: int) -> int:
        """Return the side of a join where entries with a key are looked for: one that has it, complete if it can."""
        able = [side for side in (LEFT, RIGHT) if self._classes.has(step, side, group)]
        return min(able, key=lambda side: not step.join.states[side].coverage.complete)

    def _find(self, step: Step, side: int, group: int, keys: Vector, before: int) -> Matrix:
        """Return the live entries of one side of a join that have one of the keys of an equality class."""
        source = step.inputs[side]
        if step.join.states[side].coverage.complete:
            return self._classes.select(step, side, group, keys, before, self._moment)
        if step.join.spec.groups[:1] == (group,):
            self._complete_keys(step, side, keys)
            return self._classes.select(step, side, group, keys, before, self._moment)
        # The state is kept by another key: probe through it, and keep nothing there.
        below = self._below(source.parts)
        driver = self._driver(below, group)
        return self._made(source, below, driver, self._find(below, driver, group, keys, before), before)

    def _complete_touched(self, step: Step, side: int, batch: Matrix) -> None:
        """Complete a state whose join has no key: for the entries below that the batch touches."""
        parts = step.inputs[side].parts
        gap, below = self.gaps[parts], self._below(parts)
        if gap.counted is None:
            gap.counted = self._touch_driver(step, side, below)
        driver = gap.counted
        if not below.join.states[driver].coverage.complete:
            self._complete_all(below, driver)
        left = below.join.live(driver, gap.position.seq, self._moment.now_us, self._moment.seq)
        if len(gap.attempted) > 2 * len(left) + FORGOTTEN:
            tried, gap.attempted = gap.attempted, KeySet()
            gap.attempted.add(left[tried.has(left[:, LATEST]), LATEST])
        left = left[~gap.attempted.has(left[:, LATEST])]
        if len(left):
            hit = self._touched(step, side, below, driver, left, batch)
            gap.attempted.add(left[hit, LATEST])
            # Entries with the same latest row go together: it is the name they are remembered by.
            done = gap.attempted.has(left[:, LATEST])
            self.keys_attempted += int(done.sum())
            self._add_pairs(step, side, below, driver, left[done], gap.position.seq)
            left = left[~done]
        if not len(left) and parts in self.gaps:
            self._declare_complete(parts)

    def _touch_driver(self, step: Step, side: int, below: Step) -> int:
        """Return the side of the join below that is tried on: complete if it can be, then compared above."""
        compared = {alias for alias, _, _ in self._compared(step, side)}

        def badness(candidate: int) -> tuple[bool, bool]:
            incomplete = not below.join.states[candidate].coverage.complete
            return incomplete, not (compared & below.inputs[candidate].parts)

        return min((LEFT, RIGHT), key=badness)

    def _compared(self, step: Step, side: int) -> list[tuple[str, int, int]]:
        """Return the comparisons of a join: alias and stored code on a side, and its place among the values."""
        layout = step.inputs[side].layout
        return [(layout.components[c.component], c.index, k) for k, c in enumerate(layout.values)]

    def _touched(self, step: Step, side: int, below: Step, driver: int, entries: Matrix, batch: Matrix) -> Mask:
        parts = below.inputs[driver].parts
        components = below.join.states[driver].components
        known = [c for c in self._compared(step, side) if c[0] in parts]
        if not known:
            return np.ones(len(entries), np.bool_)
        values = np.column_stack([self._classes.stored(a, index, entries, components)[0] for a, index, _ in known])
        ops = [step.join.spec.ops[k] for _, _, k in known]
        # The batch is the other side of the comparison.
        if side == LEFT:
            ops = [MIRROR[op] for op in ops]
        first = ROWS + len(step.join.states[1 - side].components)
        places = np.array([k for _, _, k in known], np.int64)
        hit, tested = touched(values, 0, batch, first, np.array(ops, np.int64), places)
        self.sources.predicate_evaluations += tested
        return hit

    def _complete_all(self, step: Step, side: int) -> None:
        """Complete a state at once, from complete states below."""
        parts = step.inputs[side].parts
        below = self._below(parts)
        for other in (LEFT, RIGHT):
            if not below.join.states[other].coverage.complete:
                self._complete_all(below, other)
        gap, moment = self.gaps[parts], self._moment
        step.join.settle(moment.now_us, moment.seq)
        state = step.join.states[side]
        keep = state.held[state.held[:, LATEST] >= gap.position.seq]
        missing = step.inputs[side].feed.prepare(all_pairs(below, moment, gap.position.seq))
        step.join.put(side, np.concatenate([missing, keep]))
        self.sources.entries_kept += len(missing)
        step.join.reindex()
        self.entries_completed += len(missing)
        self._declare_complete(parts)

    def _declare_complete(self, parts: Parts) -> None:
        """Mark a state complete, and see whether the one above can be counted now."""
        self.gaps.pop(parts).stop_counting()
        self.states_completed += 1
        for step, side, state in self.tree.inputs():
            if step.inputs[side].parts == parts:
                state.coverage = COMPLETE
                if step.parts in self.gaps and self.gaps[step.parts].remaining is None:
                    self._count(step.parts)
                return

    def count_all(self, now_us: int, seq: int) -> None:
        """Start the counters of all incomplete states, from the bottom up."""
        self._moment = Moment(now_us, seq)
        self.close_expired(now_us, seq)
        for parts in sorted(self.gaps, key=len):
            if parts in self.gaps and self.gaps[parts].remaining is None:
                self._count(parts)

    def _count(self, parts: Parts) -> None:
        """Count the keys still to be attempted on the complete input with the fewest; none left means complete.

        With both inputs of the join below complete the smaller count is taken (case 1), with one complete that one's
        (case 2). With neither (case 3) keys cannot be counted: it waits until an input below has been completed, or has
        no backlog any more. Where that is more than a block of entries the shorter input is counted, block by block.
        """
        step, gap, below = self._above(parts), self.gaps[parts], self._below(parts)
        groups, states = step.join.spec.groups, below.join.states
        if not groups or gap.count is not None or any(state.backlog for state in states):
            return
        sides = [s for s in (LEFT, RIGHT) if states[s].coverage.complete and self._classes.has(below, s, groups[0])]
        if sum(states[side].count for side in sides) > COUNTED:
            gap.counted = min(sides, key=lambda side: states[side].count)
            gap.count = KeyCount(states[gap.counted])
        elif sides:
            keys = {side: self._keys_of(gap, below, side, groups[0], states[side].held) for side in sides}
            left = {side: distinct(found[~gap.attempted.has(found)]) for side, found in keys.items()}
            gap.counted = min(sides, key=lambda side: left[side])
            self._counted(parts, left[gap.counted])

    def _count_on(self, parts: Parts) -> None:
        """Count the keys of another block of entries."""
        step, gap, below = self._above(parts), self.gaps[parts], self._below(parts)
        count, side = gap.count, gap.counted
        assert count is not None
        assert side is not None
        end = count.mark.place + 1
        count.mark.place = max(-1, count.mark.place - COUNTED)
        block = count.state.held[count.mark.place + 1 : end]
        count.keys.add(self._keys_of(gap, below, side, step.join.spec.groups[0], block))
        if count.mark.place < 0:
            gap.stop_counting()
            self._counted(parts, int(np.count_nonzero(~gap.attempted.has(count.keys.held))))

    def _keys_of(self, gap: Gap, below: Step, side: int, group: int, entries: Matrix) -> Vector:
        """Return the values of an equality class in the old entries among some of a side."""
        moment, slots = self._moment, below.join.states[side].slots
        alive = self.sources.live(entries, slots, gap.position.seq, moment.now_us, moment.seq)
        return self._classes.values(below, side, group, entries[alive])

    def _counted(self, parts: Parts, remaining: int) -> None:
        self.gaps[parts].remaining = remaining
        if not remaining:
            self._declare_complete(parts)

    def stop_counting(self) -> None:
        """Leave no trace in the states, which go on in another tree."""
        for gap in self.gaps.values():
            gap.stop_counting()

    def close_expired(self, now_us: int, seq: int) -> None:
        """Declare states complete whose missing entries are all dead: one of their sources has no old row left."""
        self._moment = Moment(now_us, seq)
        old: dict[tuple[int, str], bool] = {}
        for parts in sorted(self.gaps, key=len):
            gap = self.gaps.get(parts)
            if gap is None:
                continue
            for alias in parts:
                key = (id(gap.position), alias)
                if key not in old:
                    old[key] = self.sources.has_old(alias, gap.position, now_us, seq)
                if not old[key]:
                    self._declare_complete(parts)
                    break

    def renumber(self, change: Renumbering) -> None:
        """Follow a row store that has numbered its rows anew."""
        for position in {id(g.position): g.position for g in self.gaps.values()}.values():
            position.renumber(change)
