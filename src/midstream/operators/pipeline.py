"""Pipeline: one bucket's operators and their states, from arriving rows to results in max order.

arrivals ──▶ scans ──▶ joins, inputs before outputs ──▶ ties in FROM order ──▶ project ──▶ results
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.kernels.entries import ROWS, TIME
from midstream.kernels.join import order_ties
from midstream.model.batch import Arrival, Results
from midstream.operators.arrays import Arrays, inside, under
from midstream.operators.evaluate import evaluate
from midstream.operators.feed import Feed
from midstream.operators.join import Join
from midstream.operators.scan import Scan
from midstream.operators.window import EvictionTable
from midstream.plan.expr import Column, Expr

Matrix = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """A join of the tree and where its inputs come from: an alias, or an earlier step and how its results are fed."""

    join: Join
    left: "str | tuple[int, Feed]"
    right: "str | tuple[int, Feed]"


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
    """The operators of one plan in one bucket.

    Invariant: after every call, states hold all rows seen so far that a later row can still match.
    """

    def __init__(
        self,
        scans: dict[str, Scan],
        steps: list[Step],
        evictions: EvictionTable,
        components: tuple[str, ...],
        outputs: list[tuple[str, Expr]],
        never: bool,
    ) -> None:
        self.scans = scans
        self.steps = steps
        self.evictions = evictions
        self.components = components
        """Aliases in the order of a result's row numbers."""
        self.outputs = outputs
        self.never = never
        """A constant condition is not true: there are no results."""
        self._ties = np.array([ROWS + components.index(a) for a in scans], np.int64)

    @property
    def predicate_evaluations(self) -> int:
        """Return how many pairs the joins have tested so far."""
        return sum(s.join.predicate_evaluations for s in self.steps)

    def size(self) -> StateSize:
        """Return what the states hold now, rows whose end has not been noticed yet included."""
        states = [s for step in self.steps for s in (step.join.left, step.join.right)]
        indexes = [step.join.index for step in self.steps]
        held = sum(s.nbytes for s in states) + sum(i.nbytes for i in indexes) + self.evictions.nbytes
        return StateSize(sum(s.count for s in states), held + sum(s.nbytes for s in self.scans.values()))

    def on_rows(self, arrivals: dict[str, Arrival], now_us: int, seq: int, ordered: bool = False) -> Results:
        """Take in the rows of one slice and return the results they complete.

        `now_us` is the time of the slice's first row and `seq` the last sequence number before it. With `ordered`
        the results say their place among those of other buckets.
        """
        if self.never:
            return self._project(np.empty((0, ROWS + len(self.components)), np.int64), ordered)
        self._expire(now_us, seq)
        batches = {alias: scan.on_rows(arrivals[alias]) for alias, scan in self.scans.items()}
        joined: list[Matrix] = []
        for step in self.steps:
            left = self._input(step.left, batches, joined)
            right = self._input(step.right, batches, joined)
            joined.append(step.join.on_batches(left, right, now_us, seq))
        results = joined[-1] if joined else batches[self.components[0]]
        if joined:
            order_ties(results, self._ties)
        return self._project(results, ordered)

    @staticmethod
    def _input(source: "str | tuple[int, Feed]", batches: dict[str, Matrix], joined: list[Matrix]) -> Matrix:
        if isinstance(source, str):
            return batches[source]
        place, feed = source
        return feed.prepare(joined[place])

    def _expire(self, now_us: int, seq: int) -> None:
        for alias, scan in self.scans.items():
            base = scan.store.base
            places = scan.expire(now_us, seq)
            if places is not None:
                for step in self.steps:
                    step.join.left.renumber(alias, places, base)
                    step.join.right.renumber(alias, places, base)

    def _project(self, results: Matrix, ordered: bool) -> Results:
        columns = lookup(self.components, results, self.scans)
        arrays = [evaluate(expr, len(results), columns) for _, expr in self.outputs]
        arrays.append(pa.array(np.ascontiguousarray(results[:, TIME])))
        names = [name for name, _ in self.outputs]
        rows = pa.RecordBatch.from_arrays(arrays, names=[*names, "_time"])
        return Results(rows, self._order(results) if ordered else None)

    def _order(self, results: Matrix) -> Matrix:
        """Return where each result stands among those of all buckets; see Results."""
        order = np.empty((len(results), 4 + 2 * len(self.scans)), np.int64)
        order[:, 0] = results[:, TIME]
        order[:, 1:4] = -1
        places = {}
        for rank, (alias, scan) in enumerate(self.scans.items()):
            assert scan.store.offsets is not None, "built without offsets"
            at = results[:, ROWS + self.components.index(alias)] - scan.store.base
            times, offsets = scan.store.times.view()[at], scan.store.offsets.view()[at]
            order[:, 4 + 2 * rank], order[:, 5 + 2 * rank] = times, offsets
            places[alias] = (scan.spec.position, rank, times, offsets)
        # The latest row is the last of those with the result's time: by stream, then offset, then alias.
        for position, rank, times, offsets in sorted(places.values(), key=lambda p: p[:2]):
            later = (order[:, 1] < position) | (order[:, 2] <= offsets)
            latest = (times == order[:, 0]) & later
            order[latest, 1], order[latest, 2], order[latest, 3] = position, offsets[latest], rank
        return order

    def export(self) -> Arrays:
        """Return the arrays of every state: the arrays themselves, not copies."""
        out = inside("evictions", self.evictions.export())
        for alias, scan in self.scans.items():
            out |= inside(f"scan.{alias}", scan.export())
        for k, step in enumerate(self.steps):
            out |= inside(f"join.{k}", step.join.export())
        return out

    def load(self, arrays: Arrays) -> None:
        """Take over what another pipeline of the same plan exported."""
        self.evictions.load(under(arrays, "evictions"))
        for alias, scan in self.scans.items():
            scan.load(under(arrays, f"scan.{alias}"))
        for k, step in enumerate(self.steps):
            step.join.load(under(arrays, f"join.{k}"))


def lookup(components: tuple[str, ...], results: Matrix, scans: dict[str, Scan]) -> Callable[[Column], pa.Array]:
    """Return a function from a column to its values in the rows of each result, each fetched once."""
    fetched: dict[Column, pa.Array] = {}

    def values(column: Column) -> pa.Array:
        if column not in fetched:
            rows = results[:, ROWS + components.index(column.alias)]
            fetched[column] = scans[column.alias].store.take(column.name, rows)
        return fetched[column]

    return values
