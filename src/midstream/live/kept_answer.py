"""Kept answer: the answer of a query that hops as a table, kept up to date by its changes.

changes, hop by hop ──▶ those not in it yet ──▶ what goes is cancelled, what comes is added ──▶ in the order of values
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from midstream.engine.results.merger import Departure
from midstream.kernels.bag import cancel
from midstream.model.errors import SinkError
from midstream.operators.hopping.coding import Coding
from midstream.operators.hopping.emission import value_order

SAID_OF_ROWS = ("_time", "_version", "_hop", "_sign")
"""Columns of changes that an answer does not have."""


@dataclass(frozen=True)
class KeptAnswer:
    """The answer of a version at a hop. Invariant: changes up to that hop are in it and come to nothing.

    A newer version begins with an empty answer.
    """

    table: pa.Table | None = None
    """None: nothing has been answered yet."""
    version: int = 1
    upto_us: int | None = None
    """The hop."""

    def after(self, departures: Sequence[Departure], place: object) -> "KeptAnswer":
        """Return the answer after changes, itself if it has them all; `place` is what errors call it."""
        table, newest, upto_us = self.table, self.version, self.upto_us
        for (hop_us, of), pieces in _answers(departures):
            version = of or newest
            if version < newest or (version == newest and upto_us is not None and hop_us <= upto_us):
                continue
            if not of and table is not None:  # nothing changes, whosever columns it has
                table, upto_us = table.replace_schema_metadata(), hop_us
                continue
            rows = pa.Table.from_batches(pieces)
            names = [n for n in rows.column_names if n not in SAID_OF_ROWS]
            if table is None or version > newest:
                table = rows.schema.empty_table().select(names)
            signs = rows.column("_sign").combine_chunks()
            table = _applied(table.replace_schema_metadata(), rows.select(names), signs, place)
            newest, upto_us = version, hop_us
        return self if table is self.table else KeptAnswer(table, newest, upto_us)


def _applied(table: pa.Table, changes: pa.Table, signs: pa.Array, place: object) -> pa.Table:
    coming, going = pc.greater(signs, 0), pc.less(signs, 0)
    new = pa.concat_tables([table, changes.filter(coming)]).combine_chunks()
    old = changes.filter(going).combine_chunks()
    coding, types = Coding(), new.schema.types
    codes = [_codes(coding, part) for part in (new, old)]
    no_ends = np.empty(0, np.int64)
    kept, missing = cancel(codes[0], no_ends, codes[1], no_ends, False)
    if missing.any():
        raise SinkError(f"{place} does not hold what is to go; it was changed by someone else")
    left = codes[0][kept]
    return new.filter(pa.array(kept)).take(pa.array(value_order(coding, left, types, None)))


def _answers(departures: Sequence[Departure]) -> list[tuple[tuple[int, int], list[pa.RecordBatch]]]:
    """Return the answers by hop and version: two versions may answer one hop, and an answer may come in pieces.

    An empty one is of version 0: it does not say of which, and comes after those at its hop that change something.
    """
    found: dict[tuple[int, int], list[pa.RecordBatch]] = {}
    for departure in departures:
        assert departure.hop_us is not None, "an answer at a hop"
        versions = departure.rows.column("_version")
        for version in versions.unique().to_pylist() or [0]:
            rows = departure.rows.filter(pc.equal(versions, version))
            pieces = found.setdefault((departure.hop_us, version), [])
            if version or not pieces:
                pieces.append(rows)
    return sorted(found.items(), key=lambda item: (item[0][0], item[0][1] == 0, item[0][1]))


def _codes(coding: Coding, table: pa.Table) -> npt.NDArray[np.int64]:
    out = np.empty((table.num_rows, table.num_columns), np.int64)
    for k, column in enumerate(table.columns):
        out[:, k] = coding.encode(column.combine_chunks())
    return out
