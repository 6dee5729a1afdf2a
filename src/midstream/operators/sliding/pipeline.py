"""Join pipeline: sources, the execution that joins them, the results in max order, windows over them.

arrivals ──▶ sources ──▶ execution (a join tree, or a migration from one to another) ──▶ ties ──▶ project ──▶ results
                                                                       windows over them: stage ──▶ stage ──▶ results
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.entries import LATEST, ROWS, TIME
from midstream.kernels.join import order_ties
from midstream.model.batch import TRIGGER, Arrival, Lineage, Results, mixed
from midstream.model.row_sets import RowSets
from midstream.operators.aggregate.set_store import SetStore
from midstream.operators.aggregate.stage import WindowStage
from midstream.operators.contract.execution import Execution
from midstream.operators.contract.pipeline import Pipeline
from midstream.operators.expression.arrays import GROWTH, most_text, text_pieces
from midstream.operators.expression.evaluate import evaluate_all, read_texts
from midstream.operators.source.row_store import Holder
from midstream.operators.source.sources import Sources
from midstream.plan.expr import Column, Expr


class JoinPipeline(Pipeline):
    """The operators of a query whose results are combinations of rows, or aggregates over them."""

    def __init__(
        self,
        sources: Sources,
        execution: Execution,
        outputs: list[tuple[str, Expr]],
        never: bool,
        one_of_many: bool,
        stages: Sequence[WindowStage] = (),
    ) -> None:
        super().__init__(sources, execution, outputs, one_of_many, stages)
        self.never = never
        """A constant condition is not true: there are no results."""
        self._feeds_windows = len(stages) > 0
        self._texts = read_texts(expr for _, expr in outputs)
        self._tracing = False
        """A change asks when rows leave their windows."""
        self.traced = self._feeds_windows
        """Results have their lineage."""
        for last in self.stages[-1:]:
            last.traced = False
        for k, stage in enumerate(self.stages):
            stage.below_windows = k + 1 < len(self.stages)
            if k or len(sources.scans) > 1:
                stage.rows.sets = SetStore()

    def on_rows(self, arrivals: dict[str, Arrival], now_us: int, seq: int) -> list[Results]:
        """Take in the rows of one slice and return the results they complete; those of windows as they are found."""
        clock_us = max((int(a.times[-1]) for a in arrivals.values() if len(a)), default=now_us)
        out: list[Results] = []
        piece: Results | None = None
        for following in self._join(arrivals, now_us, seq):
            if piece is not None:
                out.append(self._through_stages(piece, piece.rows.column("_time")[-1].as_py()))
            piece = following
        assert piece is not None, "there is at least one piece"
        out.append(self._through_stages(piece, clock_us))
        return out

    def _join(self, arrivals: dict[str, Arrival], now_us: int, seq: int) -> Iterator[Results]:
        """Yield the results of the joins, at least one piece; between two of them no operator may be asked anything."""
        if self.never:
            yield self._nothing()
            return
        for change in self.sources.expire(now_us, seq):
            self.execution.renumber(change)
        taken = self.sources.take_in(arrivals)
        if self._tracing and len(self.sources.scans) > 1:
            for alias, rows in taken.items():
                self.ends.add(*self.sources.scans[alias].pushed_out(rows))
        for results in self.execution.in_pieces(taken, now_us, seq):
            yield from (self.project(piece) for piece in self._short(results))
        back = self.execution.held_back()
        if back is not None and len(back):
            # Projected at once: the rows it is made of may be gone when it leaves. A change may come before it does.
            self.held += [self.project(piece, held=True) for piece in self._short(back)]

    def _nothing(self) -> Results:
        return self.project(np.empty((0, ROWS + len(self.execution.components)), np.int64))

    def _through_stages(self, results: Results, clock_us: int) -> Results:
        self.clock_us = max(self.clock_us, clock_us)
        for stage in self.stages:
            results = stage.on_results(results, self.clock_us)
            if self._tracing:
                self.ends.add(*stage.closed())
        self._see_drain()
        return results

    def tick(self, clock_us: int) -> Results:
        """Return what time alone brings: the window instances that end by then."""
        return self._through_stages(self._nothing(), clock_us)

    def trace(self, on: bool = True) -> None:
        """Let results have their order and lineage from now on; or not."""
        self.traced = on or self._feeds_windows
        self._tracing = on or self._drain is not None
        for stage in self.stages:
            stage.compared = on
        if self._drain is None:
            # Those below are asked by those above; the last one is asked by a change alone.
            for last in self.stages[-1:]:
                last.traced = on
        self.ordered = self.traced or self.one_of_many

    def expires_upto_us(self, last_row_us: int | None, clock_us: int) -> int | None:
        """Return the clock: what a row can be part of, it is part of when the latest row comes."""
        return clock_us

    def _short(self, results: Matrix) -> Iterator[Matrix]:
        """Bring results of the execution into max order; yield them in pieces whose texts are not too long.

        What windows take in together stays together: results that share their latest row.
        """
        components, scans = self.execution.components, self.sources.scans
        if len(scans) > 1:
            order_ties(results, np.array([ROWS + components.index(a) for a in scans], np.int64))
        at = 0
        for piece in text_pieces(text_sizes(self._texts, components, results, scans), len(results), most_text(GROWTH)):
            stop = piece.stop
            if self.stages and stop < len(results):
                stop = int(np.searchsorted(results[:, LATEST], results[stop, LATEST]))
            if stop > at or not len(results):
                yield results[at:stop]
                at = stop

    def project(self, results: Matrix, held: bool = False) -> Results:
        """Fetch what is selected of results of the execution, which are in max order."""
        components = self.execution.components
        scans = self.sources.scans
        columns = lookup(components, results, scans)
        arrays = evaluate_all([expr for _, expr in self.outputs], len(results), columns)
        arrays.append(pa.array(np.ascontiguousarray(results[:, TIME])))
        names = [name for name, _ in self.outputs]
        rows = pa.RecordBatch.from_arrays(arrays, names=[*names, "_time"])
        if not (self.ordered or held):
            return Results(rows)
        order = self._order(results)
        return Results(rows, order, self._lineage(order) if self.traced or held else None)

    def _lineage(self, order: Matrix) -> Lineage:
        """Return what each result depends on, from the times and offsets of its components."""
        scans = enumerate(self.sources.scans.values())
        prints = [mixed(order[:, 5 + 2 * rank], scan.spec.position) for rank, scan in scans]
        sets = None
        if len(prints) > 1 and any(stage.compared for stage in self.stages):
            lines = np.column_stack(prints).view(np.int64)
            sets = RowSets(np.arange(len(order) + 1) * len(prints), lines.reshape(-1))
        summed = np.zeros(len(order), np.uint64)
        for mine in prints:
            summed += mine
        return Lineage(order[:, 4::2].min(axis=1), summed.view(np.int64), sets=sets)

    def _order(self, results: Matrix) -> Matrix:
        """Return where each result stands among those of all buckets; see Results."""
        scans, components = self.sources.scans, self.execution.components
        order = np.empty((len(results), TRIGGER + 2 * len(scans)), np.int64)
        order[:, 0] = results[:, TIME]
        order[:, 1:TRIGGER] = -1
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


def text_sizes(
    texts: Sequence[Column], components: tuple[str, ...], results: Matrix, scans: Mapping[str, Holder]
) -> list[Vector]:
    """Return how many bytes each of some columns has in the rows of each result."""
    rows = [results[:, ROWS + components.index(c.alias)] - scans[c.alias].store.base for c in texts]
    return [scans[c.alias].store.columns[c.name].sizes(at) for c, at in zip(texts, rows, strict=True)]


def lookup(components: tuple[str, ...], results: Matrix, scans: Mapping[str, Holder]) -> Callable[[Column], pa.Array]:
    """Return a function from a column to its values in the rows of each result, each fetched once."""
    fetched: dict[Column, pa.Array] = {}

    def values(column: Column) -> pa.Array:
        if column not in fetched:
            rows = results[:, ROWS + components.index(column.alias)]
            fetched[column] = scans[column.alias].store.take(column.name, rows)
        return fetched[column]

    return values
