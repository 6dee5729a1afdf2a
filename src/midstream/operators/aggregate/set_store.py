"""Set store: the row sets of the rows of a stage, held flat."""

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Mask, Vector
from midstream.model.row_sets import RowSets, starts_of
from midstream.operators.source.tape import Tape


class SetStore:
    """A row set for each row that a stage holds."""

    def __init__(self) -> None:
        # One more start than rows: the end of the last one.
        self._starts, self._prints = Tape(np.int64), Tape(np.int64)
        self._starts.append(np.zeros(1, np.int64))

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return self._starts.nbytes + self._prints.nbytes

    def view(self) -> RowSets:
        """Return all sets; valid until the next append."""
        return RowSets(self._starts.view() - self._prints.base, self._prints.view())

    def append(self, sets: RowSets | None, count: int) -> None:
        """Add the sets of some rows, which nobody may know."""
        end = int(self._starts.view()[-1])
        self._starts.append(np.full(count, end) if sets is None else sets.starts[1:] + end)
        if sets is not None:
            self._prints.append(sets.prints)

    def drop_front(self, count: int) -> None:
        """Drop the oldest sets."""
        self._starts.drop_front(count)
        self._prints.drop_front(int(self._starts.view()[0]) - self._prints.base)

    def keep(self, mask: Mask) -> None:
        """Drop the sets where the mask is false and number the rest from 0."""
        kept = self.view().where(mask)
        self._starts.reset(kept.starts)
        self._prints.reset(kept.prints)

    def take(self, places: Vector) -> pa.Array:
        """Return the sets at the given places, to be written down."""
        found = self.view().where(places)
        return pa.LargeListArray.from_arrays(pa.array(found.starts), pa.array(found.prints))


def read_sets(lists: pa.Array) -> RowSets:
    """Return sets that were written down."""
    sizes = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return RowSets(starts_of(sizes), lists.flatten().to_numpy())
