"""Kept groups: counts and exact sums of every group, brought up to date by what comes, goes and ends.

    tuples ──▶ groups ──▶ counts and sums, changed by each tuple ──▶ rows of the groups that were touched
                 └──────▶ ends: taken off again when their time is over

For queries that ask for COUNT, and for SUM and AVG of whole numbers or decimals, alone: what was added can be taken off
exactly. The tuples themselves are not held.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Limbs, Matrix, Vector
from midstream.kernels.groups import (
    COUNTED,
    DECIMAL,
    LIMBS,
    WHOLE,
    add_values,
)
from midstream.kernels.values import add_counts
from midstream.operators.aggregate.functions import exact_means, exact_sums
from midstream.operators.expression.arrays import numpy_values
from midstream.operators.expression.cast import cast
from midstream.operators.hopping.bag import NEVER
from midstream.operators.hopping.coding import Coding
from midstream.operators.hopping.ends import Ends
from midstream.operators.hopping.group import GroupBy, GroupSpec
from midstream.operators.hopping.tuples import Tuples, nothing
from midstream.operators.source.tape import grown

COUNT, SUM, AVG = "count", "sum", "avg"
NO_WORDS: Limbs = np.empty((0, 2), np.uint64)
NO_WORDS.flags.writeable = False  # as those of Arrow's decimals, so that kernels are compiled once
Event = tuple[Vector, Vector, Matrix, Sequence[int]]
"""Tuples that count: slots, signs, and a matrix that has the arguments in some columns."""


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
        self._totals = np.zeros((16, width), np.int64)
        self._marks = np.zeros(16, np.bool_)
        self._ends = Ends(list(self._arguments))
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

    def delta(self, now_us: int, tuples: Tuples) -> Tuples:
        """Return the rows of groups that come and go."""
        events: list[Event] = []
        if now_us > self._now_us:
            self._now_us = now_us
            slots, signs, codes = self._ends.take(now_us)
            events.append((slots, -signs, codes, range(len(self._arguments))))
        tuples, slots = self._arriving(now_us, tuples)
        if len(tuples):
            assert tuples.signs is not None, "groups are kept up to date by deltas"
            self._make_room(len(self._groups))
            self._ends.add(slots, tuples)
            events.append((slots, tuples.signs, tuples.rows, list(self._arguments)))
        chosen = self._add(events)
        if not len(chosen):
            return nothing(self.spec.width, True)
        totals = self._totals[chosen]
        out = self._change(chosen, totals[:, 0], self._results(totals))
        self._tidy()
        return out

    def _add(self, events: list[Event]) -> Vector:
        """Bring totals up to date; return the groups of which the row may have changed."""
        touched, n = np.zeros(1 + sum(len(slots) for slots, _, _, _ in events), np.int64), 0
        if not self.spec.keys and not self._has[0]:
            self._marks[0], n = True, 1  # without keys there is a row before there are tuples
        limbs = self._totals.view(np.uint64)
        for slots, signs, codes, columns in events:
            if not len(slots):
                continue
            n = add_counts(self._totals, slots, signs, 0, touched, self._marks, n)
            for argument, column in zip(self._arguments.values(), columns, strict=True):
                words = NO_WORDS
                if argument.kind == DECIMAL:
                    decimals = self._coding.decode(np.ascontiguousarray(codes[:, column]), argument.type)
                    words = numpy_values(decimals).view(np.uint64)
                add_values(self._totals, limbs, argument.place, argument.kind, slots, signs, codes, column, words)
        chosen = touched[:n]
        self._marks[chosen] = False
        return chosen

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
            self._totals = grown(self._totals, count, bigger)
            self._marks = grown(self._marks, count, bigger)

    def _tidy(self) -> None:
        """Forget groups without tuples, when they are many."""
        count = len(self._groups)
        if not self.spec.keys or count < self._groups.tidy_at:
            return
        used = self._has[:count].copy()
        self._ends.mark(used)  # tuples that were taken back before their time
        kept = np.flatnonzero(used)
        self._ends.renumber(self._keep(kept))
        self._totals[: len(kept)] = self._totals[kept]
        self._totals[len(kept) : count] = 0
