"""Arrow arrays as flat NumPy arrays, and back, without copying where it can be."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.kernels.arrays import Bytes, Mask, Vector
from midstream.model.errors import MemoryLimitError

MOST_TEXT = 2**31 - 1
"""The bytes that an Arrow array of strings can hold; large strings have no such bound."""
GROWTH = 4
"""How many times as long as what it is computed from a text may be."""
NO_BYTES: Bytes = np.zeros(1, np.uint8)
NO_BYTES.flags.writeable = False  # as Arrow's, so that kernels are compiled once


def numpy_values(array: pa.Array) -> npt.NDArray[Any]:
    """Return the values of a fixed-width array without its nulls' meaning; nulls hold any value."""
    if pa.types.is_boolean(array.type):
        bits = np.frombuffer(array.buffers()[1], np.uint8) if len(array) else np.empty(0, np.uint8)
        return np.unpackbits(bits, bitorder="little", count=array.offset + len(array))[array.offset :]
    width = array.type.bit_width // 8
    letter = "f" if pa.types.is_floating(array.type) else "u" if pa.types.is_unsigned_integer(array.type) else "i"
    dtype = np.dtype("i8") if width == 16 else np.dtype(f"{letter}{width}")
    if not len(array):
        return np.empty((0, 2) if width == 16 else 0, dtype)
    flat = np.frombuffer(array.buffers()[1], dtype)
    if width == 16:
        flat = flat.reshape(-1, 2)
    return flat[array.offset : array.offset + len(array)]


def byte_runs(array: pa.Array) -> tuple[Vector, Bytes]:
    """Return the values of strings, or of decimals, as runs of bytes: where each begins and ends, and the bytes."""
    if pa.types.is_decimal(array.type):
        return 16 * np.arange(len(array) + 1), np.ascontiguousarray(numpy_values(array)).view(np.uint8).reshape(-1)
    if not len(array):
        return np.zeros(1, np.int64), NO_BYTES
    kind = np.int64 if pa.types.is_large_string(array.type) else np.int32
    offsets = np.frombuffer(array.buffers()[1], kind)[array.offset : array.offset + len(array) + 1]
    body = array.buffers()[2]
    data = np.frombuffer(body, np.uint8) if body is not None and body.size else NO_BYTES
    return offsets.astype(np.int64), data


def text_array(offsets: Vector, data: Bytes, valid: Mask | None, large: bool = False) -> pa.Array:
    """Return runs of bytes as strings; too many for one array are refused, or with `large` are large strings."""
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
    if len(data) > MOST_TEXT and large:
        return array
    if len(data) > MOST_TEXT:
        raise MemoryLimitError(
            f"a column has {len(data):,} bytes, more text than can be looked at in one go; "
            "shorter windows or micro-batches have less"
        )
    return array.cast(pa.string())


def concatenated(parts: Sequence[pa.Array]) -> pa.Array:
    """Return arrays of one type as one; strings that are too long for one array become large strings."""
    if len(parts) == 1:
        return parts[0]
    texts = [is_text(p.type) for p in parts]
    if all(texts) and (len({p.type for p in parts}) > 1 or sum(p.nbytes for p in parts) > MOST_TEXT):
        parts = [p.cast(pa.large_string()) for p in parts]
    return pa.concat_arrays(parts)


def is_text(t: pa.DataType) -> bool:
    """Tell whether values of a type are strings, large or not."""
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t))


def most_text(share: int = 1) -> int:
    """Return how many bytes of text a column may have, or a share of so many."""
    return MOST_TEXT // share


def text_pieces(sizes: Sequence[Vector], count: int, most: int) -> Iterator[slice]:
    """Yield slices of so many rows in which no column, given the sizes of its texts, is longer than the most.

    >>> list(text_pieces([np.array([2, 1, 3, 9, 1])], 5, 4))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None), slice(4, 5, None)]
    """
    ends = [np.cumsum(s) for s in sizes]
    start = 0
    while start < count or not count:
        before = [int(e[start - 1]) if start else 0 for e in ends]
        stops = [int(np.searchsorted(e, b + most, side="right")) for e, b in zip(ends, before, strict=True)]
        stop = max(min([count, *stops]), start + 1)
        yield slice(start, min(stop, count))
        if stop >= count:
            return
        start = stop


def text_sizes(array: pa.Array) -> Vector:
    """Return how many bytes each string has."""
    return np.diff(byte_runs(array)[0])


def as_strings(array: pa.Array) -> pa.Array:
    """Return strings, large or not, as plain ones; they must not be too long for one array."""
    if not pa.types.is_large_string(array.type):
        return array
    offsets, data = byte_runs(array)
    return text_array(offsets - offsets[0], data[offsets[0] : offsets[-1]], validity(array))


def taken(batches: Sequence[pa.RecordBatch], places: Vector) -> list[pa.RecordBatch]:
    """Return rows of batches with the same columns, in the order of places: in one batch, or several of long texts."""
    table = pa.Table.from_batches(batches)
    texts = [c for c, t in zip(table.columns, table.schema.types, strict=True) if is_text(t)]
    if all(c.nbytes <= MOST_TEXT for c in texts):
        return list(table.take(pa.array(places)).combine_chunks().to_batches())
    sizes = [np.concatenate([text_sizes(chunk) for chunk in c.chunks])[places] for c in texts]
    large = table.cast(
        pa.schema([pa.field(f.name, pa.large_string() if is_text(f.type) else f.type) for f in table.schema])
    )
    out = []
    for piece in text_pieces(sizes, len(places), MOST_TEXT):
        rows = large.take(pa.array(places[piece])).combine_chunks()
        arrays = [as_strings(c.chunk(0)) for c in rows.columns]
        out.append(pa.RecordBatch.from_arrays(arrays, schema=table.schema))
    return out


def validity(array: pa.Array) -> Mask | None:
    """Return which values are not null, or None when all are."""
    if array.null_count == 0:
        return None
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def array_of(declared: pa.DataType, values: npt.NDArray[Any], valid: Mask | None) -> pa.Array:
    """Wrap flat values of a fixed-width type as an Arrow array, without copying where it can."""
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    packed = np.packbits(values, bitorder="little") if pa.types.is_boolean(declared) else np.ascontiguousarray(values)
    return pa.Array.from_buffers(declared, len(values), [bitmap, pa.py_buffer(packed)])
