"""Window stage: the aggregates of each instance of a window over the results below.

    results ──▶ rows an open instance may hold ──▶ instances that close ──▶ groups ──▶ aggregates ──▶ HAVING ──▶ outputs

State: the rows of open instances, with WHERE, keys and arguments evaluated, and how far the window has come. Where
they are many, rows that the same instances hold are folded.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Matrix, Vector
from midstream.model.batch import TRIGGER, Lineage, Results
from midstream.model.time import FOREVER_US
from midstream.operators.aggregate.fold import COUNTED, Fold, fold_of, folded, number_alike
from midstream.operators.aggregate.functions import AggregateSpec, Values, aggregate
from midstream.operators.aggregate.group_lines import Lines, describe_groups, oldest_rows, row_sets
from midstream.operators.aggregate.groups import Groups, group
from midstream.operators.aggregate.instances import Closing, InstancesState, ascending
from midstream.operators.aggregate.stage_rows import StageRows, column
from midstream.operators.expression.arrays import as_strings
from midstream.operators.expression.evaluate import evaluate_all, truth_of_all
from midstream.plan.expr import Column, Expr

NONE = np.empty(0, np.int64)
FOLD_ROWS = 1 << 18
"""How many rows are held before it is seen whether they can be folded."""


@dataclass(frozen=True)
class StageSpec:
    """What a stage computes.

    `stored` are keys and arguments by the name of the column that holds them; keys and aggregates are read as
    `key0`, ... and `agg0`, ... by `having` and `outputs`.
    """

    conjuncts: tuple[Expr, ...]
    stored: dict[str, Expr]
    keys: tuple[str, ...]
    aggregates: tuple[AggregateSpec, ...]
    having: tuple[Expr, ...]
    outputs: tuple[tuple[str, Expr], ...]

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Return the types of keys and arguments."""
        return {name: e.type for name, e in self.stored.items()}


