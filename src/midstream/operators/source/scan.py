"""Scan: take in a source's rows, keep them while their window does, and hand them to the joins of any plan.

    arriving rows ──▶ window ──▶ select ──▶ row store ──▶ rows taken in ──▶ batch of entries for a join

State: the row store, and for a counted window what is in it. Rows the filters drop still count in a counted window.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.entries import DEADLINE, KEY, LATEST, ROWS, TIME
from midstream.model.batch import Arrival
from midstream.model.time import FOREVER_US
from midstream.operators.expression.codes import Codes, code, code_together, partition_codes
from midstream.operators.expression.evaluate import evaluate, truth_of_all
from midstream.operators.source.row_store import RowStore
from midstream.operators.source.window import (
    CountedWindowState,
    EvictionTable,
    PartitionedRowsWindowState,
    RowsWindowState,
)
from midstream.plan.expr import Column, Expr, cast_to
from midstream.plan.window import RangeWindow, Window

_NONE = np.empty(0, np.int64)
Entry = tuple[Expr, pa.DataType]
"""What a code is made of: an expression and the type it is compared as."""

BLOCK = 4096
"""Rows looked at in one go when one of them is enough."""


@dataclass(frozen=True)
class ScanSpec:
    """What a scan does, without what it remembers."""

    alias: str
    position: int
    """The stream's place in declaration order."""
    window: Window | None
    filters: tuple[Expr, ...]
    columns: dict[str, pa.DataType]
    """Columns results need; others are dropped at once."""
    stored: tuple[Entry, ...]
    """Codes kept by row number, for joins that read results instead of arriving rows."""
    line: int
    """The source's line in the eviction table, or -1."""
    keep_offsets: bool
    """Keep offsets, to merge results of several buckets."""
    watched: tuple[Entry, ...] | None = None
    """Codes kept by row number for statistics alone, after those that are stored; None: nobody makes statistics."""

    @property
    def kept(self) -> tuple[Entry, ...]:
        """Return the codes that are kept by row number."""
        return (*self.stored, *(self.watched or ()))


@dataclass(frozen=True)
class Leaf:
    """What a join needs of a source's arriving rows."""

    alias: str
    keys: tuple[Entry, ...]
    """The key; several are hashed together."""
    values: tuple[Entry, ...]
    """What is compared, in the order of the comparisons."""


class TakenRows:
    """Rows a scan has just taken in: numbered from `first`, to be handed to the joins of one or more plans."""

    def __init__(self, rows: Arrival, first: int, window: Window | None) -> None:
        self.rows = rows
        self.first = first
        self.window = window
        self.arrived = rows
        """All rows that arrived, also those the filters have dropped."""
        self.passed: Mask | None = None
        """Which of them were taken in; None: all."""
        self.pushed: Vector | None = None
        """The row each of them has pushed out of a counted window, or -1."""
        self._codes: dict[Entry, Codes] = {}
        self._batches: dict[Leaf, Matrix] = {}

    def code(self, entry: Entry) -> Codes:
        """Return the codes of an expression, computed once."""
        if entry not in self._codes:
            expr, compared = entry
            values = evaluate(cast_to(expr, compared), len(self.rows), _columns(self.rows))
            self._codes[entry] = code(values)
        return self._codes[entry]

    def batch(self, leaf: Leaf) -> Matrix:
        """Return the rows as entries for a join, without those that can match nothing there; not to be changed."""
        if leaf not in self._batches:
            self._batches[leaf] = self._batch(leaf)
        return self._batches[leaf]

    def between(self, low: int, high: int) -> "TakenRows":
        """Return the rows whose sequence numbers are from `low` on and below `high`."""
        start, stop = (int(n) for n in np.searchsorted(self.rows.seqs, [low, high]))
        return TakenRows(self.rows.between(start, stop), self.first + start, self.window)

    def _batch(self, leaf: Leaf) -> Matrix:
        rows = self.rows
        batch = np.empty((len(rows), ROWS + 1 + len(leaf.values)), np.int64)
        keys = [self.code(entry) for entry in leaf.keys]
        values = [self.code(entry) for entry in leaf.values]
        if not keys:
            batch[:, KEY] = 0
        elif len(keys) == 1:
            batch[:, KEY] = keys[0].values
        else:
            batch[:, KEY] = code_together(keys).values
        batch[:, LATEST] = rows.seqs
        batch[:, DEADLINE] = FOREVER_US
        if isinstance(self.window, RangeWindow):
            np.add(rows.times, self.window.width_us, out=batch[:, DEADLINE])
        batch[:, TIME] = rows.times
        batch[:, ROWS] = np.arange(self.first, self.first + len(rows))
        for k, codes in enumerate(values):
            batch[:, ROWS + 1 + k] = codes.values
        masks = [c.valid for c in (*keys, *values) if c.valid is not None]
        return batch[np.logical_and.reduce(masks)] if masks else batch


