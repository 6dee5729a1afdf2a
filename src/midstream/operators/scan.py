"""Scan: take in a source's rows, keep them while their window does, and hand them to the join above.

    arriving rows ──▶ window ──▶ select ──▶ row store ──▶ batch of entries

State: the row store, and for a counted window what is in it. Rows the filters drop still count in a counted window.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.kernels.entries import DEADLINE, KEY, LATEST, ROWS, TIME
from midstream.model.batch import Arrival
from midstream.model.time import FOREVER_US
from midstream.operators.arrays import Arrays, inside, under
from midstream.operators.codes import Codes, code, code_together, partition_codes
from midstream.operators.evaluate import evaluate, truth
from midstream.operators.row_store import RowStore
from midstream.operators.window import (
    CountedWindowState,
    EvictionTable,
    PartitionedRowsWindowState,
    RowsWindowState,
)
from midstream.plan.expr import Column, Expr, cast_to
from midstream.plan.window import RangeWindow, Window

Matrix = npt.NDArray[np.int64]
Entry = tuple[Expr, pa.DataType]
"""What a code is made of: an expression and the type it is compared as."""


@dataclass(frozen=True)
class ScanSpec:
    """What a scan does, without what it remembers."""

    alias: str
    position: int
    """The stream's place in declaration order."""
    window: Window | None
    filters: tuple[Expr, ...]
    columns: dict[str, pa.DataType]
    """Columns results need; others are let go at once."""
    keys: tuple[Entry, ...]
    """The key of the join above; several are hashed together."""
    values: tuple[Entry, ...]
    """What the join above compares, in the order of its comparisons."""
    stored: tuple[Entry, ...]
    """Codes that joins further up need."""
    line: int
    """The source's line in the eviction table, or -1."""
    keep_offsets: bool
    """Keep offsets, to merge results of several buckets."""


class Scan:
    """The rows of one source, from arrival to the last result they can be part of."""

    def __init__(self, spec: ScanSpec, evictions: EvictionTable) -> None:
        self.spec = spec
        self.evictions = evictions
        self.store = RowStore(spec.columns, len(spec.stored), spec.keep_offsets)
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

    def on_rows(self, arrival: Arrival) -> Matrix:
        """Take in rows and return them as a batch of entries, without those that can match nothing above."""
        passed = self._select(arrival)
        selected = arrival if passed is None else arrival.where(passed)
        first = self.store.end
        if self.window is not None:
            self._push_out(arrival, passed, first, len(selected))
        memo: dict[Entry, Codes] = {}
        stored = [self._code(entry, selected, memo) for entry in self.spec.stored]
        self.store.append(selected.times, selected.offsets, selected.columns, stored)
        return self._batch(selected, first, memo)

    def _select(self, arrival: Arrival) -> npt.NDArray[np.bool_] | None:
        passed = None
        for condition in self.spec.filters:
            mask = truth(condition, len(arrival), _columns(arrival))
            passed = mask if passed is None else passed & mask
        return None if passed is None or passed.all() else passed

    def _push_out(self, arrival: Arrival, passed: npt.NDArray[np.bool_] | None, first: int, count: int) -> None:
        assert self.window is not None
        self.evictions.add(self.spec.line, count, self.store.base)
        numbers = np.arange(first, first + count, dtype=np.int64)
        if passed is not None:
            rows = np.full(len(arrival), -1, np.int64)
            rows[passed] = numbers
            numbers = rows
        self.evictions.mark(self.spec.line, self.window.push(numbers, self._partition_keys(arrival)), arrival.seqs)

    def _partition_keys(self, arrival: Arrival) -> Matrix:
        window = self.spec.window
        if window is None or isinstance(window, RangeWindow) or not window.partition_by:
            return np.empty((len(arrival), 2), np.int64)
        return partition_codes([arrival.columns[c.name] for c in window.partition_by])

    def _code(self, entry: Entry, arrival: Arrival, memo: dict[Entry, Codes]) -> Codes:
        if entry not in memo:
            expr, compared = entry
            memo[entry] = code(evaluate(cast_to(expr, compared), len(arrival), _columns(arrival)))
        return memo[entry]

    def _batch(self, rows: Arrival, first: int, memo: dict[Entry, Codes]) -> Matrix:
        spec = self.spec
        batch = np.empty((len(rows), ROWS + 1 + len(spec.values)), np.int64)
        keys = [self._code(entry, rows, memo) for entry in spec.keys]
        values = [self._code(entry, rows, memo) for entry in spec.values]
        if not keys:
            batch[:, KEY] = 0
        elif len(keys) == 1:
            batch[:, KEY] = keys[0].values
        else:
            batch[:, KEY] = code_together(keys).values
        batch[:, LATEST] = rows.seqs
        batch[:, DEADLINE] = FOREVER_US
        if isinstance(spec.window, RangeWindow):
            np.add(rows.times, spec.window.width_us, out=batch[:, DEADLINE])
        batch[:, TIME] = rows.times
        batch[:, ROWS] = np.arange(first, first + len(rows))
        for k, codes in enumerate(values):
            batch[:, ROWS + 1 + k] = codes.values
        masks = [c.valid for c in (*keys, *values) if c.valid is not None]
        return batch[np.logical_and.reduce(masks)] if masks else batch

    def expire(self, now_us: int, seq: int) -> npt.NDArray[np.int64] | None:
        """Let go of rows that cannot join a row at or after `now_us`; `seq` is the last number that has arrived.

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

    def _drop_middle(self, seq: int) -> npt.NDArray[np.int64] | None:
        assert self.window is not None
        if not self.evictions.mostly_dead(self.spec.line):
            return None
        alive = self.evictions.view(self.spec.line) > seq
        held = self.evictions.view(self.spec.line)[alive].copy()
        places = self.store.keep(alive)
        self.window.renumber(places, 0)
        self.evictions.reset(self.spec.line, held)
        return places

    def export(self) -> Arrays:
        """Return the arrays of the store and the window."""
        window = inside("window", self.window.export()) if self.window is not None else {}
        return inside("rows", self.store.export()) | window

    def load(self, arrays: Arrays) -> None:
        """Take over what another scan of the same source exported."""
        self.store.load(under(arrays, "rows"))
        if self.window is not None:
            self.window.load(under(arrays, "window"))


def _columns(arrival: Arrival) -> Callable[[Column], pa.Array]:
    return lambda column: arrival.columns[column.name]
