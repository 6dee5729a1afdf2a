"""Statistics of rows, recorded or held by a query: rates, rows in windows, common values, what conditions pass.

first rows of each stream ──▶ those a window holds at the end ──▶ filters ──▶ values of keys ──▶ pairs on a sample
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from midstream.engine.rows.rows import Rows
from midstream.model.statistics import Statistics, Values
from midstream.operators.expression.evaluate import ColumnOf, evaluate, truth
from midstream.plan.expr import Call, Expr, aliases, cast_to, columns
from midstream.plan.predicates import classify
from midstream.plan.query import CLOSE, HOP, ROW, Query, When
from midstream.plan.source import Source
from midstream.plan.window import RangeWindow, RowsWindow

FEWEST = 2_000
"""Rows that values are counted in when a window holds fewer."""
COMMON = 64
"""Values of a key that are counted one by one."""
MOST_HELD = 4096
"""The same of rows that a query holds: they may be few, and say little of values that they do not have."""
PAIRED = 250
"""Rows of each side that conditions between two streams are tried on."""


def statistics_of_rows(query: Query, rows: Mapping[str, Rows]) -> Statistics:
    """Return statistics of the rows of each alias, of which there are no others."""
    missing = [a for a in query.aliases if a not in rows]
    if missing:
        return Statistics()
    counts = {alias: len(mine) for alias, mine in rows.items()}
    return Gathering(query, lambda alias, _names: rows[alias], counts, MOST_HELD).statistics()


class Gathering:
    """The rows of a query's streams, read once: of one that hops all columns, of another those in conditions."""

    def __init__(
        self,
        query: Query,
        first: Callable[[str, list[str]], Rows],
        counts: Mapping[str, int],
        common: int = COMMON,
    ) -> None:
        """`first` returns the first rows of an alias, in order, with some columns; `counts` says how many there are."""
        self.query, self._first, self._counts, self._common = query, first, counts, common
        self.filters: Mapping[str, Sequence[Expr]] = dict.fromkeys(query.aliases, ())
        self.members: dict[str, dict[int, Expr]] = {a: {} for a in query.aliases}
        self.conditions: dict[str, Expr] = {}
        self.counted: dict[str, tuple[str, ...]] = dict.fromkeys(query.aliases, ())
        """Columns whose different values are counted, whatever conditions say of them."""
        _LOOKED_AT[query.when](self)

    def sort_columns(self) -> None:
        """Count the values of all columns: conditions stand in the tree of the query, where plans move them."""
        self.counted = {a: self.query.columns_of(a) for a in self.query.aliases}

    def sort_conditions(self) -> None:
        """Count what conditions say of: filters, keys and pairs."""
        predicates = classify(self.query)
        self.filters = predicates.filters
        for group, cls in enumerate(predicates.classes):
            for alias in self.query.aliases:
                member = cls.member_of(frozenset([alias]))
                if member is not None:
                    self.members[alias][group] = cast_to(member, cls.type)
        for c in predicates.comparisons:
            self.conditions[str(c)] = Call(c.op, (cast_to(c.left, c.type), cast_to(c.right, c.type)), pa.bool_())
        self.conditions |= {str(r): r for r in predicates.residuals}

    def statistics(self) -> Statistics:
        """Return what there is to know."""
        read = {source.alias: self._read(source) for source in self.query.sources}
        stats = Statistics(rows_seen=min((len(rows) for rows in read.values()), default=0))
        samples = {}
        end_us = self._end_us(read)
        for source in self.query.sources:
            alias, rows = source.alias, read[source.alias]
            stats.rows_per_s[alias], stats.window_rows[alias] = _per_s(rows), self._held(source, rows)
            sample = _sample(source, rows.between(0, int(np.searchsorted(rows.times, end_us, side="right"))))
            passed = _passing(self.filters[alias], len(sample), _columns(sample))
            stats.passing[alias] = float(passed.mean()) if len(passed) else 1.0
            samples[alias] = sample = sample.take(np.flatnonzero(passed))
            for group, member in self.members[alias].items():
                stats.values[group, alias] = _values(evaluate(member, len(sample), _columns(sample)), self._common)
            for name in self.counted[alias]:
                values = stats.common[alias, name] = _values(rows.columns[name], self._common)
                stats.distinct[alias, name] = values.distinct
        for text, condition in self.conditions.items():
            if len(aliases(condition)) == 2:
                stats.selectivity[text] = _satisfied(condition, samples)
        return stats

    def _read(self, source: Source) -> Rows:
        """Return the first rows of a stream in order of time, with the columns that are counted or in conditions."""
        alias = source.alias
        wanted = {c.name for e in self._read_by(alias) for c in columns(e) if c.alias == alias}
        names = wanted.union(self.counted[alias], (c.name for c in source.partition_by))
        return self._first(alias, sorted(names))

    def _read_by(self, alias: str) -> Iterable[Expr]:
        return (*self.filters[alias], *self.members[alias].values(), *self.conditions.values())

    def _end_us(self, read: dict[str, Rows]) -> int:
        """Return the time up to which all streams were looked at."""
        ends = [(int(rows.times[-1]), len(rows) < self._counts[alias]) for alias, rows in read.items() if len(rows)]
        cut = [end for end, more in ends if more]
        return min(cut) if cut else max((end for end, _ in ends), default=0)

    def _held(self, source: Source, rows: Rows) -> float:
        """Return about how many rows a window holds."""
        recorded, window = float(self._counts[source.alias]), source.window
        if isinstance(window, RangeWindow):
            return min(recorded, _per_s(rows) * window.width_us / 1e6)
        if isinstance(window, RowsWindow):
            names = [c.name for c in window.partition_by]
            keys = pa.table(rows.columns).group_by(names).aggregate([]).num_rows if names else 1
            return min(recorded, float(window.count) * max(keys, 1))
        return recorded


