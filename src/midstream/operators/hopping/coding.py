"""Coding: Arrow values as 64-bit codes that are equal exactly when the values are, and back.

Whole numbers, truth values, dates and times are their own codes, a float is its bits (-0.0 as 0.0, every NaN as one);
strings and decimals are numbered as they are seen, all streams of a query together. NULL is a code of its own.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.kernels.arrays import Floats, Vector
from midstream.kernels.bag import NULL
from midstream.model.errors import SourceError
from midstream.model.types import type_name
from midstream.operators.expression.arrays import numpy_values, validity


class Numbered:
    """Values of one type, each with its number."""

    def __init__(self, t: pa.DataType) -> None:
        self.type = t
        self.values = pa.array([], t)

    def numbers(self, array: pa.Array) -> Vector:
        """Return the number of every value, new numbers for new values; NULL's is any."""
        coded = array.dictionary_encode()
        found = pc.index_in(coded.dictionary, value_set=self.values)
        new = found.is_null()
        if found.null_count:
            fresh = coded.dictionary.filter(new)
            places = np.cumsum(new.to_numpy(zero_copy_only=False)) - 1 + len(self.values)
            found = pc.if_else(new, pa.array(places.astype(np.int32)), found)
            self.values = pa.concat_arrays([self.values, fresh])
        of_dictionary = np.asarray(found.to_numpy(zero_copy_only=False), np.int64)
        places = np.asarray(coded.indices.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
        return of_dictionary[places] if len(of_dictionary) else np.zeros(len(array), np.int64)


class Coding:
    """The codes of a query's values. State: the strings and decimals that were seen."""

    def __init__(self) -> None:
        self._numbered: dict[str, Numbered] = {}

    @property
    def held(self) -> int:
        """Return how many values are numbered."""
        return sum(len(n.values) for n in self._numbered.values())

    @property
    def nbytes(self) -> int:
        """Return the memory of the numbered values."""
        return sum(n.values.nbytes for n in self._numbered.values())

    def encode(self, array: pa.Array, given: str | None = None) -> Vector:
        """Return the codes of an array; what is computed may become NULL, of a `given` column every value has one."""
        t = array.type
        if pa.types.is_null(t):
            return np.full(len(array), NULL, np.int64)
        if is_numbered(t):
            values = self._numbers(t).numbers(array)
        elif pa.types.is_floating(t):
            values = _float_codes(np.ascontiguousarray(numpy_values(array), np.float64))
        else:
            values = numpy_values(array).astype(np.int64)
        valid = validity(array)
        if given is not None and len(values) and ((values == NULL) & (True if valid is None else valid)).any():
            raise SourceError(f"{given} has the least {type_name(t)}, {NULL}, which a hopping query cannot hold")
        return values if valid is None else np.where(valid, values, NULL)

    def decode(self, codes: Vector, t: pa.DataType) -> pa.Array:
        """Return the values of codes as an array of a type."""
        if pa.types.is_null(t):
            return pa.nulls(len(codes))
        null = codes == NULL
        mask = null if null.any() else None
        if is_numbered(t):
            places = pa.array(codes, mask=mask)
            return self._numbers(t).values.take(places)
        if pa.types.is_floating(t):
            return pa.array(codes.view(np.float64).astype(t.to_pandas_dtype()), t, mask=mask)
        if pa.types.is_boolean(t):
            return pa.array(codes.astype(np.bool_), mask=mask)
        if pa.types.is_integer(t):
            return pa.array(codes.astype(t.to_pandas_dtype()), t, mask=mask)
        narrow = codes.astype(np.int32) if t.bit_width == 32 else codes
        return pa.array(narrow, pa.int32() if t.bit_width == 32 else pa.int64(), mask=mask).view(t)

    def ranks(self, codes: Vector, t: pa.DataType) -> Vector:
        """Return numbers in the order of the values, NULL first."""
        if pa.types.is_null(t):
            return codes
        if is_numbered(t):
            order = np.asarray(pc.rank(self.decode(codes, t), tiebreaker="dense").to_numpy(), np.int64)
            return np.where(codes == NULL, 0, order)
        if pa.types.is_floating(t):
            # The bits of negative floats grow the wrong way.
            return np.where((codes < 0) & (codes != NULL), codes ^ np.int64(2**63 - 1), codes)
        return codes

    def _numbers(self, t: pa.DataType) -> Numbered:
        return self._numbered.setdefault(str(t), Numbered(t))


def is_numbered(t: pa.DataType) -> bool:
    """Tell whether values of a type are numbered as they are seen."""
    return bool(pa.types.is_string(t) or pa.types.is_decimal(t))


def _float_codes(values: Floats) -> Vector:
    clean = values + 0.0
    undefined = np.isnan(clean)
    if undefined.any():
        clean[undefined] = np.nan
    return clean.view(np.int64)
