"""Codes of values: an Arrow array as 64-bit integers that joins and partitions compare."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.codes import code_floats, combine, hash_bytes
from midstream.model.types import is_exact_code
from midstream.operators.expression.arrays import byte_runs, is_text, numpy_values, validity


@dataclass(frozen=True)
class Codes:
    """Codes of one array and which of them stand for a value; `valid` is None when all do."""

    values: Vector
    valid: Mask | None


def code(array: pa.Array, seed: int = 0) -> Codes:
    """Code an array: in order where the type allows it, else hashed (each seed another hash)."""
    t = array.type
    if pa.types.is_null(t):
        return Codes(np.zeros(len(array), np.int64), np.zeros(len(array), np.bool_))
    valid = validity(array)
    if pa.types.is_floating(t):
        return Codes(code_floats(np.ascontiguousarray(numpy_values(array), np.float64)), valid)
    if pa.types.is_decimal(t):
        halves = numpy_values(array)
        values = halves[:, 0] if is_exact_code(t) else combine(np.ascontiguousarray(halves), seed)
        return Codes(np.array(values, np.int64), valid)
    if is_text(t):
        return Codes(hash_bytes(*byte_runs(array), seed), valid)
    return Codes(numpy_values(array).astype(np.int64), valid)


def code_together(parts: list[Codes]) -> Codes:
    """Hash codes of several arrays to one code per row; a row with any null is null."""
    values = combine(np.column_stack([p.values for p in parts]), 0)
    masks = [p.valid for p in parts if p.valid is not None]
    return Codes(values, np.logical_and.reduce(masks) if masks else None)


def partition_codes(arrays: list[pa.Array]) -> Matrix:
    """Return two independent codes per row that together name its partition; nulls are equal here."""
    return np.column_stack([row_codes(arrays, seed) for seed in (0, 1)])


def row_codes(arrays: list[pa.Array], seed: int = 0) -> Vector:
    """Hash the values of each row to one code; nulls are equal here."""
    parts: list[Vector] = []
    for array in arrays:
        codes = code(array, seed)
        valid = np.ones(len(array), np.int64) if codes.valid is None else codes.valid.astype(np.int64)
        parts += [codes.values * valid, valid]
    return combine(np.column_stack(parts), seed)


def dense_codes(arrays: list[pa.Array]) -> tuple[Vector, int]:
    """Number the different combinations of values in the order they appear; return the numbers and how many.

    NULL is a value like any other here, -0.0 is 0.0, and NaN equals itself.

    >>> dense_codes([pa.array([0.0, None, -0.0, None]), pa.array(["a", "a", "a", "b"])])
    (array([0, 1, 0, 2]), 3)
    """
    codes, size = _dense(arrays[0])
    for array in arrays[1:]:
        own, more = _dense(array)
        codes, size = _dense(pa.array(codes * more + own))
    return codes, size


def _dense(array: pa.Array) -> tuple[Vector, int]:
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64), 1
    if pa.types.is_floating(array.type):
        coded = code(array)
        array = pa.array(coded.values, mask=None if coded.valid is None else ~coded.valid)
    encoded = array.dictionary_encode("encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)