_LOOKED_AT: dict[When, Callable[[Gathering], None]] = {
    ROW: Gathering.sort_conditions,
    CLOSE: Gathering.sort_conditions,
    HOP: Gathering.sort_columns,
}


def _sample(source: Source, seen: Rows) -> Rows:
    """Return rows to count values in: those a window holds at the end, or some more."""
    window = source.window
    if isinstance(window, RangeWindow):
        first = int(np.searchsorted(seen.times, seen.times[-1] - window.width_us)) if len(seen) else 0
    elif isinstance(window, RowsWindow) and not window.partition_by:
        first = len(seen) - window.count
    else:
        return seen
    return seen.between(max(0, min(first, len(seen) - FEWEST)), len(seen))


def _per_s(rows: Rows) -> float:
    """Return how many rows come in a second of event time."""
    return len(rows) / max((int(rows.times[-1]) - int(rows.times[0])) / 1e6, 1e-6) if len(rows) else 0.0


def _columns(rows: Rows) -> ColumnOf:
    return lambda column: rows.columns[column.name]


def _passing(conjuncts: Sequence[Expr], rows: int, column: ColumnOf) -> npt.NDArray[np.bool_]:
    """Return which rows satisfy all conditions."""
    passed = np.ones(rows, np.bool_)
    for conjunct in conjuncts:
        passed &= truth(conjunct, rows, column)
    return passed


def _values(array: pa.Array, common_values: int) -> Values:
    """Count the values of an array."""
    if not len(array) or pa.types.is_null(array.type):
        return Values(1.0, {}, 0.0)
    counts = pc.value_counts(array.drop_null())
    many, number = counts.field("counts").to_numpy(), len(counts)
    top = np.argsort(-many, kind="stable")[:common_values]
    values = counts.field("values")
    common = {_value(values[int(k)]): float(many[k]) / len(array) for k in top}
    return Values(float(max(number, 1)), common, float(many.sum() - many[top].sum()) / len(array))


def _value(scalar: pa.Scalar) -> Any:
    """Return a value to compare others with; a date or time that Python has not is its number."""
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return scalar.value


def _satisfied(condition: Expr, samples: dict[str, Rows]) -> float:
    """Return the part of all pairs of some rows that satisfy a condition between two streams."""
    left, right = sorted(aliases(condition))
    sides = {a: samples[a].take(_spaced(len(samples[a]))) for a in (left, right)}
    a, b = (len(sides[alias]) for alias in (left, right))
    places = {left: np.repeat(np.arange(a), b), right: np.tile(np.arange(b), a)}
    pairs = {alias: sides[alias].take(places[alias]) for alias in (left, right)}
    if not a * b:
        return 1.0
    passed = truth(condition, a * b, lambda c: pairs[c.alias].columns[c.name])
    return max(float(passed.mean()), 0.5 / (a * b))


def _spaced(count: int) -> npt.NDArray[np.int64]:
    return np.unique(np.linspace(0, count - 1, min(count, PAIRED)).astype(np.int64))
