"""Pipeline: one bucket's sources, the execution that joins them, and the results in max order.

arrivals ──▶ sources ──▶ execution (a join tree, or a migration from one to another) ──▶ ties ──▶ project ──▶ results

State: that of the sources and of the execution. A migration replaces the execution; the sources stay.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.kernels.entries import ROWS, TIME
from midstream.kernels.join import order_ties
from midstream.model.batch import Arrival, Results
from midstream.operators.evaluate import evaluate
from midstream.operators.execution import Execution
from midstream.operators.scan import Scan
from midstream.operators.sources import Sources
from midstream.plan.expr import Column, Expr

Matrix = npt.NDArray[np.int64]


@dataclass
class StateSize:
    """What the states hold."""

    tuples: int = 0
    nbytes: int = 0

    def add(self, other: "StateSize") -> None:
        """Count another pipeline's states in."""
        self.tuples += other.tuples
        self.nbytes += other.nbytes


class Pipeline:
    """The operators of one query in one bucket."""

    def __init__(
        self, sources: Sources, execution: Execution, outputs: list[tuple[str, Expr]], never: bool, ordered: bool
    ) -> None:
        self.sources = sources
        self.execution = execution
        self.outputs = outputs
        self.never = never
        """A constant condition is not true: there are no results."""
        self.ordered = ordered
        """Results say their place among those of other buckets."""
        self.held: list[Results] = []
        """Results an execution holds back until it is over."""

    @property
    def predicate_evaluations(self) -> int:
        """Return how many pairs the joins have tested so far."""
        return self.sources.predicate_evaluations

    def size(self) -> StateSize:
        """Return what the states hold now, rows whose end was not noticed yet included; shared states count once."""
        joins = self.execution.joins()
        states = {id(s): s for join in joins for s in join.states}.values()
        held = sum(s.nbytes for s in states) + sum(j.index.nbytes for j in joins)
        return StateSize(sum(s.count for s in states), held + self.sources.nbytes)

    def on_rows(self, arrivals: dict[str, Arrival], now_us: int, seq: int) -> Results:
        """Take in the rows of one slice and return the results they complete.

        `now_us` is the time of the slice's first row and `seq` the last sequence number before it.
        """
        if self.never:
            return self.project(np.empty((0, ROWS + len(self.execution.components)), np.int64))
        for change in self.sources.expire(now_us, seq):
            self.execution.renumber(change)
        results = self.execution.on_rows(self.sources.take_in(arrivals), now_us, seq)
        back = self.execution.held_back()
        if back is not None and len(back):
            # Projected at once: the rows it is made of may be gone when it leaves.
            self.held.append(self.project(back))
        return self.project(results)

    def release(self) -> list[Results]:
        """Return the results that were held back, and forget them."""
        released, self.held = self.held, []
        return released

    def project(self, results: Matrix) -> Results:
        """Bring results of the execution into max order and fetch what is selected."""
        components = self.execution.components
        scans = self.sources.scans
        if len(scans) > 1:
            order_ties(results, np.array([ROWS + components.index(a) for a in scans], np.int64))
        columns = lookup(components, results, scans)
        arrays = [evaluate(expr, len(results), columns) for _, expr in self.outputs]
        arrays.append(pa.array(np.ascontiguousarray(results[:, TIME])))
        names = [name for name, _ in self.outputs]
        rows = pa.RecordBatch.from_arrays(arrays, names=[*names, "_time"])
        return Results(rows, self._order(results) if self.ordered else None)

    def _order(self, results: Matrix) -> Matrix:
        """Return where each result stands among those of all buckets; see Results."""
        scans, components = self.sources.scans, self.execution.components
        order = np.empty((len(results), 4 + 2 * len(scans)), np.int64)
        order[:, 0] = results[:, TIME]
        order[:, 1:4] = -1
        places = {}
        for rank, (alias, scan) in enumerate(scans.items()):
            assert scan.store.offsets is not None, "built without offsets"
            at = results[:, ROWS + components.index(alias)] - scan.store.base
            times, offsets = scan.store.times.view()[at], scan.store.offsets.view()[at]
            order[:, 4 + 2 * rank], order[:, 5 + 2 * rank] = times, offsets
            places[alias] = (scan.spec.position, rank, times, offsets)
        # The latest row is the last of those with the result's time: by stream, then offset, then alias.
        for position, rank, times, offsets in sorted(places.values(), key=lambda p: p[:2]):
            later = (order[:, 1] < position) | (order[:, 2] <= offsets)
            latest = (times == order[:, 0]) & later
            order[latest, 1], order[latest, 2], order[latest, 3] = position, offsets[latest], rank
        return order


def lookup(components: tuple[str, ...], results: Matrix, scans: dict[str, Scan]) -> Callable[[Column], pa.Array]:
    """Return a function from a column to its values in the rows of each result, each fetched once."""
    fetched: dict[Column, pa.Array] = {}

    def values(column: Column) -> pa.Array:
        if column not in fetched:
            rows = results[:, ROWS + components.index(column.alias)]
            fetched[column] = scans[column.alias].store.take(column.name, rows)
        return fetched[column]

    return values
