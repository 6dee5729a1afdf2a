"""Kept groups: counts and exact sums of every group, brought up to date by what comes, goes and ends.

    tuples ──▶ groups ──▶ portions of counts and sums ──▶ totals ──▶ rows of the groups that were touched
                              └──▶ ends: taken off again when their time is over

For queries that ask for COUNT, and for SUM and AVG of whole numbers or decimals, alone: what was added can be taken off
exactly. The tuples themselves are not held.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Limbs, Matrix, Vector
from midstream.kernels.groups import (
    COUNTED,
    DECIMAL,
    LIMBS,
    WHOLE,
    add_portions,
    add_values,
)
from midstream.kernels.values import add_counts, keep_lines
from midstream.operators.aggregate.functions import exact_means, exact_sums
from midstream.operators.expression.arrays import numpy_values
from midstream.operators.expression.cast import cast
from midstream.operators.hopping.bag import NEVER
from midstream.operators.hopping.coding import Coding
from midstream.operators.hopping.ends import Ends
from midstream.operators.hopping.group import GroupBy, GroupSpec
from midstream.operators.hopping.tuples import Tuples, nothing
from midstream.operators.source.tape import grown_with_zeros
from midstream.operators.source.value_table import ValueTable

COUNT, SUM, AVG = "count", "sum", "avg"
NO_WORDS: Limbs = np.empty((0, 2), np.uint64)
NO_WORDS.flags.writeable = False  # as those of Arrow's decimals, so that kernels are compiled once
SAMPLE = np.random.default_rng(0).integers(0, 2**62, 2048)
"""Tuples, here and there, that are looked at to tell whether many of a group end together."""


@dataclass(frozen=True)
class Argument:
    """A column that aggregates read: its place in the totals, and what is kept of it there."""

    place: int
    kind: int
    type: pa.DataType


class KeptGroups(GroupBy):
    """A group-by of counts and sums. State, when it reads deltas: totals and row of each group, and when tuples end."""

    def __init__(self, spec: GroupSpec, coding: Coding) -> None:
        super().__init__(spec, coding)
        self._arguments: dict[int, Argument] = {}
        width = 1
        for column in sorted({p for p in spec.arguments if p >= 0}):
            of = [a.function for a, p in zip(spec.aggregates, spec.arguments, strict=True) if p == column]
            t = spec.types[column]
            kind = COUNTED if set(of) == {COUNT} else DECIMAL if pa.types.is_decimal(t) else WHOLE
            self._arguments[column] = Argument(width, kind, t)
            width += 1 if kind == COUNTED else 1 + LIMBS
        sums = [a.place + 1 for a in self._arguments.values() if a.kind != COUNTED]
        self._sums = np.array(sums, np.int64)
        self._counts = np.array([a.place for a in self._arguments.values()], np.int64)
        """Places of sums and of counts in the totals."""
        self._totals = np.zeros((16, width), np.int64)
        self._marks = np.zeros(16, np.bool_)
        self._ends = Ends(range(width - 1))
        self._now_us = NEVER

    @property
    def tuples(self) -> int:
        """Return how many groups and ends are held."""
        return int(self._has.sum()) + self._ends.tuples

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        own = (self._totals, self._marks, self._given, self._has)
        return sum(a.nbytes for a in own) + self._groups.nbytes + self._ends.nbytes

    def complete(self, now_us: int, pieces: Iterable[Tuples]) -> Tuples:
        """Return the row of every group."""
        groups = ValueTable(self.spec.keys)
        totals = np.zeros((16, self._totals.shape[1]), np.int64)
        for tuples in self._projected(now_us, pieces):
            slots = groups.find(tuples.rows)
            if len(groups) > len(totals):
                totals = grown_with_zeros(totals, len(totals), max(len(groups), 3 * len(totals) // 2))
            totals[: len(groups), 0] += np.bincount(slots, minlength=len(groups))
            self._add_arguments(totals, 0, slots, np.ones(len(slots), np.int64), tuples.rows)
        return self._rows(groups, self._results(totals[: len(groups)]))

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
        totals = self._totals.take(chosen, axis=0)
        out = self._change(chosen, totals[:, 0], self._results(totals))
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
        places = np.arange(len(slots))
        if _many_together(slots, until):
            first, places = _together(slots, until)
            slots, until = slots[first], until[first]
            counts = np.bincount(places, weights=tuples.signs).astype(np.int64)
        portions = np.zeros((len(slots), self._totals.shape[1] - 1), np.int64)
        self._add_arguments(portions, 1, places, tuples.signs, tuples.rows)
        return slots, until, counts, portions

    def _add_arguments(self, totals: Matrix, first: int, slots: Vector, signs: Vector, rows: Matrix) -> None:
        """Count and sum arguments of tuples in totals, or in portions that begin with a later column."""
        for column, argument in self._arguments.items():
            words = NO_WORDS
            if argument.kind == DECIMAL:
                decimals = self._coding.decode(np.ascontiguousarray(rows[:, column]), argument.type)
                words = numpy_values(decimals).view(np.uint64)
            limbs, place = totals.view(np.uint64), argument.place - first
            add_values(totals, limbs, place, argument.kind, slots, signs, rows, column, words)

    def _add(self, slots: Vector, counts: Vector, portions: Matrix, off: bool) -> Vector:
        """Add portions to totals, or take them off; return the groups that were not touched before."""
        touched = np.empty(len(slots), np.int64)
        n = add_counts(self._totals, slots, counts, 0, touched, self._marks, 0)
        if portions.shape[1]:
            limbs, portion_limbs = self._totals.view(np.uint64), portions.view(np.uint64)
            add_portions(self._totals, limbs, slots, portions, portion_limbs, self._counts, self._sums, off)
        return touched[:n].copy()

    def _results(self, totals: Matrix) -> Matrix:
        """Return the aggregates that totals stand for, as codes."""
        out = np.empty((len(totals), len(self.spec.aggregates)), np.int64)
        for k, (asked, column) in enumerate(zip(self.spec.aggregates, self.spec.arguments, strict=True)):
            if column < 0:
                out[:, k] = totals[:, 0]
                continue
            argument = self._arguments[column]
            counts = totals[:, argument.place]
            if asked.function == COUNT:
                out[:, k] = counts
                continue
            first = argument.place + 1
            limbs = np.ascontiguousarray(totals[:, first : first + LIMBS]).view(np.uint64)
            if asked.function == SUM:
                found = exact_sums(limbs, counts == 0, argument.type, asked.type)
            else:
                found = exact_means(limbs, counts, argument.type)
            out[:, k] = self._coding.encode(cast(found, asked.type, len(found)))
        return out

    def _make_room(self, size: int) -> None:
        super()._make_room(size)
        if len(self._has) > len(self._marks):
            count, bigger = len(self._marks), len(self._has)
            self._totals = grown_with_zeros(self._totals, count, bigger)
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
        keep_lines(self._totals, kept)
        self._totals[len(kept) : count] = 0


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
