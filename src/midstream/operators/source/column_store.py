"""Column stores: the payload of window rows, held flat by row number until a result needs it.

Fixed-width values lie in one array, strings in one run of bytes with offsets; nulls are a second array that exists
only once a null was seen.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.kernels.arrays import Mask, Vector
from midstream.kernels.codes import take_bytes
from midstream.operators.expression.arrays import array_of, byte_runs, numpy_values, text_array, validity
from midstream.operators.source.tape import Tape


class ColumnStore:
    """One column of the rows a source still needs."""

    def __init__(self, declared: pa.DataType) -> None:
        self.type = declared
        self._bytes = bool(pa.types.is_string(declared))
        self._null = bool(pa.types.is_null(declared))
        self._nulls: Tape | None = None
        if self._bytes:
            # One more offset than values: the end of the last one.
            self.offsets, self.data = Tape(np.int64), Tape(np.uint8)
            self.offsets.append(np.zeros(1, np.int64))
        else:
            kind = np.dtype("u1") if self._null else numpy_values(pa.array([], declared)).dtype
            self.values = Tape(kind, 2 if pa.types.is_decimal(declared) else None)

    def __len__(self) -> int:
        return len(self.offsets) - 1 if self._bytes else len(self.values)

    @property
    def nbytes(self) -> int:
        """Return the memory held, used or not."""
        held = self.offsets.nbytes + self.data.nbytes if self._bytes else self.values.nbytes
        return held + (self._nulls.nbytes if self._nulls is not None else 0)

    @property
    def valid(self) -> Mask | None:
        """Return which values are not NULL, or None when none was ever seen."""
        return None if self._nulls is None else self._nulls.view()

    def append(self, array: pa.Array) -> None:
        """Add the values of an array of this column's type."""
        if self._bytes:
            self._note_nulls(validity(array), len(array))
            self._append_bytes(array)
        elif self._null:
            self.values.append(np.zeros(len(array), np.uint8))
        else:
            self.append_values(numpy_values(array), validity(array))

    def append_values(self, values: npt.NDArray[Any], valid: Mask | None) -> None:
        """Add flat values, and which of them are not NULL; None: all."""
        self._note_nulls(valid, len(values))
        self.values.append(values)

    def _note_nulls(self, valid: Mask | None, count: int) -> None:
        if valid is not None and self._nulls is None:
            self._nulls = Tape(np.bool_)
            self._nulls.extend(len(self))[:] = True
        if self._nulls is not None:
            self._nulls.extend(count)[:] = True if valid is None else valid

    def _append_bytes(self, array: pa.Array) -> None:
        if not len(array):
            return
        offsets, data = byte_runs(array)
        first, last = int(offsets[0]), int(offsets[-1])
        self.data.append(data[first:last])
        end = int(self.offsets.view()[-1])
        self.offsets.append(offsets[1:] + (end - first))

    @property
    def is_text(self) -> bool:
        """Tell whether the values are strings."""
        return self._bytes

    def sizes(self, places: Vector) -> Vector:
        """Return how many bytes the strings at the given places have."""
        ends: Vector = self.offsets.view()
        return ends[places + 1] - ends[places]

    def take(self, places: Vector, large: bool = False) -> pa.Array:
        """Return the values at the given places, counted from the oldest row held.

        With `large`, strings that are too long for one array are large strings; else they are refused.
        """
        if self._null:
            return pa.nulls(len(places))
        valid = None if self.valid is None else self.valid[places]
        if self._bytes:
            offsets, data = take_bytes(self.offsets.view(), self.data.view(), self.data.base, places)
            return text_array(offsets, data, valid, large)
        return array_of(self.type, self.values.view()[places], valid)

    def drop_front(self, count: int) -> None:
        """Drop the oldest values."""
        if self._nulls is not None:
            self._nulls.drop_front(count)
        if not self._bytes:
            self.values.drop_front(count)
        elif count:
            self.offsets.drop_front(count)
            self.data.drop_front(int(self.offsets.view()[0]) - self.data.base)

    def keep(self, mask: Mask) -> None:
        """Drop the values where the mask is false and number the rest from 0."""
        if not self._bytes:
            self.values.keep(mask)
        else:
            offsets, data = take_bytes(
                self.offsets.view(), self.data.view(), self.data.base, np.flatnonzero(mask).astype(np.int64)
            )
            self.offsets.reset(offsets)
            self.data.reset(data)
        if self._nulls is not None:
            self._nulls.keep(mask)
