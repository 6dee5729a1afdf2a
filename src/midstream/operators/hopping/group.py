"""Group-by: one row for every different key, with aggregates of the tuples that have it.

    deltas:    tuples are held by group; the groups that something came to or went from are computed anew
               (counts and sums need not be: see kept_groups)
    complete:  every group is computed anew; nothing is held

Tuples come in pieces, as a join finds them, and of those that are not held no more than one piece is there at a time.
A group's row does not end with time: it is taken back when it changes. Within a group tuples are in the order of their
values where the result depends on an order, as deviations do.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.groups import change_rows
from midstream.kernels.instances import sort_codes
from midstream.operators.aggregate.functions import AggregateSpec, Values, aggregate
from midstream.operators.hopping.bag import NEVER, Bag
from midstream.operators.hopping.coding import Coding
from midstream.operators.hopping.rows import ProjectRows
from midstream.operators.hopping.tuples import FOREVER, Tuples, nothing, valid
from midstream.operators.source.memory import check_room
from midstream.operators.source.tape import grown, grown_with_zeros
from midstream.operators.source.value_table import ValueTable

MIN, STDDEV = "min", "stddev"
FOLD_ROWS = 1 << 18
"""How many tuples are held before it is seen whether they are often the same."""


@dataclass(frozen=True)
class GroupSpec:
    """What a group-by computes: rows are projected to keys and arguments, which aggregates read by place."""

    project: ProjectRows
    keys: int
    aggregates: tuple[AggregateSpec, ...]
    arguments: tuple[int, ...]
    """The place of each aggregate's argument among the projected columns, or -1."""
    types: tuple[pa.DataType, ...]
    """The types of the projected columns."""

    @property
    def width(self) -> int:
        """Return how many columns leave."""
        return self.keys + len(self.aggregates)

    @property
    def counts_once(self) -> bool:
        """Tell whether it makes no difference how often a tuple comes."""
        return all(a.once for a in self.aggregates)


