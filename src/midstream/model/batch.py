"""Batches: rows that arrive together, and results that leave together."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.model.row_sets import RowSets


@dataclass(frozen=True)
class Arrival:
    """Rows of one alias in arrival order.

    Invariant: `seqs` increases, `times` does not decrease, every array has one value per row.
    """

    times: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    seqs: npt.NDArray[np.int64]
    columns: dict[str, pa.Array]

    def __len__(self) -> int:
        return len(self.seqs)

    def where(self, mask: npt.NDArray[np.bool_]) -> "Arrival":
        """Return the rows for which the mask is true."""
        keep = pa.array(mask)
        columns = {n: a.filter(keep) for n, a in self.columns.items()}
        return Arrival(self.times[mask], self.offsets[mask], self.seqs[mask], columns)

    def between(self, start: int, stop: int) -> "Arrival":
        """Return the rows from start to stop."""
        columns = {n: a.slice(start, stop - start) for n, a in self.columns.items()}
        return Arrival(self.times[start:stop], self.offsets[start:stop], self.seqs[start:stop], columns)


@dataclass(frozen=True)
class Lineage:
    """What each result depends on, as far as a change of the query asks: one number per result in each array.

    `oldest_us` is the time of its oldest row: the result holds a row from before a position when that is below the
    position. `prints` is a fingerprint of the set of its rows: results made of the same rows have the same one.
    """

    oldest_us: npt.NDArray[np.int64]
    prints: npt.NDArray[np.int64]
    valued: npt.NDArray[np.int64] | None = None
    """Fingerprints of the results' values, too, to be compared with those of answers at hops; None: as `prints`."""
    sets: RowSets | None = None
    """The rows one by one, for a window over the results; None: nobody asked."""

    def where(self, keep: npt.NDArray[Any] | slice) -> "Lineage":
        """Return the lines of a mask, of places or of a slice."""
        valued = None if self.valued is None else self.valued[keep]
        return Lineage(
            self.oldest_us[keep], self.prints[keep], valued, None if self.sets is None else self.sets.where(keep)
        )

    def with_values(self) -> "Lineage":
        """Return lines whose fingerprints are also of the values."""
        return self if self.valued is None else Lineage(self.oldest_us, self.valued)


def mixed(offsets: npt.NDArray[np.int64], position: int) -> npt.NDArray[np.uint64]:
    """Return a fingerprint of rows of a stream, such that sums of them tell sets of rows apart."""
    x = offsets.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
        (position + 1) * 0xD1B54A32D192ED03 % 2**64
    )
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), np.uint64)


TRIGGER = 4
"""The first columns of `order`: what made a result leave."""


@dataclass(frozen=True)
class Results:
    """Results in max order.

    `order` has one line per result that places it among the results of other buckets: time, stream, offset and alias of
    its latest row, then time and offset of each component in FROM order; for changes of a difference: time, zeros,
    number, zeros. The result of a window instance has what closed it in front (for an instance of time: T,
    -1, -1, -1), then the four of the latest row in it. `order` and `lineage` are None when nobody asked for them.
    """

    rows: pa.RecordBatch
    order: npt.NDArray[np.int64] | None = None
    lineage: Lineage | None = None

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def where(self, keep: npt.NDArray[np.bool_]) -> "Results":
        """Return the results for which the mask is true."""
        order = None if self.order is None else self.order[keep]
        lineage = None if self.lineage is None else self.lineage.where(keep)
        return Results(self.rows.filter(pa.array(keep)), order, lineage)
