"""Rows: what one alias of a query gets in one bucket, with event times and offsets, in flat arrays."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.operators.expression.arrays import concatenated
from midstream.operators.source.memory import check_room

TIME, OFFSET = "_time", "_offset"
Vector = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Rows of one alias. Invariant: every array has one value per row."""

    times: Vector
    offsets: Vector
    columns: dict[str, pa.Array]

    def __len__(self) -> int:
        return len(self.times)

    def where(self, mask: npt.NDArray[np.bool_]) -> "Rows":
        """Return the rows for which the mask is true."""
        keep = pa.array(mask)
        return Rows(self.times[mask], self.offsets[mask], {n: a.filter(keep) for n, a in self.columns.items()})

    def take(self, places: Vector) -> "Rows":
        """Return the rows at places."""
        where = pa.array(places)
        return Rows(self.times[places], self.offsets[places], {n: a.take(where) for n, a in self.columns.items()})

    def between(self, start: int, stop: int) -> "Rows":
        """Return the rows from start to stop, without copying them."""
        if start == 0 and stop == len(self):
            return self
        columns = {n: a.slice(start, stop - start) for n, a in self.columns.items()}
        return Rows(self.times[start:stop], self.offsets[start:stop], columns)

    def since(self, start_us: int) -> "Rows":
        """Return the rows from a time on; they are in order of time."""
        return self.between(int(np.searchsorted(self.times, start_us)), len(self))

    def moved(self, shift: int) -> "Rows":
        """Return the rows with their offsets moved."""
        return Rows(self.times, self.offsets + shift, self.columns) if shift else self

    def to_table(self) -> pa.Table:
        """Return the rows as one table; columns may be named like ours, so they go by number."""
        numbered = {f"c{k}": array for k, array in enumerate(self.columns.values())}
        return pa.table({TIME: self.times, OFFSET: self.offsets, **numbered})

    @staticmethod
    def of_table(table: pa.Table, names: Sequence[str]) -> "Rows":
        """Return the rows of a table that `to_table` made, with the names of their columns."""
        columns = {name: one_array(table.column(f"c{k}")) for k, name in enumerate(names)}
        offsets = np.array(table.column(OFFSET).to_numpy(), np.int64)
        return Rows(np.array(table.column(TIME).to_numpy(), np.int64), offsets, columns)


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column in one piece."""
    if isinstance(column, pa.Array):
        return column
    return concatenated(column.chunks) if column.num_chunks else column.combine_chunks()


def in_arrival_order(parts: Sequence[Rows]) -> Rows:
    """Put rows together in the order given."""
    if len(parts) > 1:
        parts = [p for p in parts if len(p)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    check_room(sum(column.nbytes for p in parts for column in p.columns.values()), "the rows of a micro-batch")
    columns = {n: concatenated([p.columns[n] for p in parts]) for n in parts[0].columns}
    return Rows(np.concatenate([p.times for p in parts]), np.concatenate([p.offsets for p in parts]), columns)


def in_order(parts: Sequence[Rows]) -> Rows:
    """Put rows together, sorted by time; among equal times in the order given."""
    whole = in_arrival_order(parts)
    times = whole.times
    if len(times) and (times[1:] < times[:-1]).any():
        return whole.take(np.argsort(times, kind="stable"))
    return whole
