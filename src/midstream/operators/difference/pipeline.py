"""Difference pipeline: one bucket's sources, the chain of differences over them, its changes in the order of events.

arrivals ──▶ sources ──▶ difference chain ──▶ project ──▶ changes: select list, time, sign

State: that of the sources and of the chain, and how many changes have left.
"""

from collections.abc import Iterator
from typing import cast

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Matrix
from midstream.kernels.difference import OUT_ROW, OUT_SIGN, OUT_TIME
from midstream.model.batch import TRIGGER, Arrival, Results
from midstream.operators.contract.execution import Execution
from midstream.operators.contract.pipeline import Pipeline
from midstream.operators.expression.arrays import GROWTH, most_text, text_pieces
from midstream.operators.expression.evaluate import evaluate_all, read_texts
from midstream.operators.source.sources import Sources
from midstream.plan.expr import Expr


class DifferencePipeline(Pipeline):
    """The operators of a chain of differences; there is one bucket."""

    def __init__(
        self, sources: Sources, execution: Execution, outputs: list[tuple[str, Expr]], one_of_many: bool
    ) -> None:
        super().__init__(sources, execution, outputs, one_of_many)
        self.left = 0
        """How many changes have left."""

    def on_rows(self, arrivals: dict[str, Arrival], now_us: int, seq: int) -> list[Results]:
        """Take in the rows of one slice and return the changes: theirs, and those of rows that expire before them."""
        changes = self.execution.on_rows(self.sources.take_in(arrivals), now_us, seq)
        results = [self.project(changes[piece]) for piece in self._short(changes)]
        # Only now: a change may show a row that has left its window. And only up to the last row: what expires
        # later has not left yet.
        last = max(((int(a.seqs[-1]), int(a.times[-1])) for a in arrivals.values() if len(a)), default=None)
        if last is not None:
            for change in self.sources.expire(last[1], last[0]):
                self.execution.renumber(change)
        return results

    def _short(self, changes: Matrix) -> Iterator[slice]:
        """Yield pieces of changes whose texts are not too long."""
        store = self.sources.scans[self.execution.components[0]].store
        rows = changes[:, OUT_ROW] - store.base
        sizes = [store.columns[c.name].sizes(rows) for c in read_texts(expr for _, expr in self.outputs)]
        return text_pieces(sizes, len(changes), most_text(GROWTH))

    def tick(self, clock_us: int) -> Results:
        """Return nothing: what time alone changes leaves with the next row."""
        return self.project(np.empty((0, max(OUT_ROW, OUT_TIME, OUT_SIGN) + 1), np.int64))

    def succeed(self, before: Pipeline, stages: int) -> None:
        """Go on in place of another pipeline: changes are numbered on."""
        super().succeed(before, stages)
        self.left = cast(DifferencePipeline, before).left

    def trace(self, on: bool = True) -> None:
        """Do nothing: changes of a difference are taken back, so they depend on rows that may not be there."""

    def project(self, results: Matrix, held: bool = False) -> Results:
        """Fetch what is selected from the rows that show each change."""
        store = self.sources.scans[self.execution.components[0]].store
        rows = np.ascontiguousarray(results[:, OUT_ROW])
        arrays = evaluate_all([expr for _, expr in self.outputs], len(rows), lambda c: store.take(c.name, rows))
        arrays += [pa.array(np.ascontiguousarray(results[:, column])) for column in (OUT_TIME, OUT_SIGN)]
        batch = pa.RecordBatch.from_arrays(arrays, names=[*(name for name, _ in self.outputs), "_time", "_sign"])
        order = self._order(results[:, OUT_TIME]) if self.ordered else None
        self.left += len(rows)
        return Results(batch, order)

    def _order(self, times: Matrix) -> Matrix:
        """Return where each change stands among those of all buckets: by its time, then its number."""
        order = np.zeros((len(times), self.order_width), np.int64)
        order[:, 0] = times
        order[:, TRIGGER] = np.arange(self.left, self.left + len(times))
        return order

    def expires_upto_us(self, last_row_us: int | None, clock_us: int) -> int | None:
        """Return the time of the last row: changes that time alone brings wait for the next one, and show rows."""
        return last_row_us
