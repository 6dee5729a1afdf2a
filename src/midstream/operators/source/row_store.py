"""Row store: the rows of one source that can still take part in results, by row number.

arriving rows ──▶ append ──▶ columns, times, sequence numbers, codes ──▶ taken when a result needs them
"""

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Mask, Vector
from midstream.operators.expression.codes import Codes
from midstream.operators.source.column_store import ColumnStore
from midstream.operators.source.tape import Tape


class RowStore:
    """Rows numbered from 0 in arrival order.

    Offsets are kept only where results of several buckets must be merged. Invariant: all tapes hold the
    same rows, the first of them numbered `base`.
    """

    def __init__(self, columns: dict[str, pa.DataType], code_count: int, keep_offsets: bool) -> None:
        self.columns = {name: ColumnStore(t) for name, t in columns.items()}
        self.times = Tape(np.int64)
        self.offsets = Tape(np.int64) if keep_offsets else None
        self.codes = [Tape(np.int64) for _ in range(code_count)]
        self.code_valid: list[Tape | None] = [None] * code_count

    def __len__(self) -> int:
        return len(self.times)

    @property
    def base(self) -> int:
        """Return the number of the oldest row held."""
        return self.times.base

    @property
    def end(self) -> int:
        """Return the number the next row will get."""
        return self.times.base + len(self.times)

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return sum(part.nbytes for part in self._named().values())

    def append(self, times: Vector, offsets: Vector, columns: dict[str, pa.Array], codes: list[Codes]) -> None:
        """Add rows at the end."""
        before = len(self)
        for name, store in self.columns.items():
            store.append(columns[name])
        for k, part in enumerate(codes):
            valid = self.code_valid[k]
            if part.valid is not None and valid is None:
                valid = self.code_valid[k] = Tape(np.bool_)
                valid.reset(np.ones(before, np.bool_), self.base)
            if valid is not None:
                valid.append(np.ones(len(times), np.bool_) if part.valid is None else part.valid)
            self.codes[k].append(part.values)
        self.times.append(times)
        if self.offsets is not None:
            self.offsets.append(offsets)

    def drop_front(self, count: int) -> None:
        """Drop the oldest rows."""
        if count:
            for part in self._named().values():
                part.drop_front(count)

    def keep(self, mask: Mask) -> Vector:
        """Drop the rows where the mask is false and number the rest from 0.

        Return the new number of each row held before, -1 for those gone.
        """
        places = np.where(mask, np.cumsum(mask) - 1, -1).astype(np.int64)
        for part in self._named().values():
            part.keep(mask)
        return places

    def take(self, column: str, rows: Vector) -> pa.Array:
        """Return a column of the given rows."""
        return self.columns[column].take(rows - self.base)

    def _named(self) -> dict[str, Tape | ColumnStore]:
        parts: dict[str, Tape | ColumnStore] = {"times": self.times}
        parts |= {f"column.{name}": store for name, store in self.columns.items()}
        parts |= {f"code.{k}": tape for k, tape in enumerate(self.codes)}
        parts |= {f"valid.{k}": tape for k, tape in enumerate(self.code_valid) if tape is not None}
        return parts | ({"offsets": self.offsets} if self.offsets is not None else {})
