"""Held values: what groups keep of an argument for aggregates that do not ask how often a value comes.

    MIN, MAX    of tuples that are never taken back: the values that are, or will be, the best of those still there
    otherwise   every different value of a group once, with its count, or its last end

Complete inputs are tuples that never end: of them the best value is held, or every different one.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.bag import NULL
from midstream.kernels.groups import best_of_lots, keep_steps
from midstream.operators.hopping.bag import NEVER
from midstream.operators.hopping.coding import Coding
from midstream.operators.hopping.difference import CountValues
from midstream.operators.hopping.ends import ending_together, many_together
from midstream.operators.hopping.group import FOLD_ROWS, MIN, GroupBy, GroupSpec
from midstream.operators.hopping.tuples import Tuples
from midstream.operators.source.memory import check_room


class HeldValues(Protocol):
    """Values of one column by group, and the aggregates that are computed from them."""

    places: tuple[int, ...]
    """Which of the aggregates of the group-by they are."""

    @property
    def tuples(self) -> int:
        """Return how many values are held."""

    @property
    def nbytes(self) -> int:
        """Return the memory held."""

    def take(self, now_us: int, slots: Vector, tuples: Tuples) -> Vector:
        """Take values of groups in and out; return groups whose aggregates that may have changed."""

    def expire(self, now_us: int) -> Vector:
        """Drop what is over; return the groups that it was in."""

    def results(self, chosen: Vector, size: int) -> Matrix:
        """Return the aggregates of chosen groups, of so many."""

    def renumber(self, numbers: Vector) -> None:
        """Follow the groups to their new numbers, -1 for those that are forgotten."""


def hold_values(spec: GroupSpec, coding: Coding, lasting: bool) -> tuple[HeldValues, ...]:
    """Return what is held for the aggregates of a group-by that need it; `lasting`: nothing is taken back."""
    lots: dict[tuple[int, str], list[int]] = {}
    for k, (asked, column) in enumerate(zip(spec.aggregates, spec.arguments, strict=True)):
        if asked.once:
            best = lasting and not asked.distinct
            lots.setdefault((column, asked.function if best else ""), []).append(k)
    return tuple(
        BestValues(spec, coding, column, places, function == MIN)
        if function
        else DifferentValues(spec, coding, column, places, lasting)
        for (column, function), places in lots.items()
    )


class _OfColumn:
    """Values of one column. Computes the aggregates that are asked of it."""

    def __init__(self, spec: GroupSpec, coding: Coding, column: int, places: Sequence[int]) -> None:
        self.places = tuple(places)
        self._column = column
        self._coding = coding
        self._type = spec.types[column]
        aggregates = tuple(spec.aggregates[k] for k in places)
        own = GroupSpec(spec.project, 0, aggregates, (0,) * len(places), (self._type,))
        self._groups = GroupBy(own, coding)

    def _compute(self, slots: Vector, codes: Vector, chosen: Vector, size: int) -> Matrix:
        """Return the aggregates of chosen groups, of so many, from values of any groups."""
        place = np.full(size, -1, np.int64)
        place[chosen] = np.arange(len(chosen))
        of_value = place[slots]
        inside = np.flatnonzero(of_value >= 0)
        return self._groups.compute(codes.take(inside).reshape(-1, 1), of_value.take(inside), len(chosen))


class DifferentValues(_OfColumn):
    """Every different value of a group. State: pairs of group and value, with their counts and ends."""

    def __init__(self, spec: GroupSpec, coding: Coding, column: int, places: Sequence[int], lasting: bool) -> None:
        super().__init__(spec, coding, column, places)
        self._values = CountValues(2, lasting=(lasting, False))

    @property
    def tuples(self) -> int:
        """Return how many values and ends are held."""
        return self._values.tuples

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return self._values.nbytes

    def take(self, now_us: int, slots: Vector, tuples: Tuples) -> Vector:
        """Count values of groups in and out; return the groups that one has come to or gone from."""
        codes = tuples.rows[:, self._column]
        there = codes != NULL
        pairs = Tuples(np.column_stack([slots, codes]), tuples.until, tuples.signs)
        return self._groups_of(self._values.delta(now_us, [pairs if there.all() else pairs.where(there)]))

    def expire(self, now_us: int) -> Vector:
        """Drop what is over; return the groups that it was in."""
        return self._groups_of(self._values.delta(now_us))

    def results(self, chosen: Vector, size: int) -> Matrix:
        """Return the aggregates of chosen groups, of so many."""
        pairs = self._values.given()
        return self._compute(pairs[:, 0], pairs[:, 1], chosen, size)

    def renumber(self, numbers: Vector) -> None:
        """Follow the groups to their new numbers; values of those that are forgotten are forgotten, too."""
        # Else equal ones would be in no group, all of them with one hash: each looked for past all others.
        self._values.tidy()
        self._values.recode([lambda slots: np.where(slots >= 0, numbers[slots], -1), lambda codes: codes])

    def _groups_of(self, changes: Tuples) -> Vector:
        return np.ascontiguousarray(changes.rows[:, 0])


class BestValues(_OfColumn):
    """The least or greatest values of groups. State: values with group and end; maybe some that are not needed.

    A value is needed if no other of its group is as good and ends as late.
    """

    def __init__(self, spec: GroupSpec, coding: Coding, column: int, places: Sequence[int], least: bool) -> None:
        super().__init__(spec, coding, column, places)
        self._sign = 1 if least else -1
        self._now_us = NEVER
        self._count = 0
        self._fold_at = FOLD_ROWS
        self._held = np.empty((16, 3), np.int64)
        """Group, value and end."""

    @property
    def tuples(self) -> int:
        """Return how many values are held."""
        return self._count

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return self._held.nbytes

    def take(self, now_us: int, slots: Vector, tuples: Tuples) -> Vector:
        """Take in values of groups; return those groups."""
        codes, until = tuples.rows[:, self._column], tuples.until
        there = np.flatnonzero(codes != NULL)
        slots, codes, until = slots.take(there), codes.take(there), until.take(there)
        if many_together(slots, until):
            first, lots = ending_together(slots, until)
            best = best_of_lots(lots, self._ranks(codes), len(first))
            slots, codes, until = slots.take(best), codes.take(best), until.take(best)
        need = self._count + len(slots)
        if need > len(self._held):
            size = max(need, 3 * len(self._held) // 2)
            check_room(24 * size, "the values of groups")
            held = np.empty((size, 3), np.int64)
            held[: self._count] = self._held[: self._count]
            self._held = held
        self._held[self._count : need] = np.column_stack([slots, codes, until])
        self._count = need
        if need >= self._fold_at:
            self._fold()
        return slots

    def expire(self, now_us: int) -> Vector:
        """Note the time; return the groups of values that are over."""
        before, self._now_us = self._now_us, now_us
        until = self._held[: self._count, 2]
        return self._held[: self._count, 0].take(np.flatnonzero((until < now_us) & (until >= before)))

    def results(self, chosen: Vector, size: int) -> Matrix:
        """Return the aggregates of chosen groups, of so many."""
        held = self._held[: self._count]
        held = held.take(np.flatnonzero(held[:, 2] >= self._now_us), axis=0)
        return self._compute(held[:, 0], np.ascontiguousarray(held[:, 1]), chosen, size)

    def renumber(self, numbers: Vector) -> None:
        """Follow the groups to their new numbers; forget the values of those that are forgotten."""
        held = self._held[: self._count]
        held[:, 0] = numbers[held[:, 0]]
        self._hold(held.take(np.flatnonzero(held[:, 0] >= 0), axis=0))

    def _fold(self) -> None:
        """Hold no values but those that are needed."""
        held = self._held[: self._count]
        held = held.take(np.flatnonzero(held[:, 2] >= self._now_us), axis=0)
        ranks = self._ranks(np.ascontiguousarray(held[:, 1]))
        order = np.lexsort([ranks, -held[:, 2], held[:, 0]])
        self._hold(held.take(keep_steps(held, ranks, order), axis=0))
        self._fold_at = max(FOLD_ROWS, 2 * self._count)

    def _hold(self, held: Matrix) -> None:
        self._count = len(held)
        self._held[: len(held)] = held

    def _ranks(self, codes: Vector) -> Vector:
        """Return numbers in the order of values, the best first."""
        return self._sign * self._coding.ranks(codes, self._type)
