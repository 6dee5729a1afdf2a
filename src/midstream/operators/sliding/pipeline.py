"""Pipeline: one bucket's sources, the execution that joins them, and the results in max order.

arrivals ──▶ sources ──▶ execution (a join tree, or a migration from one to another) ──▶ ties ──▶ project ──▶ results
                                                                       windows over them: stage ──▶ stage ──▶ results

State: that of the sources, of the execution and of the stages. A migration replaces the execution; the others stay.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.kernels.entries import ROWS, TIME
from midstream.kernels.join import order_ties
from midstream.model.batch import Arrival, Lineage, Results
from midstream.operators.aggregate.stage import WindowStage
from midstream.operators.contract import Execution
from midstream.operators.expression.evaluate import evaluate
from midstream.operators.source.scan import Scan
from midstream.operators.source.sources import Sources
from midstream.plan.expr import Column, Expr
from midstream.plan.window import RangeWindow

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


@dataclass
class Drain:
    """A drain under way: results that hold a row from before the position are still to come, until `over_us`."""

    position_us: int
    over_us: int
    waits: bool = False
    """A counted window of a join held an older row when last asked."""

    def see(self, stage: WindowStage) -> None:
        """Note the window instances with older rows that a stage has just closed."""
        closed = stage.last_closed_us(self.position_us)
        if closed is not None:
            self.over_us = max(self.over_us, closed + (0 if stage.timed else 1))


class Pipeline:
    """The operators of one query in one bucket."""

    def __init__(
        self,
        sources: Sources,
        execution: Execution,
        outputs: list[tuple[str, Expr]],
        never: bool,
        ordered: bool,
        stages: Sequence[WindowStage] = (),
    ) -> None:
        self.sources = sources
        self.execution = execution
        self.outputs = outputs
        self.never = never
        """A constant condition is not true: there are no results."""
        self._one_of_many = ordered
        self.ordered = ordered or bool(stages)
        """Results say their place among those of other buckets."""
        self.stages = list(stages)
        self.traced = bool(stages)
        """Results say what they depend on."""
        self.held: list[Results] = []
        """Results an execution holds back until it is over."""
        self.clock_us = -(2**63)
        """Rows below this time have all been seen."""
        self._drain: Drain | None = None
        if self.stages:
            self.stages[-1].traced = False

    @property
    def predicate_evaluations(self) -> int:
        """Return how many pairs the joins have tested so far."""
        return self.sources.predicate_evaluations

    def size(self) -> StateSize:
        """Return what the states hold now, rows whose end was not noticed yet included; shared states count once."""
        joins = self.execution.joins()
        states = {id(s): s for join in joins for s in join.states}.values()
        held = sum(s.nbytes for s in states) + sum(j.index.nbytes for j in joins) + sum(s.nbytes for s in self.stages)
        return StateSize(sum(s.count for s in states) + sum(s.tuples for s in self.stages), held + self.sources.nbytes)

    def on_rows(self, arrivals: dict[str, Arrival], now_us: int, seq: int, clock_us: int | None = None) -> Results:
        """Take in the rows of one slice and return the results they complete.

        `now_us` is the time of the slice's first row and `seq` the last sequence number before it; rows below
        `clock_us` have all been seen afterwards, here and in other buckets (None: those before the slice's last row).
        """
        if clock_us is None:
            clock_us = max((int(a.times[-1]) for a in arrivals.values() if len(a)), default=now_us)
        return self._through_stages(self._join(arrivals, now_us, seq), clock_us)

    def _join(self, arrivals: dict[str, Arrival], now_us: int, seq: int) -> Results:
        if self.never:
            return self._nothing()
        for change in self.sources.expire(now_us, seq):
            self.execution.renumber(change)
        results = self.execution.on_rows(self.sources.take_in(arrivals), now_us, seq)
        back = self.execution.held_back()
        if back is not None and len(back):
            # Projected at once: the rows it is made of may be gone when it leaves. A change may come before it does.
            self.held.append(self.project(back, held=True))
        return self.project(results)

    def _nothing(self) -> Results:
        return self.project(np.empty((0, ROWS + len(self.execution.components)), np.int64))

    def _through_stages(self, results: Results, clock_us: int) -> Results:
        self.clock_us = max(self.clock_us, clock_us)
        for stage in self.stages:
            results = stage.on_results(results, self.clock_us)
            if self._drain is not None:
                self._drain.see(stage)
        return results

    def tick(self, clock_us: int) -> Results:
        """Return what time alone brings: the window instances that end by then."""
        return self._through_stages(self._nothing(), clock_us)

    def trace(self, on: bool = True) -> None:
        """Let results say from now on where they stand among other versions' and what they depend on; or not."""
        self.traced = on or bool(self.stages)
        if self.stages and not self.drains:
            # Those below are asked by those above; the last one is asked by a change alone.
            self.stages[-1].traced = on
        self.ordered = self.traced or self._one_of_many

    @property
    def drains(self) -> bool:
        """Tell whether somebody watches for the end of what began before a position."""
        return self._drain is not None

    def drain(self, position_us: int) -> None:
        """Watch from now on whether a row from before a position can still be part of a result."""
        self._drain = Drain(position_us, position_us)
        for stage in self.stages:
            stage.traced = True

    def drained_us(self, seq: int) -> int | None:
        """Return from which time on no result holds a row from before the drain's position; None: that may be still.

        `seq` is the last sequence number that has arrived.
        """
        drain = self._drain
        assert drain is not None, "nobody asked for a drain"
        if any(stage.holds_before(drain.position_us) for stage in self.stages):
            return None
        scans = list(self.sources.scans.values())
        for scan in scans if len(scans) > 1 else ():
            window = scan.spec.window
            if isinstance(window, RangeWindow):
                drain.over_us = max(drain.over_us, drain.position_us + window.width_us)
                if self.clock_us < drain.position_us + window.width_us:
                    return None
            elif scan.holds_older_than(drain.position_us, seq):
                drain.waits = True
                return None
        if drain.waits:
            # Exact when rows come one instant at a time.
            drain.waits = False
            drain.over_us = max(drain.over_us, self.clock_us + 1)
        return drain.over_us

    @property
    def counts_rows(self) -> bool:
        """Tell whether a joined window counts rows: when a row leaves it is then a matter of the rows that come."""
        scans = self.sources.scans.values()
        return len(scans) > 1 and any(not isinstance(s.spec.window, RangeWindow) for s in scans)

    def release(self) -> list[Results]:
        """Return the results that were held back, and forget them."""
        released, self.held = self.held, []
        return released

    def project(self, results: Matrix, held: bool = False) -> Results:
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
        if not (self.ordered or held):
            return Results(rows)
        order = self._order(results)
        return Results(rows, order, self._lineage(order) if self.traced or held else None)

    def _lineage(self, order: Matrix) -> Lineage:
        """Return what each result depends on, from the times and offsets of its components."""
        prints = np.zeros(len(order), np.uint64)
        for rank, scan in enumerate(self.sources.scans.values()):
            prints += mixed(order[:, 5 + 2 * rank], scan.spec.position)
        return Lineage(order[:, 4::2].min(axis=1), prints.view(np.int64))

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


def mixed(offsets: Matrix, position: int) -> npt.NDArray[np.uint64]:
    """Return a fingerprint of rows of a stream, such that sums of them tell sets of rows apart."""
    x = offsets.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
        (position + 1) * 0xD1B54A32D192ED03 % 2**64
    )
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), np.uint64)
