"""Routing: which bucket each row goes to, as the plan's partitioning says."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.kernels.arrival import bucket_of
from midstream.operators.expression.codes import code
from midstream.operators.expression.evaluate import evaluate
from midstream.plan.expr import cast_to
from midstream.plan.partition import Partitioning


def buckets_of(
    partitioning: Partitioning,
    alias: str,
    buckets: int,
    offsets: npt.NDArray[np.int64],
    columns: dict[str, pa.Array],
) -> npt.NDArray[np.int64] | None:
    """Return the bucket of each row of an alias, or None when its rows go to every bucket.

    Rows with a null key match nothing; they all go to the first bucket, so that partitions of nulls stay together.
    """
    if alias in partitioning.broadcast:
        return None
    if alias == partitioning.by_row:
        return offsets % buckets
    expr = dict(partitioning.hashed)[alias]
    assert partitioning.type is not None
    codes = code(evaluate(cast_to(expr, partitioning.type), len(offsets), lambda column: columns[column.name]))
    places = bucket_of(codes.values, buckets)
    return places if codes.valid is None else np.where(codes.valid, places, 0)
