"""Output: what a bucket emits in one micro-batch, and the form in which results are kept or sent as tables.

Results of a bucket say where they stand among those of other buckets; where buckets meet they are put in order.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.engine.rows.mail import Message
from midstream.model.batch import TRIGGER, Lineage, Results

ORDER, OLDEST, PRINT, VERSION = "_order", "_oldest", "_print", "_version"
"""Columns of results on their way: their place, the time of their oldest row, a fingerprint of their rows."""


@dataclass(frozen=True)
class Leaving:
    """Results of one version that leave together.

    `version` is negative for a reference: the version as it would run had it started at once, only to be counted.
    """

    version: int
    results: Results
    held_until_us: int | None = None
    """They were held back and leave at this time, before what leaves on its own then."""
    hop_us: int | None = None
    """The hop they answer, of a query that hops."""

    @property
    def left_us(self) -> int:
        """Return the time of what made the last of them leave."""
        order = self.results.order
        return int(self.results.rows.column("_time")[-1].as_py() if order is None else order[-1, 0])

    def place(self) -> npt.NDArray[np.int64] | None:
        """Return where each result stands among those of other buckets: when it leaves, held back or not, its order."""
        order = self.results.order
        if order is None:
            return None
        if self.held_until_us is not None:
            left, rank = np.full(len(order), self.held_until_us, np.int64), 0
        else:
            left = order[:, 0]
            rank = 1
        return np.column_stack([left, np.full(len(order), rank, np.int64), order])


@dataclass
class BucketOutput:
    """What one bucket emits in one micro-batch."""

    bucket: int
    leaving: list[Leaving] = field(default_factory=list)
    late: list[pa.Table] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)
    """Plain values: counts, plan, phase, what began, which drains are over."""
    mail: list[Message] = field(default_factory=list)
    """Messages to buckets, which read them in the next micro-batch."""


def to_table(results: Results) -> pa.Table:
    """Return results as one table, with what else they say of themselves as further columns."""
    table = pa.Table.from_batches([results.rows])
    if results.order is not None:
        table = table.append_column(ORDER, lists(results.order))
    if results.lineage is not None:
        table = table.append_column(OLDEST, pa.array(np.ascontiguousarray(results.lineage.oldest_us)))
        table = table.append_column(PRINT, pa.array(np.ascontiguousarray(results.lineage.prints)))
    return table


def of_table(table: pa.Table) -> Results:
    """Return the results of a table that `to_table` made."""
    table = table.combine_chunks()
    order = None
    if ORDER in table.column_names:
        values = table.column(ORDER).combine_chunks()
        flat = values.values if isinstance(values, pa.FixedSizeListArray) else values.flatten()
        order = flat.to_numpy().reshape(table.num_rows, -1) if table.num_rows else np.empty((0, TRIGGER), np.int64)
    lineage = None
    if OLDEST in table.column_names:
        lineage = Lineage(table.column(OLDEST).to_numpy(), table.column(PRINT).to_numpy())
    kept = table.drop_columns([n for n in table.column_names if n in (ORDER, OLDEST, PRINT)])
    batches = kept.to_batches()
    return Results(batches[0] if batches else pa.RecordBatch.from_pylist([], kept.schema), order, lineage)


def lists(matrix: npt.NDArray[np.int64]) -> pa.Array:
    """Return the lines of a matrix as an array of lists."""
    count, width = matrix.shape
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * width)
    return pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(matrix).reshape(-1)))


def hop_results(rows: pa.RecordBatch, hop_us: int, first: int = 0) -> Results:
    """Return the answer at a hop, or what is left of it from a row on, with its place among what leaves.

    It leaves when time has come there, before any row.
    """
    order = np.full((rows.num_rows, TRIGGER + 1), -1, np.int64)
    order[:, 0], order[:, TRIGGER] = hop_us, np.arange(first, first + rows.num_rows)
    return Results(rows, order)
