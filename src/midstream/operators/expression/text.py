"""Text functions over arrays and scalars: positions count characters from 1, from the end when negative."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.operators.expression.datum import Datum, null_where, or_null, per_constant

FAR = 2**31 - 1
"""Past the end of any text."""
LONGEST_PAD = 1_000_000


def _concat(t: pa.DataType, rows: int, *args: Datum) -> Datum:
    return pc.binary_join_element_wise(*(pc.fill_null(a, "") for a in args), "")


def _join(t: pa.DataType, rows: int, a: Datum, b: Datum) -> Datum:
    return pc.binary_join_element_wise(a, b, "")


def _with_constants(kernel: Callable[..., pa.Array]) -> Callable[..., Any]:
    """Make a function of a text and parameters from a kernel that takes the parameters as constants."""

    def compute(t: pa.DataType, rows: int, subject: Datum, *parameters: Datum) -> Datum:
        return per_constant(kernel, t, rows, subject, parameters)

    return compute


def _slice(text: pa.Array, start: int, stop: int | None) -> pa.Array:
    def bounded(n: int) -> int:
        return max(-FAR, min(FAR, n))

    return pc.utf8_slice_codeunits(text, start=bounded(start), stop=None if stop is None else bounded(stop))


def substring(text: pa.Array, start: int, length: int | None = None) -> pa.Array:
    """Cut `length` characters out, from position `start`; position 0 is the one before the first.

    >>> substring(pa.array(["hello"]), 2, 3)[0], substring(pa.array(["hello"]), -2)[0]
    (<pyarrow.StringScalar: 'ell'>, <pyarrow.StringScalar: 'lo'>)
    """
    if length is not None and length <= 0:
        return _slice(text, 0, 0)
    begin = start - 1 if start > 0 else start
    if length is None:
        return _slice(text, begin, None)
    if start > 0:
        return _slice(text, begin, begin + length)
    if start == 0:
        return _slice(text, 0, length - 1)
    return _slice(text, begin, begin + length if begin + length < 0 else None)


def left(text: pa.Array, count: int) -> pa.Array:
    """Take the first characters, or all but the last `-count`."""
    return _slice(text, 0, count)


def right(text: pa.Array, count: int) -> pa.Array:
    """Take the last characters, or all but the first `-count`."""
    return _slice(text, 0, 0) if count == 0 else _slice(text, -count, None)


def replace(text: pa.Array, old: str, new: str) -> pa.Array:
    """Replace every occurrence; an empty one is found nowhere."""
    return pc.replace_substring(text, pattern=old, replacement=new) if old else text


def position(text: pa.Array, part: str) -> pa.Array:
    """Find the first occurrence, 0 when there is none.

    >>> position(pa.array(["héllo", "x"]), "l").to_pylist()
    [3, 0]
    """
    if not part:
        return pc.if_else(pc.is_valid(text), pa.scalar(1, pa.int64()), pa.scalar(None, pa.int64()))
    found = pc.greater_equal(pc.find_substring(text, pattern=part), 0)
    # Arrow counts bytes; the text before the first occurrence is counted in characters.
    before = pc.list_element(pc.split_pattern(text, pattern=part, max_splits=1), 0)
    after = pc.add(pc.utf8_length(before).cast(pa.int64()), 1)
    return pc.if_else(found, after, pa.scalar(0, pa.int64()))


def _trim(kernel: Callable[..., pa.Array]) -> Callable[..., Any]:
    def strip(text: pa.Array, characters: str = " ") -> pa.Array:
        return kernel(text, characters=characters) if characters else text

    return _with_constants(strip)


def _pad(before: bool) -> Callable[..., Any]:
    def fill(text: pa.Array, width: int, piece: str) -> pa.Array:
        if width <= 0:
            return _slice(text, 0, 0)
        if width > LONGEST_PAD:
            return pa.nulls(len(text), text.type)
        missing = np.maximum(width - pc.fill_null(pc.utf8_length(text), width).to_numpy(zero_copy_only=False), 0)
        lengths, which = np.unique(missing, return_inverse=True)
        long = piece * (int(lengths.max(initial=0)) // max(len(piece), 1) + 1)
        fills = pa.array([long[:n] for n in lengths], text.type).take(pa.array(which))
        kept = _slice(text, 0, width) if piece else null_where(pa.array(missing > 0), _slice(text, 0, width))
        return pc.binary_join_element_wise(*((fills, kept) if before else (kept, fills)), "")

    return _with_constants(fill)


@lru_cache(maxsize=256)
def like_pattern(pattern: str, escape: str = "") -> str:
    r"""Translate a LIKE pattern to a regular expression: % is any text, _ any character.

    >>> like_pattern("a_b%"), like_pattern("50!%", "!")
    ('(?s)\\Aa.b.*\\z', '(?s)\\A50%\\z')
    """
    out, characters = [], iter(pattern)
    for c in characters:
        if c == escape:
            out.append(re.escape(next(characters, c)))
        else:
            out.append({"%": ".*", "_": "."}.get(c) or re.escape(c))
    return r"(?s)\A" + "".join(out) + r"\z"


def _like(ignore_case: bool) -> Callable[..., Any]:
    def matches(text: pa.Array, pattern: str, escape: str = "") -> pa.Array:
        inner = pattern.strip("%")
        if not ignore_case and not escape and inner and "%" not in inner and "_" not in inner:
            match (pattern[0] == "%", pattern[-1] == "%"):
                case (False, False):
                    return pc.equal(text, pattern)
                case (False, True):
                    return pc.starts_with(text, inner)
                case (True, False):
                    return pc.ends_with(text, inner)
                case _:
                    return pc.match_substring(text, inner)
        regex = like_pattern(pattern, escape[:1])
        return or_null(
            lambda part: pc.match_substring_regex(part, regex, ignore_case=ignore_case), pa.bool_(), len(text), text
        )

    return _with_constants(matches)


TEXT: dict[str, Callable[..., Any]] = {
    "||": _join,
    "concat": _concat,
    "lower": lambda t, rows, a: pc.utf8_lower(a),
    "upper": lambda t, rows, a: pc.utf8_upper(a),
    "length": lambda t, rows, a: pc.utf8_length(a).cast(t),
    "reverse": lambda t, rows, a: pc.utf8_reverse(a),
    "trim": _trim(pc.utf8_trim),
    "ltrim": _trim(pc.utf8_ltrim),
    "rtrim": _trim(pc.utf8_rtrim),
    "substring": _with_constants(substring),
    "left": _with_constants(left),
    "right": _with_constants(right),
    "replace": _with_constants(replace),
    "starts_with": _with_constants(pc.starts_with),
    "ends_with": _with_constants(pc.ends_with),
    "contains": _with_constants(pc.match_substring),
    "strpos": _with_constants(position),
    "lpad": _pad(before=True),
    "rpad": _pad(before=False),
    "like": _like(ignore_case=False),
    "ilike": _like(ignore_case=True),
}
