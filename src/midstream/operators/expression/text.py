"""Text functions over arrays and scalars: positions count characters from 1, from the end when negative."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.kernels import text as kernels
from midstream.kernels.arrays import Bytes, Mask, Vector
from midstream.operators.expression.arrays import most_text
from midstream.operators.expression.datum import Datum, is_scalar, null_mask, rebuild, values

Nulls = Mask | np.bool_

FAR = 2**31
"""Past the end of any text."""
LONGEST_PAD = 1_000_000


def _bytes(datum: Datum) -> tuple[Vector, Bytes]:
    """Return offsets and bytes of texts, one text for a scalar."""
    array = pa.array([datum.as_py()], datum.type) if is_scalar(datum) else datum
    _, places, body = array.buffers()
    data = np.frombuffer(body, np.uint8) if body is not None and body.size else np.frombuffer(b"\0", np.uint8)
    if not len(array):
        return np.zeros(1, np.int64), data
    offsets = np.frombuffer(places, np.int32)[array.offset : array.offset + len(array) + 1]
    return offsets.astype(np.int64), data


def _texts(found: tuple[Vector, Bytes], nulls: Nulls) -> pa.Array:
    """Make an array of texts, NULL where asked; of several that are too long for one, fewer have to be asked for."""
    offsets, data = found
    rows = len(offsets) - 1
    if rows > 1 and offsets[-1] > most_text():
        raise pa.ArrowCapacityError(f"{offsets[-1]:,} bytes of text")
    valid = pa.py_buffer(np.packbits(~np.broadcast_to(nulls, rows), bitorder="little")) if np.any(nulls) else None
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), rows, buffers).cast(pa.string())


def _numbers(datum: Datum, rows: int) -> Vector:
    """Return the integers of every row, none so large that sums overflow; a NULL is 0."""
    bounded = np.clip(values(datum), -FAR, FAR)
    return np.ascontiguousarray(np.where(null_mask(datum), 0, np.broadcast_to(bounded, (rows,))), np.int64)


class _Subject:
    """Texts that pieces are cut out of."""

    def __init__(self, text: Datum, rows: int) -> None:
        self._bytes = offsets, data = _bytes(text)
        self._plain = not (data[offsets[0] : offsets[-1]] & 0x80).any()
        lengths = np.diff(offsets) if self._plain else values(pc.utf8_length(text))
        self.lengths: Vector = np.broadcast_to(lengths, (rows,)).astype(np.int64)
        """How many characters the text of each row has; any number for a NULL."""

    def cut(self, begins: Vector, ends: Vector) -> tuple[Vector, Bytes]:
        """Return the characters from `begins` to before `ends`, as far as there are any."""
        return kernels.cut(len(begins), *self._bytes, begins, ends, self._plain)


def _concat(t: pa.DataType, rows: int, *args: Datum) -> Datum:
    return pc.binary_join_element_wise(*(pc.fill_null(a, "") for a in args), "")


def _join(t: pa.DataType, rows: int, a: Datum, b: Datum) -> Datum:
    return pc.binary_join_element_wise(a, b, "")


def _substring(t: pa.DataType, rows: int, text: Datum, start: Datum, length: Datum | None = None) -> Datum:
    """Cut `length` characters out, from position `start`; position 0 is the one before the first."""
    subject, first = _Subject(text, rows), _numbers(start, rows)
    begins = np.where(first > 0, first - 1, np.where(first < 0, subject.lengths + first, -1))
    ends = subject.lengths if length is None else begins + np.maximum(_numbers(length, rows), 0)
    return _texts(subject.cut(begins, ends), null_mask(text, start, *(() if length is None else (length,))))


def _left(t: pa.DataType, rows: int, text: Datum, count: Datum) -> Datum:
    """Take the first characters, or all but the last `-count`."""
    subject, taken = _Subject(text, rows), _numbers(count, rows)
    ends = np.where(taken < 0, subject.lengths + taken, taken)
    return _texts(subject.cut(np.zeros(rows, np.int64), ends), null_mask(text, count))


def _right(t: pa.DataType, rows: int, text: Datum, count: Datum) -> Datum:
    """Take the last characters, or all but the first `-count`."""
    subject, taken = _Subject(text, rows), _numbers(count, rows)
    begins = np.where(taken < 0, -taken, subject.lengths - taken)
    return _texts(subject.cut(begins, subject.lengths), null_mask(text, count))


def _replace(t: pa.DataType, rows: int, text: Datum, old: Datum, new: Datum) -> Datum:
    found = kernels.replace_texts(rows, *_bytes(text), *_bytes(old), *_bytes(new))
    return _texts(found, null_mask(text, old, new))


def _split_part(t: pa.DataType, rows: int, text: Datum, separator: Datum, number: Datum) -> Datum:
    found = kernels.split_part(rows, *_bytes(text), *_bytes(separator), _numbers(number, rows))
    return _texts(found, null_mask(text, separator, number))


def _found(t: pa.DataType, rows: int, text: Datum, part: Datum) -> Datum:
    """Return the position of the first occurrence, 0 when there is none; that something occurs, as a condition."""
    places = kernels.find_texts(rows, *_bytes(text), *_bytes(part)) + 1
    return rebuild(places > 0 if pa.types.is_boolean(t) else places, t, null_mask(text, part))


def _begins_or_ends(at_end: bool) -> Callable[..., Any]:
    def compute(t: pa.DataType, rows: int, text: Datum, part: Datum) -> Datum:
        found = kernels.begin_or_end(rows, *_bytes(text), *_bytes(part), at_end)
        return rebuild(found, t, null_mask(text, part))

    return compute


def _trim(at_start: bool, at_end: bool) -> Callable[..., Any]:
    def strip(t: pa.DataType, rows: int, text: Datum, characters: Datum | None = None) -> Datum:
        taken = pa.scalar(" ") if characters is None else characters
        found = kernels.trim(rows, *_bytes(text), *_bytes(taken), at_start, at_end)
        return _texts(found, null_mask(text, taken))

    return strip


def _pad(before: bool) -> Callable[..., Any]:
    def compute(t: pa.DataType, rows: int, text: Datum, width: Datum, piece: Datum) -> Datum:
        asked = _numbers(width, rows)
        nulls = null_mask(text, width, piece) | (asked > LONGEST_PAD)
        subject, fill = _Subject(text, rows), _Subject(piece, rows)
        missing = np.where(nulls, 0, np.maximum(asked - subject.lengths, 0))
        kept = _texts(subject.cut(np.zeros(rows, np.int64), np.where(nulls, 0, asked)), np.False_)
        never = nulls | ((fill.lengths == 0) & (missing > 0))
        fills = _texts(kernels.repeat_to(rows, *_bytes(piece), missing), never)
        return pc.binary_join_element_wise(*((fills, kept) if before else (kept, fills)), "")

    return compute


def _like(ignore_case: bool) -> Callable[..., Any]:
    def matches(t: pa.DataType, rows: int, text: Datum, pattern: Datum, escape: Datum | None = None) -> Datum:
        args = [text, pattern, pa.scalar("") if escape is None else escape]
        texts, patterns, escapes = (_bytes(pc.utf8_lower(a) if ignore_case else a) for a in args)
        return rebuild(kernels.like_patterns(rows, *texts, *patterns, *escapes), t, null_mask(*args))

    return matches


TEXT: dict[str, Callable[..., Any]] = {
    "||": _join,
    "concat": _concat,
    "lower": lambda t, rows, a: pc.utf8_lower(a),
    "upper": lambda t, rows, a: pc.utf8_upper(a),
    "length": lambda t, rows, a: pc.utf8_length(a).cast(t),
    "reverse": lambda t, rows, a: pc.utf8_reverse(a),
    "trim": _trim(at_start=True, at_end=True),
    "ltrim": _trim(at_start=True, at_end=False),
    "rtrim": _trim(at_start=False, at_end=True),
    "substring": _substring,
    "left": _left,
    "right": _right,
    "replace": _replace,
    "split_part": _split_part,
    "starts_with": _begins_or_ends(at_end=False),
    "ends_with": _begins_or_ends(at_end=True),
    "contains": _found,
    "strpos": _found,
    "lpad": _pad(before=True),
    "rpad": _pad(before=False),
    "like": _like(ignore_case=False),
    "ilike": _like(ignore_case=True),
}
