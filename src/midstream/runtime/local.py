"""The local runtime: one process, any number of buckets, the same results as one row at a time.

streams' rows ──▶ sequence numbers ──▶ slices ──▶ buckets' pipelines ──▶ max order ──▶ results
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from midstream.model.batch import Results
from midstream.operators.build import build
from midstream.operators.pipeline import StateSize
from midstream.plan.plan import Plan
from midstream.runtime.numbering import AliasRows, Slice, number_rows, slices
from midstream.runtime.routing import buckets_of
from midstream.runtime.sources import StreamRows


class LocalRuntime:
    """A running plan: pipelines with their states, and the next sequence number."""

    def __init__(self, plan: Plan, buckets: int = 1) -> None:
        self.plan = plan
        self.buckets = 1 if plan.partitioning.one_bucket else buckets
        self.pipelines = [build(plan, one_of_many=self.buckets > 1) for _ in range(self.buckets)]
        self.next_seq = 0

    @property
    def predicate_evaluations(self) -> int:
        """Return how many pairs the joins have tested so far."""
        return sum(p.predicate_evaluations for p in self.pipelines)

    def size(self) -> StateSize:
        """Return what the states of all buckets hold now."""
        total = StateSize()
        for pipeline in self.pipelines:
            total.add(pipeline.size())
        return total

    def on_rows(self, rows: dict[str, StreamRows]) -> Iterator[Results]:
        """Take in the next rows of every stream and yield the results they complete, in max order."""
        query = self.plan.query
        arrays = {name: {c: _whole(r.rows.column(c)) for c in r.rows.column_names} for name, r in rows.items()}
        by_alias = {}
        for source in query.sources:
            mine, columns = rows[source.stream.name], arrays[source.stream.name]
            used = {c: columns[c] for c in query.columns_of(source.alias)}
            by_alias[source.alias] = AliasRows(mine.times, mine.offsets, used)
        arrivals = number_rows(query, by_alias, self.next_seq)
        for piece in slices(arrivals, self.next_seq):
            yield self._run(piece)
        self.next_seq += sum(len(a) for a in arrivals.values())

    def _run(self, piece: Slice) -> Results:
        arrivals = piece.arrivals
        if self.buckets == 1:
            return self.pipelines[0].on_rows(arrivals, piece.now_us, piece.seq)
        places = {
            alias: buckets_of(self.plan.partitioning, alias, self.buckets, a.offsets, a.columns)
            for alias, a in arrivals.items()
        }
        parts = []
        for bucket, pipeline in enumerate(self.pipelines):
            mine = {}
            for alias, arrival in arrivals.items():
                place = places[alias]
                mine[alias] = arrival if place is None else arrival.where(place == bucket)
            parts.append(pipeline.on_rows(mine, piece.now_us, piece.seq))
        return merge_results(parts)


def merge_results(parts: list[Results]) -> Results:
    """Bring the results of several buckets into one max order."""
    parts = [p for p in parts if len(p)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    orders = [p.order for p in parts if p.order is not None]
    order = np.concatenate(orders)
    place = np.lexsort(order.T[::-1])
    rows = pa.Table.from_batches([p.rows for p in parts]).take(pa.array(place)).combine_chunks()
    return Results(rows.to_batches()[0], order[place])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
