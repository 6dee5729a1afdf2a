"""Coding: Arrow values as 64-bit codes that are equal exactly when the values are, and back.

Strings and decimals are numbered as they are seen, all streams of a query together; other values have the codes that
joins compare, in the order of the values. NULL is a code of its own.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.bag import NULL
from midstream.kernels.codes import floats_of
from midstream.model.errors import SourceError
from midstream.model.types import type_name
from midstream.operators.expression.arrays import array_of, is_text, most_text, numpy_values, text_pieces, validity
from midstream.operators.expression.codes import Codes, code
from midstream.operators.hopping.numbered import Numbered
from midstream.operators.hopping.text_order import text_ranks


class Coding:
    """The codes of a query's values. State: the strings and decimals that were seen."""

    def __init__(self) -> None:
        self._numbered: dict[str, Numbered] = {}

    @property
    def held(self) -> int:
        """Return how many values are numbered."""
        return sum(len(n) for n in self._numbered.values())

    @property
    def nbytes(self) -> int:
        """Return the memory of the numbered values."""
        return sum(n.nbytes for n in self._numbered.values())

    def encode(self, array: pa.Array) -> Vector:
        """Return the codes of an array; a number that has none becomes NULL."""
        t = array.type
        coded = Codes(self._numbers(t).numbers(array), validity(array)) if is_numbered(t) else code(array)
        values, valid = coded.values, coded.valid
        return values if valid is None else np.where(valid, values, NULL)

    def decode(self, codes: Vector, t: pa.DataType, large: bool = False) -> pa.Array:
        """Return the values of codes as an array of a type; with `large` too long strings are large ones."""
        if pa.types.is_null(t):
            return pa.nulls(len(codes))
        null = codes == NULL
        valid = ~null if null.any() else None
        if is_numbered(t):
            return self._numbers(t).values(codes, valid, large)
        values = floats_of(codes) if pa.types.is_floating(t) else codes
        return array_of(t, values.astype(numpy_values(pa.array([], t)).dtype), valid)

    def ranks(self, codes: Vector, t: pa.DataType) -> Vector:
        """Return numbers in the order of the values, NULL first."""
        if is_text(t):
            out, valid = np.zeros(len(codes), np.int64), codes != NULL
            out[valid] = text_ranks(self._numbers(t), codes[valid])
            return out
        if is_numbered(t):
            valid = codes != NULL
            values = self._numbers(t).values(codes, valid, large=True)
            return np.where(valid, np.asarray(pc.rank(values, tiebreaker="dense").to_numpy(), np.int64), 0)
        return codes

    def _numbers(self, t: pa.DataType) -> Numbered:
        t = pa.string() if is_text(t) else t
        if str(t) not in self._numbered:
            self._numbered[str(t)] = Numbered(t)
        return self._numbered[str(t)]

    def pieces(self, rows: Matrix, types: Sequence[pa.DataType], share: int = 1) -> Iterator[slice]:
        """Yield slices of rows of which every column, each of its type, can be decoded, with room for a share."""
        most = most_text(share)
        texts = [k for k, t in enumerate(types) if is_text(t)]
        known = self._numbers(pa.string())
        if not texts or len(rows) * known.longest <= most:
            yield slice(0, len(rows))
        else:
            yield from text_pieces([known.sizes(rows[:, k]) for k in texts], len(rows), most)

    def decoded_bytes(self, rows: Matrix, types: Sequence[pa.DataType]) -> int:
        """Return how many bytes rows have as values, each column of its type; validity does not count."""
        known = self._numbers(pa.string())
        texts = sum(int(known.sizes(rows[:, k]).sum()) for k, t in enumerate(types) if is_text(t)) if len(known) else 0
        return texts + 8 * rows.size


def check_codes(array: pa.Array, name: str) -> None:
    """Refuse a column with a value that has no code."""
    t = array.type
    if pa.types.is_null(t) or pa.types.is_floating(t) or is_numbered(t) or t.bit_width < 64:
        return
    least, valid = numpy_values(array) == NULL, validity(array)
    if (least if valid is None else least & valid).any():
        raise SourceError(f"{name} has the least {type_name(t)}, {NULL}, which a hopping query cannot hold")


def is_numbered(t: pa.DataType) -> bool:
    """Tell whether values of a type are numbered as they are seen."""
    return is_text(t) or bool(pa.types.is_decimal(t))
