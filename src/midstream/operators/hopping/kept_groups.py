"""Kept groups: counts and exact sums of every group, brought up to date by what comes, goes and ends.

    tuples ──▶ groups ──▶ portions of counts and sums ──▶ totals ──▶ rows of the groups that were touched
                  │           └──▶ ends: taken off again when their time is over       ▲
                  └──▶ values of MIN, MAX and DISTINCT, if they are asked for ─────────┘

What was added to COUNT, SUM and AVG can be taken off exactly; of arguments of MIN, MAX and DISTINCT the values that
matter are held (see held_values). The tuples themselves are not held.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.values import add_counts, extend_ends, keep_lines, take_extended
from midstream.operators.expression.cast import cast
from midstream.operators.hopping.bag import NEVER
from midstream.operators.hopping.coding import Coding
from midstream.operators.hopping.ends import Ends, ending_together, many_together
from midstream.operators.hopping.group import GroupBy, GroupSpec
from midstream.operators.hopping.held_values import HeldValues, hold_values
from midstream.operators.hopping.totals import Totals
from midstream.operators.hopping.tuples import FOREVER, Tuples, nothing
from midstream.operators.source.tape import grown, grown_with_zeros
from midstream.operators.source.value_table import ValueTable


class KeptGroups(GroupBy):
    """A group-by of counts, sums, and what does not ask how often a value comes.

    State, when it reads deltas: totals, values and row of each group, and when tuples end. Without counts and sums of
    tuples that are never taken back (`lasting`) only the last end of each group counts.
    """

    def __init__(self, spec: GroupSpec, coding: Coding, lasting: bool = False) -> None:
        super().__init__(spec, coding)
        self._values = hold_values(spec, coding, lasting)
        self._once = lasting and spec.counts_once
        self._latest = np.full((16, 2), NEVER, np.int64)
        """The last end of each group, if only that counts, and a mark of those that have a new one."""
        self._totals = self._no_totals()
        self._marks = np.zeros(16, np.bool_)
        self._ends = Ends(range(self._totals.width - 1))
        self._now_us = NEVER

    @property
    def tuples(self) -> int:
        """Return how many groups and ends are held."""
        return int(self._has.sum()) + self._ends.tuples + sum(v.tuples for v in self._values)

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        own = (self._totals.lines, self._marks, self._given, self._has, self._latest)
        held = self._groups.nbytes + self._ends.nbytes + sum(v.nbytes for v in self._values)
        return sum(a.nbytes for a in own) + held

    def complete(self, now_us: int, pieces: Iterable[Tuples]) -> Tuples:
        """Return the row of every group."""
        groups, totals = ValueTable(self.spec.keys), self._no_totals()
        values = hold_values(self.spec, self._coding, True)
        for tuples in self._projected(now_us, pieces):
            slots = groups.find(tuples.rows)
            totals.widen(tuples.rows)
            lines = totals.lines
            if len(groups) > len(lines):
                lines = grown_with_zeros(lines, len(lines), max(len(groups), 3 * len(lines) // 2))
                totals.lines = lines
            lines[: len(groups), 0] += np.bincount(slots, minlength=len(groups))
            totals.note_added(len(tuples))
            ones = np.ones(len(slots), np.int64)
            totals.add(lines, 0, slots, ones, tuples.rows, self._coding)
            for held in values:
                held.take(now_us, slots, Tuples(tuples.rows, np.full(len(slots), FOREVER, np.int64), ones))
        every = np.arange(len(groups))
        return self._rows(groups, self._results(totals, totals.lines[: len(groups)], values, every, len(groups)))

    def delta(self, now_us: int, pieces: Iterable[Tuples]) -> Tuples:
        """Return the rows of groups that come and go."""
        touched = []
        if not self.spec.keys and not self._has[0]:
            self._marks[0] = True  # without keys there is a row before there are tuples
            touched.append(np.zeros(1, np.int64))
        if now_us > self._now_us:
            self._now_us = now_us
            slots, counts, portions = self._ends.take(now_us)
            touched.append(self._add(slots, -counts, portions, True))
            touched += [self._touch(held.expire(now_us)) for held in self._values]
        for tuples in self._projected(now_us, pieces):
            of_tuple = self._groups.find(tuples.rows)
            self._make_room(len(self._groups))
            slots, until, counts, portions = self._portions(of_tuple, tuples)
            self._ends.add(slots, Tuples(portions, until, counts))
            self._ends.fold(self._totals.added_up)
            touched.append(self._add(slots, counts, portions, False))
            touched += [self._touch(held.take(now_us, of_tuple, tuples)) for held in self._values]
        chosen = np.concatenate(touched) if touched else np.empty(0, np.int64)
        if not len(chosen):
            return nothing(self.spec.width, True)
        self._marks[chosen] = False
        lines = self._totals.lines.take(chosen, axis=0)
        results = self._results(self._totals, lines, self._values, chosen, len(self._has))
        out = self._change(chosen, lines[:, 0], results)
        self._tidy()
        return out

    def _portions(self, slots: Vector, tuples: Tuples) -> tuple[Vector, Vector, Vector, Matrix]:
        """Return what tuples add to the totals of their groups: slots, ends, how many they are, and portions.

        Tuples of a group that end together are one portion where there are many of them: pairs of a join end with
        either of their tuples, of which there are few.
        """
        assert tuples.signs is not None, "groups are kept up to date by deltas"
        until, counts = tuples.until, tuples.signs
        if self._once:
            slots = extend_ends(self._latest, 0, slots, until)
            until = take_extended(self._latest, 0, slots)
            return slots, until, np.ones_like(slots), np.empty((len(slots), 0), np.int64)
        moved = self._totals.widen(tuples.rows)
        if moved is not None:
            self._ends.widen(moved[1:] - 1, range(self._totals.width - 1))
        places = np.arange(len(slots))
        if many_together(slots, until):
            first, places = ending_together(slots, until)
            slots, until = slots[first], until[first]
            counts = np.bincount(places, weights=tuples.signs).astype(np.int64)
        portions = np.zeros((len(slots), self._totals.width - 1), np.int64)
        self._totals.add(portions, 1, places, tuples.signs, tuples.rows, self._coding)
        if len(slots) < len(tuples):
            self._totals.carry(portions, 1)
        return slots, until, counts, portions

    def _add(self, slots: Vector, counts: Vector, portions: Matrix, off: bool) -> Vector:
        """Add portions to totals, or take them off; return the groups that were not touched before."""
        touched = np.empty(len(slots), np.int64)
        n = add_counts(self._totals.lines, slots, counts, 0, touched, self._marks, 0)
        self._totals.add_portions(slots, portions, off)
        return touched[:n].copy()

    def _touch(self, slots: Vector) -> Vector:
        """Return the groups that were not touched before."""
        return self._add(slots, np.zeros_like(slots), np.empty((len(slots), 0), np.int64), False)

    def _results(
        self, totals: Totals, lines: Matrix, values: Sequence[HeldValues], chosen: Vector, size: int
    ) -> Matrix:
        """Return the aggregates of chosen groups, of so many: what their totals and values stand for, as codes."""
        out = np.empty((len(lines), len(self.spec.aggregates)), np.int64)
        for held in values:
            out[:, held.places] = held.results(chosen, size)
        for k, (asked, column) in enumerate(zip(self.spec.aggregates, self.spec.arguments, strict=True)):
            if asked.once:
                continue
            found = totals.results(lines, asked, column)
            if isinstance(found, pa.Array):
                found = self._coding.encode(cast(found, asked.type, len(found)))
            out[:, k] = found
        return out

    def _no_totals(self) -> Totals:
        asked = [pair for pair in zip(self.spec.aggregates, self.spec.arguments, strict=True) if not pair[0].once]
        return Totals([a for a, _ in asked], [place for _, place in asked], self.spec.types)

    def _make_room(self, size: int) -> None:
        super()._make_room(size)
        if len(self._has) > len(self._marks):
            count, bigger = len(self._marks), len(self._has)
            self._totals.lines = grown_with_zeros(self._totals.lines, count, bigger)
            self._marks = grown_with_zeros(self._marks, count, bigger)
            self._latest = grown(self._latest, count, bigger)
            self._latest[count:] = NEVER

    def _tidy(self) -> None:
        """Forget groups without tuples, when they are many."""
        count = len(self._groups)
        if not self.spec.keys or count < self._groups.tidy_at:
            return
        used = self._has[:count].copy()
        self._ends.mark(used)  # tuples that were taken back before their time
        kept = np.flatnonzero(used)
        numbers = self._keep(kept)
        self._ends.renumber(numbers)
        for held in self._values:
            held.renumber(numbers)
        keep_lines(self._latest, kept)
        self._latest[len(kept) : count] = NEVER
        keep_lines(self._totals.lines, kept)
        self._totals.lines[len(kept) : count] = 0
