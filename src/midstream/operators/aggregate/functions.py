"""Aggregate functions over ranges of values: one result for each range.

values of a column ──▶ without NULLs ──▶ one kernel for each function ──▶ results, NULL where a function has none
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from midstream.kernels.aggregate import (
    count_different,
    deviate,
    find_earlier,
    find_extremes,
    find_middles,
    fit_limbs,
    round_limbs,
    sum_exactly,
)
from midstream.kernels.arrays import Floats, Limbs, Mask, Vector
from midstream.kernels.float_sums import sum_floats
from midstream.model.errors import MidstreamError
from midstream.model.types import MAX_DECIMAL_DIGITS, is_exact_code
from midstream.operators.expression.arrays import array_of, is_text, numpy_values, validity
from midstream.operators.expression.cast import cast
from midstream.operators.expression.codes import code, dense_codes

NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class AggregateSpec:
    """One aggregate to compute: the name of a function, or of a user's and the function itself."""

    function: str
    argument: str | None
    """The column of the rows that holds the values; None: the rows themselves are counted."""
    type: pa.DataType
    distinct: bool = False
    user: Callable[[pa.Array], Any] | None = None

    @property
    def once(self) -> bool:
        """Tell whether it makes no difference how often a value comes."""
        return self.user is None and (self.distinct or self.function in ("min", "max"))


class Values:
    """The values of one column without its NULLs, in ranges that move forward only; what several functions need."""

    def __init__(self, array: pa.Array, starts: Vector, ends: Vector) -> None:
        valid = validity(array)
        if valid is not None:
            before = np.concatenate([np.zeros(1, np.int64), np.cumsum(valid)])
            array, starts, ends = array.drop_null(), before[starts], before[ends]
        self.array, self.starts, self.ends = array, starts, ends
        self.type = array.type
        self.is_float = bool(pa.types.is_floating(self.type))
        self._sums: dict[bool, Limbs] = {}

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def codes(self) -> Vector:
        """Integers in the order of the values."""
        if is_exact_code(self.type) or pa.types.is_duration(self.type):
            return np.ascontiguousarray(code(self.array).values)
        return np.asarray(pc.rank(self.array, tiebreaker="dense").to_numpy(), np.int64)

    @cached_property
    def dense(self) -> tuple[Vector, int]:
        """A number for each different value, and how many there are."""
        return dense_codes([self.array])

    @cached_property
    def earlier(self) -> Vector:
        """The place of the equal value before, or -1."""
        return find_earlier(*self.dense)

    @cached_property
    def floats(self) -> Floats:
        """The values as doubles."""
        return np.ascontiguousarray(numpy_values(cast(self.array, pa.float64(), len(self.array))))

    def counts(self, distinct: bool) -> Vector:
        """Return the number of values in each range."""
        return count_different(*self.dense, self.starts, self.ends) if distinct else self.ends - self.starts

    def sums(self, distinct: bool) -> Limbs:
        """Return the sum of whole numbers, or of the digits of decimals, in each range, as three limbs."""
        if distinct not in self._sums:
            words = numpy_values(self.array)
            if pa.types.is_decimal(self.type):
                low, high = np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1])
            else:
                low = words.astype(np.int64)
                high = low >> 63
            codes, size = self.dense if distinct else (NONE, 0)
            self._sums[distinct] = sum_exactly(
                low.view(np.uint64), high.view(np.uint64), codes, size, self.starts, self.ends
            )
        return self._sums[distinct]


def aggregate(spec: AggregateSpec, values: Values) -> pa.Array:
    """Compute one aggregate of every range of values."""
    if pa.types.is_null(spec.type):
        return pa.nulls(len(values))
    result = _user(spec, values) if spec.user is not None else _FUNCTIONS[spec.function](values, spec)
    # Strings may be large ones.
    return result if is_text(spec.type) else cast(result, spec.type, len(result))


def _count(values: Values, spec: AggregateSpec) -> pa.Array:
    return pa.array(values.counts(spec.distinct))


def _sum(values: Values, spec: AggregateSpec) -> pa.Array:
    empty = values.starts == values.ends
    if values.is_float:
        return pa.array(_float_sums(values, spec), mask=empty)
    return exact_sums(values.sums(spec.distinct), empty, values.type, spec.type)


