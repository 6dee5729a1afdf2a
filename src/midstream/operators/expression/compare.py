"""Comparison of arrays and scalars: SQL's NULLs, and floats in a total order (NaN last, -0.0 equal to 0.0)."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from midstream.operators.expression.datum import Datum, is_scalar, null_where, spread


def equal(a: Datum, b: Datum) -> Datum:
    """Compare for equality; NaN equals NaN.

    >>> equal(pa.array([float("nan"), 0.0, None]), pa.array([float("nan"), -0.0, 1.0])).to_pylist()
    [True, True, None]
    """
    plain = _plain(pc.equal, a, b)
    if not _may_be_nan(a, b):
        return plain
    return pc.or_(plain, pc.and_(pc.is_nan(a), pc.is_nan(b)))


def less(a: Datum, b: Datum) -> Datum:
    """Compare for order; NaN is greater than every number.

    >>> less(pa.array([1.0, float("nan")]), pa.array([float("nan"), 1.0])).to_pylist()
    [True, False]
    """
    if not pa.types.is_floating(a.type) or _is_number(b):
        return _plain(pc.less, a, b)
    if _is_number(a):
        return pc.invert(pc.less_equal(b, a))
    return pc.or_(pc.less(a, b), pc.and_(pc.is_nan(b), pc.invert(pc.is_nan(a))))


def less_equal(a: Datum, b: Datum) -> Datum:
    """Compare for order or equality; NaN is greater than every number and equal to itself."""
    return pc.invert(less(b, a))


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": equal,
    "<>": lambda a, b: pc.invert(equal(a, b)),
    "<": less,
    "<=": less_equal,
    ">": lambda a, b: less(b, a),
    ">=": lambda a, b: less_equal(b, a),
}


def distinct(a: Datum, b: Datum) -> Datum:
    """Tell where two data differ, NULL being a value like any other.

    >>> distinct(pa.array([1, None, None]), pa.array([2, None, 3])).to_pylist()
    [True, False, True]
    """
    differ = pc.fill_null(pc.invert(equal(a, b)), True)
    return pc.and_(differ, pc.invert(pc.and_(pc.is_null(a), pc.is_null(b))))


def is_in(subject: Datum, members: Sequence[Datum], rows: int) -> Datum:
    """Tell where a datum equals one of the members; NULL among them leaves the question open.

    >>> is_in(pa.array([1, 2, None]), [pa.scalar(1), pa.scalar(None, pa.int64())], 3).to_pylist()
    [True, None, None]
    """
    if not all(is_scalar(m) for m in members) or pa.types.is_null(subject.type):
        found = equal(subject, members[0])
        for member in members[1:]:
            found = pc.or_kleene(found, equal(subject, member))
        return found
    array = spread(subject, rows)
    known = pa.array([m.as_py() for m in members if m.is_valid], subject.type)
    if pa.types.is_floating(array.type):  # Arrow hashes bits: make -0.0 the same as 0.0
        array, known = pc.add(array, pa.scalar(0, array.type)), pc.add(known, pa.scalar(0, array.type))
    found = pc.is_in(array, value_set=known)
    unknown = pc.is_null(array)
    if len(known) < len(members):
        unknown = pc.or_(unknown, pc.invert(found))
    return null_where(unknown, found)


def _plain(kernel: Callable[..., Any], a: Datum, b: Datum) -> Datum:
    if pa.types.is_null(a.type):  # Arrow does not compare NULL with NULL
        return pa.nulls(len(b) if is_scalar(a) else len(a), pa.bool_())
    return kernel(a, b)


def _is_number(datum: Datum) -> bool:
    """Tell whether a datum is a constant other than NaN."""
    return is_scalar(datum) and datum.is_valid and datum.as_py() == datum.as_py()


def _may_be_nan(a: Datum, b: Datum) -> bool:
    return pa.types.is_floating(a.type) and not _is_number(a) and not _is_number(b)
