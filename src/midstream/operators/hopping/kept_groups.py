"""Kept groups: counts and exact sums of every group, brought up to date by what comes, goes and ends.

    tuples ──▶ groups ──▶ portions of counts and sums ──▶ totals ──▶ rows of the groups that were touched
                              └──▶ ends: taken off again when their time is over

For queries that ask for COUNT, SUM and AVG alone: what was added can be taken off exactly. The tuples themselves are
not held.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.values import add_counts, keep_lines
from midstream.operators.expression.cast import cast
from midstream.operators.hopping.bag import NEVER
from midstream.operators.hopping.coding import Coding
from midstream.operators.hopping.ends import Ends
from midstream.operators.hopping.group import GroupBy, GroupSpec
from midstream.operators.hopping.totals import Totals
from midstream.operators.hopping.tuples import Tuples, nothing
from midstream.operators.source.tape import grown_with_zeros
from midstream.operators.source.value_table import ValueTable

SAMPLE = np.random.default_rng(0).integers(0, 2**62, 2048)
"""Tuples, here and there, that are looked at to tell whether many of a group end together."""


class KeptGroups(GroupBy):
    """A group-by of counts and sums. State, when it reads deltas: totals and row of each group, and when tuples end."""

    def __init__(self, spec: GroupSpec, coding: Coding) -> None:
        super().__init__(spec, coding)
        self._totals = self._no_totals()
        self._marks = np.zeros(16, np.bool_)
        self._ends = Ends(range(self._totals.width - 1))
        self._now_us = NEVER

    @property
    def tuples(self) -> int:
        """Return how many groups and ends are held."""
        return int(self._has.sum()) + self._ends.tuples

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        own = (self._totals.lines, self._marks, self._given, self._has)
        return sum(a.nbytes for a in own) + self._groups.nbytes + self._ends.nbytes

    def complete(self, now_us: int, pieces: Iterable[Tuples]) -> Tuples:
        """Return the row of every group."""
        groups, totals = ValueTable(self.spec.keys), self._no_totals()
        for tuples in self._projected(now_us, pieces):
            slots = groups.find(tuples.rows)
            totals.widen(tuples.rows)
            lines = totals.lines
            if len(groups) > len(lines):
                lines = grown_with_zeros(lines, len(lines), max(len(groups), 3 * len(lines) // 2))
                totals.lines = lines
            lines[: len(groups), 0] += np.bincount(slots, minlength=len(groups))
            totals.note_added(len(tuples))
            totals.add(lines, 0, slots, np.ones(len(slots), np.int64), tuples.rows, self._coding)
        return self._rows(groups, self._results(totals, totals.lines[: len(groups)]))

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
        for tuples in self._projected(now_us, pieces):
            slots, until, counts, portions = self._portions(tuples)
            self._ends.add(slots, Tuples(portions, until, counts))
            touched.append(self._add(slots, counts, portions, False))
        chosen = np.concatenate(touched) if touched else np.empty(0, np.int64)
        if not len(chosen):
            return nothing(self.spec.width, True)
        self._marks[chosen] = False
        lines = self._totals.lines.take(chosen, axis=0)
        out = self._change(chosen, lines[:, 0], self._results(self._totals, lines))
        self._tidy()
        return out

    def _portions(self, tuples: Tuples) -> tuple[Vector, Vector, Vector, Matrix]:
        """Return what tuples add to the totals of their groups: slots, ends, how many they are, and portions.

        Tuples of a group that end together are one portion where there are many of them: pairs of a join end with
        either of their tuples, of which there are few.
        """
        assert tuples.signs is not None, "groups are kept up to date by deltas"
        slots, until, counts = self._groups.find(tuples.rows), tuples.until, tuples.signs
        self._make_room(len(self._groups))
        moved = self._totals.widen(tuples.rows)
        if moved is not None:
            self._ends.widen(moved[1:] - 1, range(self._totals.width - 1))
        places = np.arange(len(slots))
        if _many_together(slots, until):
            first, places = _together(slots, until)
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

    def _results(self, totals: Totals, lines: Matrix) -> Matrix:
        """Return the aggregates that totals stand for, as codes."""
        out = np.empty((len(lines), len(self.spec.aggregates)), np.int64)
        for k, (asked, column) in enumerate(zip(self.spec.aggregates, self.spec.arguments, strict=True)):
            found = totals.results(lines, asked, column)
            if isinstance(found, pa.Array):
                found = self._coding.encode(cast(found, asked.type, len(found)))
            out[:, k] = found
        return out

    def _no_totals(self) -> Totals:
        return Totals(self.spec.aggregates, self.spec.arguments, self.spec.types)

    def _make_room(self, size: int) -> None:
        super()._make_room(size)
        if len(self._has) > len(self._marks):
            count, bigger = len(self._marks), len(self._has)
            self._totals.lines = grown_with_zeros(self._totals.lines, count, bigger)
            self._marks = grown_with_zeros(self._marks, count, bigger)

    def _tidy(self) -> None:
        """Forget groups without tuples, when they are many."""
        count = len(self._groups)
        if not self.spec.keys or count < self._groups.tidy_at:
            return
        used = self._has[:count].copy()
        self._ends.mark(used)  # tuples that were taken back before their time
        kept = np.flatnonzero(used)
        self._ends.renumber(self._keep(kept))
        keep_lines(self._totals.lines, kept)
        self._totals.lines[len(kept) : count] = 0


def _many_together(slots: Vector, until: Vector) -> bool:
    """Tell by some tuples whether many of a group end together."""
    if len(slots) < 4 * len(SAMPLE):
        return False
    some = SAMPLE % len(slots)
    return len(_together(slots[some], until[some])[0]) < len(some) * 3 // 4


def _together(slots: Vector, until: Vector) -> tuple[Vector, Vector]:
    """Find tuples of a group that end together; return the first of each such lot, and the lot of every tuple."""
    lots = ValueTable(2)
    of_tuple = lots.find(np.column_stack([slots, until]))
    first = np.empty(len(lots), np.int64)
    first[of_tuple[::-1]] = np.arange(len(slots))[::-1]
    return first, of_tuple