def exact_sums(limbs: Limbs, empty: Mask, given: pa.DataType, wanted: pa.DataType) -> pa.Array:
    """Return totals of values of a type as another: NULL where there were none, or where the total does not fit."""
    if not pa.types.is_decimal(wanted):
        low = np.ascontiguousarray(limbs[:, 0]).view(np.int64)
        sign = (low >> 63).view(np.uint64)
        fits = (limbs[:, 1] == sign) & (limbs[:, 2] == sign)
        return pa.array(low, mask=empty | ~fits)
    scale = given.scale if pa.types.is_decimal(given) else 0
    limit = 10**MAX_DECIMAL_DIGITS
    fits = fit_limbs(limbs, np.uint64(limit & (2**64 - 1)), np.uint64(limit >> 64))
    words = np.ascontiguousarray(limbs[:, :2]).view(np.int64)
    return array_of(pa.decimal128(MAX_DECIMAL_DIGITS, scale), words, ~empty & fits)


def _float_sums(values: Values, spec: AggregateSpec) -> Floats:
    return sum_floats(values.floats, values.earlier if spec.distinct else NONE, values.starts, values.ends)


def _avg(values: Values, spec: AggregateSpec) -> pa.Array:
    counts = values.counts(spec.distinct)
    if not values.is_float:
        return exact_means(values.sums(spec.distinct), counts, values.type)
    return float_means(_float_sums(values, spec), counts)


def float_means(sums: Floats, counts: Vector) -> pa.Array:
    """Return the means of floats from their sums: NULL where there were none."""
    return pa.array(sums / np.maximum(counts, 1), mask=counts == 0)


def exact_means(limbs: Limbs, counts: Vector, given: pa.DataType) -> pa.Array:
    """Return the means of values of a type from their totals: NULL where there were none."""
    scale = given.scale if pa.types.is_decimal(given) else 0
    return pa.array(round_limbs(limbs) / 10.0**scale / np.maximum(counts, 1), mask=counts == 0)


def _stddev(values: Values, spec: AggregateSpec) -> pa.Array:
    earlier = values.earlier if spec.distinct else NONE
    return pa.array(deviate(values.floats, earlier, values.starts, values.ends), mask=values.counts(spec.distinct) < 2)


def _median(values: Values, spec: AggregateSpec) -> pa.Array:
    ranked, firsts, ranks = np.unique(values.codes, return_index=True, return_inverse=True)
    lower, upper = find_middles(ranks, len(ranked), spec.distinct, values.starts, values.ends)
    if not len(ranked):
        return pa.nulls(len(values), pa.float64())
    each = values.floats[firsts]
    # Halved before they are added: the mean of two large numbers is not infinite.
    middle = np.where(lower == upper, each[lower], each[lower] * 0.5 + each[upper] * 0.5)
    return pa.array(middle, mask=lower < 0)


def _extreme(sign: int) -> Callable[[Values, AggregateSpec], pa.Array]:
    def compute(values: Values, spec: AggregateSpec) -> pa.Array:
        places = find_extremes(values.codes, values.starts, values.ends, sign)
        return values.array.take(pa.array(places, mask=places < 0))

    return compute


_FUNCTIONS: dict[str, Callable[[Values, AggregateSpec], pa.Array]] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _extreme(1),
    "max": _extreme(-1),
    "stddev": _stddev,
    "median": _median,
}


def _user(spec: AggregateSpec, values: Values) -> pa.Array:
    """Call a function written in Python for each range."""
    assert spec.user is not None
    found = []
    for start, end in zip(values.starts.tolist(), values.ends.tolist(), strict=True):
        given = values.array.slice(start, end - start)
        if spec.distinct:
            given = given.filter(pa.array(values.earlier[start:end] < start))
        try:
            found.append(_convert(spec.user(given), spec.type))
        except (Exception, SystemExit) as error:
            said = " ".join(f"{type(error).__name__}: {error}".split()) if str(error) else type(error).__name__
            raise MidstreamError(f"the aggregate {spec.function} has failed ({said})") from error
    return pa.concat_arrays(found) if found else pa.nulls(0, spec.type)


def _convert(value: Any, wanted: pa.DataType) -> pa.Array:
    """Return what a user's function gave as an array of one value of the declared type."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        value = float(value) if pa.types.is_floating(wanted) else None  # no integer type holds it
    if value is None or (isinstance(value, float) and math.isnan(value) and not pa.types.is_floating(wanted)):
        return pa.nulls(1, wanted)
    return cast(pa.array([value]), wanted, 1)