class WindowStage:
    """Aggregates over the instances of a window.

    Invariant: the rows held include every row of an open instance; what leaves does not depend on how rows came in
    batches.
    """

    order_width = 2 * TRIGGER
    """Columns of a result's order: what closed its instance, and the latest row in it."""

    def __init__(self, spec: StageSpec, window: InstancesState) -> None:
        self.spec = spec
        self.window = window
        self.rows = StageRows(spec.types)
        self.fold: Fold | None = None
        """How the rows held are folded; None: every row is there."""
        self._fold_at = FOLD_ROWS
        self.timed = False
        """Time alone closes its instances, or those of a window below."""
        self.traced = True
        """Results say what they depend on, and instances what they held; else nobody asks."""
        self.below_windows = False
        """A window over the results asks which rows they are made of."""
        self.compared = False
        """A change compares results by the rows they are made of."""
        self._closed_us = np.empty(0, np.int64)
        self._closed_oldest_us = np.empty(0, np.int64)
        self._handed_out = 0
        """Rows numbered below have been handed out to be written down."""
        self._written = 0
        """How many rows have been handed out since, or when, all that were needed were."""
        self._dropped = False
        """Rows were dropped that had not been handed out: without them others would be taken for needed."""

    @property
    def tuples(self) -> int:
        """Return how many rows are held."""
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return self.rows.nbytes + self.window.nbytes

    def on_results(self, results: Results, clock_us: int) -> Results:
        """Take in results of the level below and return those of the instances that close.

        Every row with a time below `clock_us` has been seen.
        """
        fresh = self._take_in(results) if len(results) else 0
        closing = self.window.close(self.rows, fresh, clock_us)
        if closing is None:
            self._closed_us = self._closed_oldest_us = np.empty(0, np.int64)
            answer = self._nothing()
        else:
            answer = self._answer(closing)
        self.window.forget(self.rows, self._handed_out)
        self._fold_rows()
        return answer

    def _take_in(self, results: Results) -> int:
        assert results.order is not None, "a stage asks for order"
        assert results.lineage is not None, "a stage asks for lineage"
        rows, trigger, lineage = results.rows, results.order[:, :TRIGGER], results.lineage
        inside = self.window.admit(lambda c: rows.column(c.name), np.ascontiguousarray(trigger[:, 0]))
        if inside is not None and not inside.all():
            rows, trigger, lineage = rows.filter(pa.array(inside)), trigger[inside], lineage.where(inside)
        count = int(rows.num_rows)
        if not count:
            return 0

        def values(c: Column) -> pa.Array:
            return rows.column(c.name)

        passed = truth_of_all(self.spec.conjuncts, count, values)
        columns = evaluate_all(list(self.spec.stored.values()), count, values)
        if self.fold is not None:
            columns = self.fold.of_each(dict(zip(self.spec.stored, columns, strict=True)), count)
        times = rows.column("_time").to_numpy()
        self.rows.append(times, trigger, lineage, passed, columns)
        return count

    def _fold_rows(self) -> None:
        """Fold rows that have not been handed out, when they are many and more than half of them would go."""
        first = int(np.searchsorted(self.rows.numbers.view(), self._handed_out)) if self._handed_out else 0
        count = len(self.rows) - first
        # A window above tells rows apart where each is one of the stream.
        if count < self._fold_at or (self.below_windows and self.rows.sets is None):
            return
        fold = self.fold or fold_of(self.spec.types, self.spec.keys, self.spec.aggregates)
        panes = None if fold is None else self.window.panes(self.rows)
        self._fold_at = 2 * count
        if fold is None or panes is None:
            return
        codes, size = number_alike(self.rows, first, panes[first:], list(fold.same))
        if 2 * size > count:
            return
        if self.fold is None:
            rows, next_number = self._table(np.arange(len(self.rows))), self.rows.next_number
            self.fold, self.rows = fold, self.rows.like(fold.columns)
            self.rows.load(fold.of_table(rows), next_number)
        self.rows = folded(self.rows, first, codes, size, fold)
        self._fold_at = max(FOLD_ROWS, 2 * size)

    def _answer(self, closing: Closing) -> Results:
        rows, spec = self.rows, self.spec
        groups = group(rows, closing, list(spec.keys))
        lines = describe_groups(rows, groups, closing, self.traced)
        self._closed_us = self._closed_oldest_us = np.empty(0, np.int64)
        if self.traced:
            self._closed_us = closing.trigger[:, 0]
            plain = groups.places is closing.places
            self._closed_oldest_us = lines.oldest_us if plain else oldest_rows(rows, closing)
        # In the order they leave. A latest row belongs to one group: equal ones are of instances that come in order.
        order = ascending(closing.ranks[groups.instances] * (len(rows) + 1) + lines.latest)
        if order is None:
            order = np.arange(len(groups))
        found = self._grouped(groups, order)

        def values(c: Column) -> pa.Array:
            return found[c.name]

        chosen = truth_of_all(spec.having, len(order), values)
        if not chosen.all():
            found = {name: array.filter(pa.array(chosen)) for name, array in found.items()}
            order = order[chosen]
        arrays = evaluate_all([e for _, e in spec.outputs], len(order), values)
        arrays.append(pa.array(lines.times[order]))
        names = [*(name for name, _ in spec.outputs), "_time"]
        trigger = closing.trigger[groups.instances[order]]
        return Results(
            pa.RecordBatch.from_arrays(arrays, names=names),
            np.hstack([trigger, rows.triggers(lines.latest[order])]),
            self._lineage(lines, groups, closing).where(order) if self.traced else None,
        )

    def _lineage(self, lines: Lines, groups: Groups, closing: Closing) -> Lineage:
        """Return what groups depend on; rows that several rows here are made of count once."""
        if not self.compared or (self.rows.sets is None and not self.below_windows):
            return Lineage(lines.oldest_us, lines.prints)
        sets = row_sets(self.rows, groups, closing)
        known = np.diff(sets.starts) > 0
        prints = np.where(known, sets.sums(), lines.prints)
        return Lineage(lines.oldest_us, prints, sets=sets if self.below_windows else None)

    def _grouped(self, groups: Groups, order: Vector) -> dict[str, pa.Array]:
        """Return keys and aggregates of each group, in the given order."""
        rows, spec = self.rows, self.spec
        firsts = groups.places[groups.starts[order]] if spec.keys else order
        found = {f"key{k}": rows.columns[name].take(firsts) for k, name in enumerate(spec.keys)}
        arguments: dict[str, Values] = {}
        large = all(asked.user is None for asked in spec.aggregates)

        def argument(name: str) -> Values:
            if name not in arguments:
                array = rows.columns[name].take(groups.places, large)
                arguments[name] = Values(array, groups.starts, groups.ends)
            return arguments[name]

        places = pa.array(order)
        for k, asked in enumerate(spec.aggregates):
            if self.fold is not None:
                result = self.fold.result(asked, argument)
            elif asked.argument is None:
                result = pa.array(groups.ends - groups.starts).cast(asked.type)
            else:
                result = aggregate(asked, argument(asked.argument))
            found[f"agg{k}"] = as_strings(result.take(places))
        return found

    def _nothing(self) -> Results:
        names = [*(name for name, _ in self.spec.outputs), "_time"]
        arrays = [pa.nulls(0, e.type) for _, e in self.spec.outputs]
        none = np.empty(0, np.int64)
        rows = pa.RecordBatch.from_arrays([*arrays, pa.nulls(0, pa.int64())], names=names)
        return Results(rows, np.empty((0, 2 * TRIGGER), np.int64), Lineage(none, none))

    def holds_before(self, time_us: int) -> bool:
        """Tell whether a row from before a time may still be part of an instance, WHERE or not."""
        old = self.rows.oldest_us.view() < time_us
        inside = self.window.open_rows(self.rows)
        return bool((old if inside is None else old & inside).any())

    def drain(self, position_us: int) -> None:
        """Open no instance any more that holds no row from before a position: nothing older comes from below."""
        held = len(self.rows)
        self.window.drain(self.rows, position_us)
        self._dropped |= len(self.rows) < held

    def closed(self) -> tuple[Vector, Vector]:
        """Return from when on the instances are gone that closed in the last call, and the oldest row of each."""
        return self._closed_us + (0 if self.timed else 1), self._closed_oldest_us

    @property
    def oldest_us(self) -> int:
        """Return the time of the oldest row in an open instance; FOREVER for none."""
        inside = self.window.open_rows(self.rows)
        oldest = self.rows.oldest_us.view() if inside is None else self.rows.oldest_us.view()[inside]
        return int(oldest.min()) if len(oldest) else FOREVER_US

    def same_as(self, other: "WindowStage") -> bool:
        """Tell whether another stage of the same query holds the same rows, and its instances begin with the same."""
        if self.fold is not None or other.fold is not None:
            return self.window.in_step(other.window, NONE, NONE) and bool(
                np.array_equal(self._prints_of_panes(), other._prints_of_panes())
            )
        mine, theirs = (stage._needed() for stage in (self, other))
        if len(mine) != len(theirs) or not self.window.in_step(other.window, mine, theirs):
            return False
        return bool((self.rows.prints.view()[mine] == other.rows.prints.view()[theirs]).all())

    def _prints_of_panes(self) -> Matrix:
        """Return a line for all rows that the same instances hold: which, and the print of all of them."""
        panes = self.window.panes(self.rows)
        assert panes is not None, "rows are folded by pane"
        each, firsts = np.unique(panes, return_index=True)
        prints = np.add.reduceat(self.rows.prints.view(), firsts) if len(firsts) else NONE
        return np.column_stack([each, prints])

    @property
    def first_number(self) -> int:
        """Return the number of the first row that is needed; those before are not needed any more."""
        needed = self._needed()
        return int(self.rows.numbers.view()[needed[0]]) if len(needed) else self.rows.next_number

    @property
    def sparse(self) -> bool:
        """Tell whether what was handed out is to be replaced: fewer than half of it, or not all of it, is needed."""
        out = min(self._written, self._handed_out - self.first_number)
        return self._dropped or 2 * len(self._needed()) < out

    def write_anew(self) -> None:
        """Hand out all rows that are needed the next time: what was written down is of another stage."""
        self._dropped = True

    def fresh_rows(self) -> pa.Table | None:
        """Hand out the rows to be written down that came since the last time; None for none."""
        mask = self.window.durable_rows(self.rows)
        places = np.arange(len(self.rows)) if mask is None else np.flatnonzero(mask)
        places = places[np.searchsorted(self.rows.numbers.view()[places], self._handed_out) :]
        self._handed_out = self.rows.next_number
        self._written += len(places)
        self._fold_at = FOLD_ROWS
        return self._table(places) if len(places) else None

    def needed_rows(self) -> pa.Table:
        """Hand out all rows that are needed, to be written down in place of those handed out before."""
        needed = self._needed()
        self._handed_out, self._written, self._dropped = self.rows.next_number, len(needed), False
        return self._table(needed)

    def counters(self) -> dict[str, int]:
        """Return what there is to know beside the rows."""
        return {"first": self.first_number, "next": self.rows.next_number} | self.window.counters()

    def restore(self, rows: pa.Table, counters: dict[str, int]) -> None:
        """Be, with nothing taken in yet, as the stage that wrote these counters and, among others, its rows."""
        self._handed_out, self._written = counters["next"], rows.num_rows
        if rows.num_rows:
            numbers = column(rows, "_number").to_numpy()
            rows = rows.filter(pa.array((numbers >= counters["first"]) & (numbers < counters["next"])))
        else:
            rows = self._table(NONE)
        self._load(rows, counters["next"])
        self.window.restore(self.rows, rows, counters)

    def _load(self, rows: pa.Table, next_number: int) -> None:
        """Take in rows that were written down; if some are folded, those before them stand for themselves."""
        if COUNTED in rows.column_names:
            self.fold = fold_of(self.spec.types, self.spec.keys, self.spec.aggregates)
        if self.fold is not None:
            each = int(rows[COUNTED].null_count)
            names = [n for n in rows.column_names if n[0] == "_" or n in self.fold.columns]
            parts = [rows.slice(each).select(names)]
            if each:
                parts.insert(0, self.fold.of_table(rows.slice(0, each)).select(names))
            self.rows, rows = self.rows.like(self.fold.columns), pa.concat_tables(parts)
        self.rows.load(rows, next_number)

    def _needed(self) -> Vector:
        mask = self.window.needed_rows(self.rows)
        return np.arange(len(self.rows)) if mask is None else np.flatnonzero(mask)

    def _table(self, places: Vector) -> pa.Table:
        return pa.table(self.rows.take(places) | self.window.columns(places))
