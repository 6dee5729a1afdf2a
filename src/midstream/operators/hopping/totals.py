"""Totals: what each group comes to, a line of columns: its tuples, then counts and exact sums of the arguments.

    tuples │ count of a │ 3 limbs of the sum of whole numbers or decimals │ count of b │ line of the sum of floats │ ...

Digits of sums of floats are columns from the first to the last that values have been added to: few, as long as no
values are much larger or smaller than others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Limbs, Matrix, Vector
from midstream.kernels.float_sums import DIGITS, MOST, SPECIAL, add_floats, carry_lines, find_digits, round_lines
from midstream.kernels.groups import COUNTED, DECIMAL, FLOAT, LIMBS, WHOLE, add_portions, add_values
from midstream.operators.aggregate.functions import AggregateSpec, exact_means, exact_sums, float_means
from midstream.operators.expression.arrays import numpy_values
from midstream.operators.hopping.coding import Coding

COUNT, SUM = "count", "sum"
NO_WORDS: Limbs = np.empty((0, 2), np.uint64)
NO_WORDS.flags.writeable = False  # as those of Arrow's decimals, so that kernels are compiled once


@dataclass(frozen=True)
class Argument:
    """A column that aggregates read: its place in the totals, and what is kept of it there."""

    place: int
    kind: int
    type: pa.DataType
    base: int = DIGITS
    """The first digit of sums of floats that has a column."""
    digits: int = 0

    @property
    def width(self) -> int:
        """Return how many columns it takes."""
        return 1 + {COUNTED: 0, WHOLE: LIMBS, DECIMAL: LIMBS, FLOAT: SPECIAL + self.digits}[self.kind]


class Totals:
    """The totals of groups, and how portions of them are laid out: the same columns but the first."""

    def __init__(
        self, aggregates: Sequence[AggregateSpec], places: Sequence[int], types: Sequence[pa.DataType]
    ) -> None:
        self._arguments: dict[int, Argument] = {}
        width = 1
        for column in sorted({p for p in places if p >= 0}):
            of = {a.function for a, p in zip(aggregates, places, strict=True) if p == column}
            argument = Argument(width, COUNTED if of == {COUNT} else _kind(types[column]), types[column])
            self._arguments[column] = argument
            width += argument.width
        self._added = 0
        """How many lines have been added to sums of floats since their digits were carried."""
        self.lines = np.zeros((16, width), np.int64)
        self._note_columns()

    @property
    def width(self) -> int:
        """Return how many columns a line has."""
        return self.lines.shape[1]

    def widen(self, rows: Matrix) -> Vector | None:
        """Make room for the floats of tuples; return the new place of each column where places have changed."""
        wider = dict(self._arguments)
        for column, argument in self._floats():
            first, last = find_digits(rows, column)
            base, end = min(first, argument.base), max(last + 1, argument.base + argument.digits)
            if last >= 0 and (base, end - base) != (argument.base, argument.digits):
                end = end if argument.digits else last + 1
                wider[column] = replace(argument, base=base, digits=end - base)
        if wider == self._arguments:
            return None
        places = [np.zeros(1, np.int64)]
        width = 1
        for column, argument in self._arguments.items():
            new = wider[column] = replace(wider[column], place=width)
            same = argument.width - argument.digits
            shift = argument.base - new.base if argument.digits else 0
            places += [width + np.arange(same), width + same + shift + np.arange(argument.digits)]
            width += new.width
        moved = np.concatenate(places)
        self._arguments, self.lines = wider, spread(self.lines, moved, width)
        self._note_columns()
        return moved

    def add(self, lines: Matrix, first: int, slots: Vector, signs: Vector, rows: Matrix, coding: Coding) -> None:
        """Count and sum arguments of tuples in totals, or in portions that begin with a later column."""
        for column, argument in self._arguments.items():
            place = argument.place - first
            if argument.kind == FLOAT:
                add_floats(lines, place, argument.base, slots, signs, rows, column)
                continue
            words = NO_WORDS
            if argument.kind == DECIMAL:
                decimals = coding.decode(np.ascontiguousarray(rows[:, column]), argument.type)
                words = numpy_values(decimals).view(np.uint64)
            add_values(lines, lines.view(np.uint64), place, argument.kind, slots, signs, rows, column, words)

    def add_portions(self, slots: Vector, portions: Matrix, off: bool) -> None:
        """Add portions to totals, or take them off."""
        if portions.shape[1]:
            limbs, portion_limbs = self.lines.view(np.uint64), portions.view(np.uint64)
            add_portions(self.lines, limbs, slots, portions, portion_limbs, self._counts, self._sums, off)
            self.note_added(len(slots))

    def added_up(self, lots: Vector, count: int, portions: Matrix) -> Matrix:
        """Return portions added up by lot, of so many."""
        lines = np.zeros((count, self.width), np.int64)
        add_portions(
            lines, lines.view(np.uint64), lots, portions, portions.view(np.uint64), self._counts, self._sums, False
        )
        out = np.ascontiguousarray(lines[:, 1:])
        self.carry(out, 1)
        return out

    def note_added(self, count: int) -> None:
        """Note that lines, or values, have been added; carry digits before that is too often."""
        self._added += count
        if self._added > MOST:
            self.carry(self.lines, 0)
            self._added = count

    def carry(self, lines: Matrix, first: int) -> None:
        """Carry the digits of sums of floats in totals, or in portions."""
        for _, argument in self._floats():
            carry_lines(lines, argument.place + 1 - first, argument.digits)

    def results(self, lines: Matrix, asked: AggregateSpec, column: int) -> Vector | pa.Array:
        """Return what an aggregate of a column comes to in totals."""
        if column < 0:
            return np.ascontiguousarray(lines[:, 0])
        argument = self._arguments[column]
        counts, first = lines[:, argument.place], argument.place + 1
        if asked.function == COUNT:
            return counts
        if argument.kind == FLOAT:
            sums = round_lines(lines, first, argument.digits, argument.base)
            return pa.array(sums, mask=counts == 0) if asked.function == SUM else float_means(sums, counts)
        limbs = np.ascontiguousarray(lines[:, first : first + LIMBS]).view(np.uint64)
        if asked.function == SUM:
            return exact_sums(limbs, counts == 0, argument.type, asked.type)
        return exact_means(limbs, counts, argument.type)

    def _floats(self) -> list[tuple[int, Argument]]:
        return [(column, a) for column, a in self._arguments.items() if a.kind == FLOAT]

    def _note_columns(self) -> None:
        """Note which columns portions are added to one by one, and where those begin that are limbs."""
        limbs = [a.place + 1 for a in self._arguments.values() if a.kind in (WHOLE, DECIMAL)]
        self._sums = np.array(limbs, np.int64)
        inside = {first + k for first in limbs for k in range(LIMBS)}
        self._counts = np.array([k for k in range(1, self.width) if k not in inside], np.int64)


def spread(lines: Matrix, places: Vector, width: int) -> Matrix:
    """Return lines of more columns, with those there are at new places."""
    out = np.zeros((len(lines), width), np.int64)
    out[:, places] = lines
    return out


def _kind(t: pa.DataType) -> int:
    if pa.types.is_floating(t):
        return FLOAT
    return DECIMAL if pa.types.is_decimal(t) else WHOLE
