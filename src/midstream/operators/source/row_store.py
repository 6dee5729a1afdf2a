"""Row store: the rows of one source that can still take part in results, by row number.

arriving rows ──▶ append ──▶ columns, times, sequence numbers, codes ──▶ taken when a result needs them
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Mask, Vector
from midstream.operators.expression.codes import Codes
from midstream.operators.source.column_store import ColumnStore
from midstream.operators.source.tape import Tape


class Part(Protocol):
    """What holds something of rows, in their order."""

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""

    def drop_front(self, count: int) -> None:
        """Drop the oldest rows."""

    def keep(self, mask: Mask) -> None:
        """Drop the rows where the mask is false and number the rest from 0."""


class TapedRows(ABC):
    """Rows in tapes and columns that all hold the same ones."""

    @abstractmethod
    def parts(self) -> Sequence[Part]:
        """Return all that holds something of the rows."""

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        return sum(part.nbytes for part in self.parts())

    def drop_front(self, count: int) -> None:
        """Drop the oldest rows."""
        if count:
            for part in self.parts():
                part.drop_front(count)

    def keep(self, mask: Mask) -> None:
        """Drop the rows where the mask is false and number the rest from 0."""
        for part in self.parts():
            part.keep(mask)


class RowStore(TapedRows):
    """Rows numbered from 0 in arrival order.

    Offsets are kept only where results of several buckets must be merged. Invariant: all tapes hold the
    same rows, the first of them numbered `base`.
    """

    def __init__(self, columns: dict[str, pa.DataType], code_count: int, keep_offsets: bool) -> None:
        self.columns = {name: ColumnStore(t) for name, t in columns.items()}
        self.times = Tape(np.int64)
        self.offsets = Tape(np.int64) if keep_offsets else None
        self.codes = [ColumnStore(pa.int64()) for _ in range(code_count)]

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

    def append(self, times: Vector, offsets: Vector, columns: dict[str, pa.Array], codes: list[Codes]) -> None:
        """Add rows at the end."""
        for name, store in self.columns.items():
            store.append(columns[name])
        for coded, part in zip(self.codes, codes, strict=True):
            coded.append_values(part.values, part.valid)
        self.times.append(times)
        if self.offsets is not None:
            self.offsets.append(offsets)

    def take(self, column: str, rows: Vector) -> pa.Array:
        """Return a column of the given rows."""
        return self.columns[column].take(rows - self.base)

    def parts(self) -> Sequence[Tape | ColumnStore]:
        """Return times, columns, codes and, where there are any, offsets."""
        offsets = [] if self.offsets is None else [self.offsets]
        return [self.times, *offsets, *self.columns.values(), *self.codes]


class Holder(Protocol):
    """Whoever has a row store."""

    store: RowStore
