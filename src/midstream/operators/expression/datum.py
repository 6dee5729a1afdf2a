"""Arrow arrays and scalars side by side: what the vectorized functions of `scalar` and `cast` are built from.

A datum is an array with one value per row, or a scalar that stands for the same value in every row.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from midstream.kernels.arrays import Mask
from midstream.operators.expression.arrays import numpy_values
from midstream.operators.expression.codes import dense_codes

Datum: TypeAlias = pa.Array | pa.Scalar


def is_scalar(datum: Datum) -> bool:
    """Tell whether a datum is one value for every row."""
    return isinstance(datum, pa.Scalar)


def spread(datum: Datum, rows: int) -> pa.Array:
    """Return a datum as an array of `rows` values.

    >>> spread(pa.scalar(7), 2).to_pylist()
    [7, 7]
    """
    if not is_scalar(datum):
        return datum
    return pa.repeat(datum, rows) if datum.is_valid else pa.nulls(rows, datum.type)


def null_mask(*data: Datum) -> Mask | np.bool_:
    """Tell where any of the data is NULL."""
    mask: Any = np.False_
    for datum in data:
        if is_scalar(datum):
            mask = mask | np.bool_(not datum.is_valid)
        elif datum.null_count:
            mask = mask | datum.is_null().to_numpy(zero_copy_only=False)
    return mask  # type: ignore[no-any-return]


def values(datum: Datum) -> Any:
    """Return the values of a numeric datum for NumPy; a NULL is some number."""
    if is_scalar(datum):
        return np.asarray(datum.as_py() if datum.is_valid else 0, dtype=datum.type.to_pandas_dtype())
    return numpy_values(datum)


def rebuild(computed: npt.NDArray[Any], t: pa.DataType, nulls: Mask | np.bool_) -> pa.Array:
    """Make an array of computed values, NULL where asked."""
    mask = np.broadcast_to(nulls, computed.shape) if np.any(nulls) else None
    return pa.array(computed, t, mask=mask)


def null_where(condition: Datum, datum: Datum) -> Datum:
    """Replace values by NULL where a condition is true."""
    return pc.if_else(condition, pa.scalar(None, datum.type), datum)


def or_null(kernel: Callable[..., pa.Array], t: pa.DataType, rows: int, *args: Datum) -> pa.Array:
    """Apply a kernel that raises on an undefined value; the value is NULL where it does.

    Normal data takes one call. A batch with undefined values is halved until they are alone.

    >>> or_null(pc.add_checked, pa.int64(), 3, pa.array([1, 2**63 - 1, 2]), pa.scalar(1)).to_pylist()
    [2, None, 3]
    """
    try:
        return kernel(*args)
    except pa.ArrowInvalid:
        if rows <= 1:
            return pa.nulls(rows, t)
    half = rows // 2
    left = [a if is_scalar(a) else a.slice(0, half) for a in args]
    right = [a if is_scalar(a) else a.slice(half) for a in args]
    return pa.concat_arrays([or_null(kernel, t, half, *left), or_null(kernel, t, rows - half, *right)])


def per_constant(
    kernel: Callable[..., pa.Array], t: pa.DataType, rows: int, subject: Datum, parameters: Sequence[Datum]
) -> pa.Array:
    """Apply a kernel that takes constants; with varying parameters, once for each combination of their values.

    >>> def cut(text, n):
    ...     return pc.utf8_slice_codeunits(text, start=0, stop=n)
    >>> per_constant(cut, pa.string(), 2, pa.array(["abc", "abc"]), [pa.array([1, 2])]).to_pylist()
    ['a', 'ab']
    """
    if any(is_scalar(p) and not p.is_valid for p in parameters):
        return pa.nulls(rows, t)
    subject = spread(subject, rows)
    if all(is_scalar(p) for p in parameters):
        return kernel(subject, *(p.as_py() for p in parameters))
    if rows == 0:
        return pa.nulls(0, t)
    codes, _ = dense_codes([p for p in parameters if not is_scalar(p)])
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    pieces = []
    for rows_of, first in zip(np.split(order, starts[1:]), order[starts], strict=True):
        constants = [c.as_py() if is_scalar(c) else c[int(first)].as_py() for c in parameters]
        part = subject.take(pa.array(rows_of))
        pieces.append(pa.nulls(len(part), t) if None in constants else kernel(part, *constants))
    return pa.concat_arrays(pieces).take(pa.array(np.argsort(order, kind="stable")))
