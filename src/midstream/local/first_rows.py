"""The first rows of recorded streams: what statistics are gathered from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.engine.rows.rows import in_order
from midstream.local.sources import RecordedStream
from midstream.plan.expr import Column

FIRST_ROWS = 200_000
"""Rows of each stream that are read."""


@dataclass(frozen=True)
class FirstRows:
    """Rows of a stream in order of time."""

    times: npt.NDArray[np.int64]
    columns: pa.Table

    def __len__(self) -> int:
        return len(self.times)

    @property
    def per_s(self) -> float:
        """Return how many rows come in a second of event time."""
        return len(self) / max((int(self.times[-1]) - int(self.times[0])) / 1e6, 1e-6) if len(self) else 0.0

    def first(self, count: int) -> "FirstRows":
        """Return so many rows from the front."""
        return FirstRows(self.times[:count], self.columns.slice(0, count))

    def last(self, count: int) -> "FirstRows":
        """Return so many rows from the end."""
        first = max(0, len(self) - count)
        return FirstRows(self.times[first:], self.columns.slice(first))

    def take(self, places: npt.NDArray[np.int64]) -> "FirstRows":
        """Return the rows at places."""
        return FirstRows(self.times[places], self.columns.take(pa.array(places)))

    def column(self, wanted: Column) -> pa.Array:
        """Return the values of a column."""
        return self.columns.column(wanted.name).combine_chunks()


def read_first(stream: RecordedStream, names: Sequence[str]) -> FirstRows:
    """Read the first rows of a stream with the given columns."""
    parts, seen = [stream.empty(names)], 0
    for chunk in stream.chunks(names):
        parts.append(chunk)
        seen += len(chunk)
        if seen >= FIRST_ROWS:
            break
    rows = in_order(parts)
    return FirstRows(rows.times, pa.table(rows.columns or {"": pa.nulls(len(rows))}))