class Scan:
    """The rows of one source, from arrival to the last result they can be part of."""

    def __init__(self, spec: ScanSpec, evictions: EvictionTable) -> None:
        self.spec = spec
        self.evictions = evictions
        self.store = RowStore(spec.columns, len(spec.kept), spec.keep_offsets)
        self.window: CountedWindowState | None = None
        if spec.line >= 0 and not isinstance(spec.window, RangeWindow) and spec.window is not None:
            partitioned = bool(spec.window.partition_by)
            self.window = (PartitionedRowsWindowState if partitioned else RowsWindowState)(spec.window.count)

    @property
    def in_order(self) -> bool:
        """Tell whether rows leave the window in the order they came."""
        return self.window is None or self.window.in_order

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        return self.store.nbytes + (self.window.nbytes if self.window else 0)

    def on_rows(self, arrival: Arrival) -> TakenRows:
        """Take in rows and return those the filters let through."""
        passed = self._select(arrival)
        selected = arrival if passed is None else arrival.where(passed)
        taken = TakenRows(selected, self.store.end, self.spec.window)
        taken.arrived, taken.passed = arrival, passed
        if self.window is not None:
            taken.pushed = self._push_out(arrival, passed, taken.first, len(selected))
        stored = [taken.code(entry) for entry in self.spec.kept]
        self.store.append(selected.times, selected.offsets, selected.columns, stored)
        return taken

    def _select(self, arrival: Arrival) -> Mask | None:
        if not self.spec.filters:
            return None
        passed = truth_of_all(self.spec.filters, len(arrival), _columns(arrival))
        return None if passed.all() else passed

    def _push_out(self, arrival: Arrival, passed: Mask | None, first: int, count: int) -> Vector:
        assert self.window is not None
        self.evictions.add(self.spec.line, count, self.store.base)
        numbers = np.arange(first, first + count, dtype=np.int64)
        if passed is not None:
            numbers = spread(numbers, passed, -1)
        pushed = self.window.push(numbers, self._partition_keys(arrival))
        self.evictions.mark(self.spec.line, pushed, arrival.seqs)
        return pushed

    def _partition_keys(self, arrival: Arrival) -> Matrix:
        window = self.spec.window
        if window is None or isinstance(window, RangeWindow) or not window.partition_by:
            return np.empty((len(arrival), 2), np.int64)
        return partition_codes([arrival.columns[c.name] for c in window.partition_by])

    def expire(self, now_us: int, seq: int) -> Vector | None:
        """Drop rows that cannot join a row at or after `now_us`; `seq` is the last number that has arrived.

        Return the new row numbers (by old number less the old base) when rows left from the middle, else None.
        """
        spec = self.spec
        if isinstance(spec.window, RangeWindow):
            dead = int(np.searchsorted(self.store.times.view(), now_us - spec.window.width_us))
            self.store.drop_front(dead)
        elif self.window is None:
            self.store.drop_front(len(self.store))
        elif self.window.in_order:
            start = self.store.base - int(self.evictions.bases[spec.line])
            dead = int(np.searchsorted(self.evictions.view(spec.line)[start:], seq, side="right"))
            self.store.drop_front(dead)
        else:
            return self._drop_middle(seq)
        return None

    def _drop_middle(self, seq: int) -> Vector | None:
        assert self.window is not None
        if not self.evictions.mostly_dead(self.spec.line):
            return None
        alive = self.evictions.view(self.spec.line) > seq
        held = self.evictions.view(self.spec.line)[alive].copy()
        self.store.keep(alive)
        places = np.where(alive, np.cumsum(alive) - 1, -1).astype(np.int64)
        self.window.renumber(places, 0)
        self.evictions.reset(self.spec.line, held)
        return places

    def rows_in_window(self, now_us: int, seq: int) -> Vector:
        """Return the places in the row store of the rows that are in their window at `now_us`, after number `seq`."""
        count, start = len(self.store), 0
        if isinstance(self.spec.window, RangeWindow):
            start = int(np.searchsorted(self.store.times.view(), now_us - self.spec.window.width_us))
        elif self.window is None:
            start = count
        else:
            first = self.store.base - int(self.evictions.bases[self.spec.line])
            return np.flatnonzero(self.evictions.view(self.spec.line)[first : first + count] > seq)
        return np.arange(start, count)

    def pushed_out(self, taken: TakenRows) -> tuple[Vector, Vector]:
        """Return from when on rows are gone that rows just taken in pushed out, and the time of each of them."""
        if taken.pushed is None:
            return _NONE, _NONE
        some = taken.pushed >= self.store.base
        return taken.arrived.times[some] + 1, self.store.times.view()[taken.pushed[some] - self.store.base]

    def oldest_us(self, now_us: int, seq: int) -> int:
        """Return the time of the oldest row that is in its window at `now_us`, after number `seq`; FOREVER for none."""
        times = self.store.times.view()
        if isinstance(self.spec.window, RangeWindow):
            times = times[np.searchsorted(times, now_us - self.spec.window.width_us) :]
        elif self.window is not None:
            start = self.store.base - int(self.evictions.bases[self.spec.line])
            times = times[self.evictions.view(self.spec.line)[start : start + len(times)] > seq]
        else:
            times = times[:0]
        return int(times[0]) if len(times) else FOREVER_US

    def number_at(self, time_us: int) -> int:
        """Return the number of the first row from a time on, be it still to come."""
        return self.store.base + int(np.searchsorted(self.store.times.view(), time_us))

    def holds_older_than(self, time_us: int, seq: int) -> bool:
        """Tell whether a row from before a time is still in its window after number `seq` has arrived."""
        return self.holds_before(self.number_at(time_us), time_us, seq)

    def holds_before(self, number: int, now_us: int, seq: int) -> bool:
        """Tell whether a row numbered below `number` can still be part of a result from `now_us` on.

        `seq` is the last sequence number that has arrived.
        """
        last = number - 1 - self.store.base
        if last < 0 or not len(self.store):
            return False
        if isinstance(self.spec.window, RangeWindow):
            return bool(self.store.times.view()[last] + self.spec.window.width_us >= now_us)
        if self.window is None:
            return False
        start = self.store.base - int(self.evictions.bases[self.spec.line])
        ends = self.evictions.view(self.spec.line)[start : start + last + 1]
        if self.window.in_order:
            return bool(ends[-1] > seq)
        # The newest are the most likely to be there still.
        return any(bool((ends[max(0, n - BLOCK) : n] > seq).any()) for n in range(len(ends), 0, -BLOCK))


def _columns(arrival: Arrival) -> Callable[[Column], pa.Array]:
    return lambda column: arrival.columns[column.name]


def spread(values: Matrix, places: Mask, otherwise: int) -> Matrix:
    """Put values where the mask is true."""
    out = np.full((len(places), *values.shape[1:]), otherwise, np.int64)
    out[places] = values
    return out
