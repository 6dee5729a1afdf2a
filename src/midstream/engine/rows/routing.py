"""Routing: which bucket each row goes to, as the plan's partitioning says.

Buckets fetch their rows each for itself, perhaps from different attempts at packing a partition, and a source may give
rows in another order when it is read again. So a row's bucket depends on what is in the row and on nothing else.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.kernels.arrival import bucket_of
from midstream.operators.expression.codes import code, row_codes
from midstream.operators.expression.evaluate import evaluate
from midstream.plan.expr import cast_to
from midstream.plan.partition import Partitioning


def buckets_of(
    partitioning: Partitioning,
    alias: str,
    buckets: int,
    times: npt.NDArray[np.int64],
    columns: dict[str, pa.Array],
) -> npt.NDArray[np.int64] | None:
    """Return the bucket of each row of an alias, or None when its rows go to every bucket.

    Rows with a null key match nothing; they all go to the first bucket, so that partitions of nulls stay together. Rows
    that are dealt out go by their time and all of `columns`: equal rows stay together.
    """
    if alias in partitioning.broadcast:
        return None
    if partitioning.at:
        return np.full(len(times), partitioning.bucket_of(alias))
    if alias == partitioning.by_row:
        return bucket_of(row_codes([pa.array(times), *(columns[name] for name in sorted(columns))]), buckets)
    expr = dict(partitioning.hashed)[alias]
    assert partitioning.type is not None
    codes = code(evaluate(cast_to(expr, partitioning.type), len(times), lambda column: columns[column.name]))
    places = bucket_of(codes.values, buckets)
    return places if codes.valid is None else np.where(codes.valid, places, 0)