class GroupBy:
    """A group-by, but for how it follows deltas. State: the groups, and the row each has given."""

    gathers = True

    def __init__(self, spec: GroupSpec, coding: Coding) -> None:
        self.spec = spec
        self._coding = coding
        self.tested = 0
        self._groups = ValueTable(spec.keys)
        self._given = np.empty((16, len(spec.aggregates)), np.int64)
        self._has = np.zeros(16, np.bool_)

    def complete(self, now_us: int, pieces: Iterable[Tuples]) -> Tuples:
        """Return the row of every group."""
        rows = self._gathered(self._projected(now_us, pieces))
        groups = ValueTable(self.spec.keys)
        slots = groups.find(rows)
        return self._rows(groups, self.compute(rows, slots, len(groups)))

    def _projected(self, now_us: int, pieces: Iterable[Tuples]) -> Iterator[Tuples]:
        """Yield keys and arguments of tuples that are valid."""
        for piece in pieces:
            tuples = valid(self.spec.project.complete(now_us, piece), now_us)
            self.tested += len(tuples)
            if len(tuples):
                yield tuples

    def _gathered(self, pieces: Iterable[Tuples]) -> Matrix:
        """Return the rows of all pieces; if it makes no difference how often a row comes, each once."""
        if self.spec.counts_once:
            each = ValueTable(len(self.spec.types))
            for piece in pieces:
                each.find(piece.rows)
            return each.rows[: len(each)]
        rows, count = [], 0
        for piece in pieces:
            rows.append(piece.rows)
            count += 2 * len(piece)  # once more when they are put together
            check_room(8 * len(self.spec.types) * count, "the tuples of groups")
        if len(rows) == 1:
            return rows[0]
        return np.concatenate(rows) if rows else np.empty((0, len(self.spec.types)), np.int64)

    def _rows(self, groups: ValueTable, results: Matrix) -> Tuples:
        """Return groups with their aggregates."""
        out = np.concatenate([groups.rows[: len(results)], results], axis=1)
        return Tuples(out, np.full(len(out), FOREVER, np.int64))

    def compute(self, rows: Matrix, slots: Vector, size: int) -> Matrix:
        """Return the aggregates of groups, a row for each, as codes."""
        spec = self.spec
        out = np.empty((size, len(spec.aggregates)), np.int64)
        order, starts = sort_codes(slots, size)
        firsts, ends = starts[:-1], starts[1:]
        arguments: dict[tuple[int, bool], Values] = {}
        for k, (asked, place) in enumerate(zip(spec.aggregates, spec.arguments, strict=True)):
            if place < 0:
                out[:, k] = ends - firsts
                continue
            t = spec.types[place]
            # A deviation depends on the order; so does what a user's function sees.
            sorted_by_value = asked.user is not None or asked.function == STDDEV
            if (place, sorted_by_value) not in arguments:
                codes = np.ascontiguousarray(rows[:, place])
                places = order
                if sorted_by_value:
                    places = np.lexsort([self._coding.ranks(codes, t), slots])
                array = self._coding.decode(codes[places], t, large=asked.user is None)
                arguments[(place, sorted_by_value)] = Values(array, firsts, ends)
            out[:, k] = self._coding.encode(aggregate(asked, arguments[(place, sorted_by_value)]))
        return out

    def _change(self, chosen: Vector, tuples: Vector, results: Matrix) -> Tuples:
        """Give chosen groups other results, groups without tuples none; return what that changes."""
        there = tuples > 0 if self.spec.keys else np.ones(1, np.bool_)
        rows, signs = change_rows(self._groups.rows, self._given, self._has, chosen, there, results)
        return Tuples(rows, np.full(len(rows), FOREVER, np.int64), signs)

    def _make_room(self, size: int) -> None:
        """Make room for so many groups."""
        if size > len(self._has):
            bigger, count = max(size, 3 * len(self._has) // 2), len(self._has)
            self._given = grown(self._given, count, bigger)
            self._has = grown_with_zeros(self._has, count, bigger)

    def _keep(self, kept: Vector) -> Vector:
        """Forget all other groups; return the new number of each, -1 for none."""
        count = len(self._groups)
        numbers = self._groups.keep(kept)
        self._given[: len(kept)], self._has[: len(kept)] = self._given[kept], self._has[kept]
        self._has[len(kept) : count] = False
        return numbers


class GroupTuples(GroupBy):
    """A group-by that computes groups anew. State, when it reads deltas: the tuples, their groups, and rows given.

    Where tuples are never taken back (`lasting`) and it makes no difference how often they come, the same ones are held
    once, until the last of them ends.
    """

    def __init__(self, spec: GroupSpec, coding: Coding, lasting: bool = False) -> None:
        super().__init__(spec, coding)
        self._once = lasting and spec.counts_once and bool(spec.aggregates)
        self._fold_at = FOLD_ROWS
        self._bag = Bag(len(spec.types), np.arange(len(spec.types)), counted=True)
        self.bags = (self._bag,)

    def delta(self, now_us: int, pieces: Iterable[Tuples]) -> Tuples:
        """Return the rows of groups that come and go."""
        bag = self._bag
        touched = np.zeros(max(len(self._groups), 1), np.bool_)
        touched[0] = not self.spec.keys and not self._has[0]
        if now_us > bag.now_us:
            touched[bag.numbers[(bag.until < now_us) & (bag.until >= bag.now_us)]] = True
            bag.expire(now_us)
        going = []
        for tuples in self._projected(now_us, pieces):
            assert tuples.signs is not None, "groups are kept up to date by deltas"
            slots = self._groups.find(tuples.rows)
            coming = tuples.signs > 0
            bag.add(tuples.where(coming), slots[coming])
            self._fold()
            going.append(tuples.where(~coming))
            if len(self._groups) > len(touched):
                count = len(touched)
                touched = grown_with_zeros(touched, count, max(len(self._groups), 3 * count // 2))
            touched[slots] = True
        for tuples in going:  # maybe what another piece has brought
            bag.remove(tuples)
        chosen = np.flatnonzero(touched)
        return self._changed(chosen) if len(chosen) else nothing(self.spec.width, True)

    def _fold(self) -> None:
        """Hold tuples that are the same once, when they are many."""
        bag = self._bag
        if not self._once or bag.count < self._fold_at:
            return
        bag.tidy()
        each = ValueTable(len(self.spec.types))
        slots = each.find(bag.rows)
        until = np.full(len(each), NEVER, np.int64)
        np.maximum.at(until, slots, bag.until)
        if 2 * len(each) <= bag.count:
            rows = each.rows[: len(each)]
            bag.hold(Tuples(rows, until), self._groups.find(rows))
        self._fold_at = max(FOLD_ROWS, 2 * bag.count)

    def _changed(self, chosen: Vector) -> Tuples:
        """Compute groups anew; return what that changes."""
        bag, size = self._bag, max(len(self._groups), 1)
        self._make_room(size)
        place = np.full(size, -1, np.int64)
        place[chosen] = np.arange(len(chosen))
        of_tuple = place[bag.numbers]
        inside = np.flatnonzero((of_tuple >= 0) & (bag.until >= bag.now_us))
        slots = of_tuple.take(inside)
        results = self.compute(bag.rows.take(inside, axis=0), slots, len(chosen))
        out = self._change(chosen, np.bincount(slots, minlength=len(chosen)), results)
        self._tidy()
        return out

    def _tidy(self) -> None:
        """Forget groups without tuples, when they are many."""
        count = len(self._groups)
        if not self.spec.keys or count < self._groups.tidy_at:
            return
        self._bag.tidy()
        numbers = self._keep(np.flatnonzero(self._has[:count]))
        self._bag.numbers[:] = numbers[self._bag.numbers]
