"""Fold: rows of a group that are in the same instances are held as one, with what their aggregates come to.

    rows held ──▶ same instances, same group ──▶ one row: count, sums, least and greatest values, lineage of them all

So a window over many results holds what its answer needs. What depends on every value, or on their order, is not
folded: medians, deviations, functions of the user.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Vector
from midstream.kernels.instances import sort_codes
from midstream.model.batch import Lineage
from midstream.operators.aggregate.functions import AggregateSpec, Values, aggregate, exact_means, float_means
from midstream.operators.aggregate.group_lines import describe
from midstream.operators.aggregate.held_sums import HELD, hold, unite
from midstream.operators.aggregate.stage_rows import StageRows, column
from midstream.operators.expression.arrays import validity
from midstream.operators.expression.cast import cast
from midstream.operators.expression.codes import dense_codes

COUNT, SUM, AVG, MIN, MAX = "count", "sum", "avg", "min", "max"
MOST_DIGITS = 25
"""Decimals with more digits are not folded: the sum of many of them might not fit into 128 bits."""
COUNTED = "count"
"""The column that says how many rows a row stands for."""


@dataclass(frozen=True)
class Partial:
    """A column of folded rows: what a function makes of an argument; no argument: how many rows there are."""

    name: str
    function: str
    argument: str | None
    type: pa.DataType

    def of_each(self, stored: dict[str, pa.Array], count: int) -> pa.Array:
        """Return the column for rows that stand for themselves."""
        if self.argument is None:
            return pa.array(np.ones(count, np.int64))
        array = stored[self.argument]
        if self.type == HELD:
            values = Values(array, np.arange(count), np.arange(1, count + 1))
            return hold(values.floats, values.starts, values.ends)
        if self.function != COUNT:
            return array.cast(self.type) if self.function == SUM else array
        valid = validity(array)
        return pa.array(np.ones(count, np.int64) if valid is None else valid.astype(np.int64))

    def of_ranges(self, values: Values) -> pa.Array:
        """Return what ranges of the column come to."""
        if self.type == HELD:
            return unite(values.array, values.starts, values.ends)[0]
        function = SUM if self.function == COUNT else self.function
        found = aggregate(AggregateSpec(function, self.name, self.type), values)
        return found.fill_null(0) if self.function == COUNT else found


@dataclass(frozen=True)
class Fold:
    """How rows of a stage are folded. `same` are the columns that rows which are folded have in common."""

    same: dict[str, pa.DataType]
    partials: tuple[Partial, ...]

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """Return the columns of folded rows."""
        return self.same | {p.name: p.type for p in self.partials}

    def of_each(self, stored: dict[str, pa.Array], count: int) -> list[pa.Array]:
        """Return the columns of rows that stand for themselves, from keys and arguments."""
        return [*(stored[name] for name in self.same), *(p.of_each(stored, count) for p in self.partials)]

    def of_table(self, rows: pa.Table) -> pa.Table:
        """Return rows as they are written down, with keys and arguments, as rows that stand for themselves."""
        stored = {name: column(rows, name) for name in rows.column_names}
        own = {name: array for name, array in stored.items() if name[0] == "_"}
        return pa.table(own | dict(zip(self.columns, self.of_each(stored, rows.num_rows), strict=True)))

    def result(self, asked: AggregateSpec, column: Callable[[str], Values]) -> pa.Array:
        """Return an aggregate of ranges of folded rows, whose columns `column` returns."""
        if asked.distinct:
            assert asked.argument is not None, "rows are not distinct"
            return aggregate(asked, column(asked.argument))
        if asked.function == AVG:
            totals = column(_name(SUM, asked.argument))
            found = self._partial(_name(COUNT, asked.argument)).of_ranges(column(_name(COUNT, asked.argument)))
            counts = found.to_numpy()
            if totals.type == HELD:
                return float_means(unite(totals.array, totals.starts, totals.ends)[1], counts)
            return exact_means(totals.sums(False), counts, totals.type)
        partial = self._partial(_name(asked.function, asked.argument))
        if partial.type == HELD:
            of = column(partial.name)
            sums, floats = unite(of.array, of.starts, of.ends)
            empty = sums.value_lengths().to_numpy() == 0
            return cast(pa.array(floats, mask=empty), asked.type, len(floats))
        if asked.function == SUM:
            return aggregate(AggregateSpec(SUM, partial.name, asked.type), column(partial.name))
        return partial.of_ranges(column(partial.name))

    def _partial(self, name: str) -> Partial:
        return next(p for p in self.partials if p.name == name)


def fold_of(
    stored: dict[str, pa.DataType], keys: tuple[str, ...], aggregates: tuple[AggregateSpec, ...]
) -> Fold | None:
    """Return how rows with keys and arguments are folded; None: they cannot be."""
    if not all(_folds(a, stored) for a in aggregates):
        return None
    partials = {COUNTED: Partial(COUNTED, COUNT, None, pa.int64())}
    for a in aggregates:
        if a.distinct or a.argument is None:
            continue
        for function in (SUM, COUNT) if a.function == AVG else (a.function,):
            name = _name(function, a.argument)
            partials[name] = Partial(name, function, a.argument, _held_type(function, stored[a.argument]))
    split = {a.argument for a in aggregates if a.distinct and a.argument is not None} - set(keys)
    # Rows of a group stay apart by these, and the first of equal ones is not the first any more: 0.0 or -0.0 may be.
    if split and any(pa.types.is_floating(t) for t in stored.values()):
        return None
    return Fold({n: t for n, t in stored.items() if n in keys or n in split}, tuple(partials.values()))


def _folds(asked: AggregateSpec, stored: dict[str, pa.DataType]) -> bool:
    if asked.user is not None or pa.types.is_null(asked.type):
        return False
    if asked.argument is None or asked.function in (COUNT, MIN, MAX):
        return True
    t = stored[asked.argument]
    fits = pa.types.is_integer(t) or pa.types.is_floating(t) or (pa.types.is_decimal(t) and t.precision <= MOST_DIGITS)
    return asked.function in (SUM, AVG) and bool(fits)


def _held_type(function: str, t: pa.DataType) -> pa.DataType:
    if function == COUNT:
        return pa.int64()
    if function == SUM:
        return HELD if pa.types.is_floating(t) else pa.decimal128(38, t.scale if pa.types.is_decimal(t) else 0)
    return t


def _name(function: str, argument: str | None) -> str:
    return COUNTED if argument is None else f"{function} {argument}"


def number_alike(rows: StageRows, first: int, panes: Vector, same: list[str]) -> tuple[Vector, int]:
    """Number the rows from a place on so that those which can be folded have the same number; return how many."""
    places = np.arange(first, len(rows))
    passed = rows.passed.view()[first:]
    return dense_codes([pa.array(2 * panes + passed), *(rows.columns[name].take(places, large=True) for name in same)])


def folded(rows: StageRows, first: int, codes: Vector, size: int, fold: Fold) -> StageRows:
    """Return rows, each of which stands for those from a place on that have its code, where the last of them is.

    Rows have the columns of the fold; those before the place stay as they are.
    """
    order, bounds = sort_codes(codes, size)
    starts, ends, places = bounds[:-1], bounds[1:], order + first
    lines = describe(rows, places, starts, ends, True)
    leaving = np.argsort(lines.latest)
    last, earliest = lines.latest[leaving], places[starts[leaving]]
    columns = [rows.columns[name].take(earliest, large=True) for name in fold.same]
    for partial in fold.partials:
        values = Values(rows.columns[partial.name].take(places, large=True), starts, ends)
        columns.append(partial.of_ranges(values).take(pa.array(leaving)))
    out = rows.like(fold.columns)
    before = np.arange(first)
    sets = None if rows.sets is None else rows.sets.view()
    kept = None if sets is None else sets.where(before)
    united = None if sets is None else sets.where(places).united(starts, ends).where(leaving)
    out.append(
        rows.times.view()[before], rows.triggers(before),
        Lineage(rows.oldest_us.view()[before], rows.prints.view()[before], sets=kept),
        rows.passed.view()[before], [rows.columns[name].take(before, large=True) for name in fold.columns],
    )  # fmt: skip
    out.append(
        lines.times[leaving], rows.triggers(last),
        Lineage(lines.oldest_us[leaving], lines.prints[leaving], sets=united),
        rows.passed.view()[last], columns,
    )  # fmt: skip
    out.numbers.reset(rows.numbers.view()[np.concatenate([before, last])])
    out.next_number = rows.next_number
    return out
