"""Blobs: rows as Arrow IPC bytes, the form in which they cross Spark and lie in its state store."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.engine.numbering import AliasRows

TIME, OFFSET = "_time", "_offset"


def to_blob(table: pa.Table | pa.RecordBatch) -> bytes:
    """Write rows as Arrow IPC."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return bytes(sink.getvalue().to_pybytes())


def from_blob(blob: bytes) -> pa.Table:
    """Read rows back."""
    return pa.ipc.open_stream(blob).read_all()


@dataclass(frozen=True)
class Rows:
    """Rows of one alias with their event times and offsets, as one table."""

    table: pa.Table

    @staticmethod
    def of(times: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], columns: dict[str, pa.Array]) -> "Rows":
        """Put times, offsets and columns together."""
        # Columns may be named like ours, so they go by number.
        numbered = {f"c{k}": array for k, array in enumerate(columns.values())}
        return Rows(pa.table({TIME: times, OFFSET: offsets, **numbered}))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """Return the event times."""
        return np.asarray(self.table.column(TIME).to_numpy())

    def where(self, mask: npt.NDArray[np.bool_]) -> "Rows":
        """Return the rows for which the mask is true."""
        return Rows(self.table.filter(pa.array(mask)))

    def alias_rows(self, names: tuple[str, ...]) -> AliasRows:
        """Return the rows as the numbering takes them, with the names of their columns."""
        whole = self.table.combine_chunks()
        columns = {name: _array(whole.column(f"c{k}")) for k, name in enumerate(names)}
        offsets = np.array(whole.column(OFFSET).to_numpy(), np.int64)
        return AliasRows(np.array(whole.column(TIME).to_numpy(), np.int64), offsets, columns)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def in_order(parts: list[Rows]) -> Rows:
    """Put rows together, sorted by time; among equal times in the order given."""
    table = pa.concat_tables([p.table for p in parts])
    times = table.column(TIME).to_numpy()
    if len(times) and (times[1:] < times[:-1]).any():
        table = table.take(pa.array(np.argsort(times, kind="stable")))
    return Rows(table)
