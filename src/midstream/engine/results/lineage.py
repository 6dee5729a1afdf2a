"""Lineage of answers at hops: what they depend on, so that they can be compared with those of other versions."""

import numpy as np
import pyarrow.compute as pc

from midstream.model.batch import Lineage, Results
from midstream.operators.expression.codes import partition_codes


def traced(results: Results, columns: int, oldest_us: int, print_: int) -> Results:
    """Return the answer at a hop with what it depends on: the rows in the windows, and its own values."""
    prints = np.full(len(results), print_ % 2**64, np.uint64).view(np.int64)
    lineage = Lineage(np.full(len(results), oldest_us, np.int64), prints)
    found = valued(Results(results.rows, results.order, lineage), columns)
    return Results(results.rows, results.order, None if found is None else found.with_values())


def valued(results: Results, columns: int) -> Lineage | None:
    """Return lines with fingerprints of values, too: of one answer all rows depend on the same rows."""
    rows, lineage = results.rows, results.lineage
    if lineage is None:
        return None
    values = [rows.column(k) for k in range(columns)]
    # What comes is a row like any other.
    goes = [pc.less(rows.column("_sign"), 0)] if "_sign" in rows.schema.names else []
    prints = lineage.prints.view(np.uint64)
    if goes:
        prints = np.where(goes[0].to_numpy(zero_copy_only=False), ~prints, prints)
    codes = partition_codes(values).astype(np.uint64)
    for k in range(codes.shape[1]):
        prints = (prints ^ codes[:, k]) * np.uint64(0x9E3779B97F4A7C15)
        prints ^= prints >> np.uint64(29)
    return Lineage(lineage.oldest_us, lineage.prints, prints.view(np.int64))
