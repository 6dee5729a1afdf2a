"""The local runtime: one process, any number of buckets, the same results as one row at a time.

streams' rows ──▶ sequence numbers ──▶ slices ──▶ buckets' pipelines ──▶ max order ──▶ results
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.kernels.arrival import bucket_of, merge_streams
from midstream.model.batch import Arrival, Results
from midstream.operators.build import build
from midstream.operators.codes import code
from midstream.operators.evaluate import evaluate
from midstream.operators.pipeline import StateSize
from midstream.plan.expr import cast_to
from midstream.plan.plan import Plan
from midstream.runtime.arrivals import StreamRows

SLICE_ROWS = 1 << 14
"""Rows handed to the operators at a time: enough to amortize calls, few enough to stay in cache."""


class LocalRuntime:
    """A running plan: pipelines with their states, and the next sequence number."""

    def __init__(self, plan: Plan, buckets: int = 1) -> None:
        self.plan = plan
        self.buckets = 1 if plan.partitioning.one_bucket else buckets
        self.pipelines = [build(plan, one_of_many=self.buckets > 1) for _ in range(self.buckets)]
        self.next_seq = 0
        query = plan.query
        self._streams = [s.stream.name for s in sorted(query.sources, key=lambda s: s.position)]
        self._streams = list(dict.fromkeys(self._streams))
        self._readers = {n: [s.alias for s in query.sources if s.stream.name == n] for n in self._streams}

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
        arrivals, end = self._number(rows)
        for low in range(self.next_seq, end, SLICE_ROWS):
            piece = {}
            for alias, arrival in arrivals.items():
                start, stop = np.searchsorted(arrival.seqs, [low, low + SLICE_ROWS])
                piece[alias] = arrival.between(int(start), int(stop))
            now = min(int(a.times[0]) for a in piece.values() if len(a))
            yield self._run(piece, now, low - 1)
        self.next_seq = end

    def _number(self, rows: dict[str, StreamRows]) -> tuple[dict[str, Arrival], int]:
        """Give every row its sequence numbers: by time, then stream in declaration order, then offset, then alias."""
        lengths = [len(rows[n].times) for n in self._streams]
        copies = np.array([len(self._readers[n]) for n in self._streams], np.int64)
        times = np.concatenate([rows[n].times for n in self._streams])
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        seqs = merge_streams(times, starts, copies, self.next_seq)
        arrivals = {}
        for k, name in enumerate(self._streams):
            first = seqs[starts[k] : starts[k + 1]]
            table = rows[name].rows
            arrays = {c: _whole(table.column(c)) for c in table.column_names}
            for place, alias in enumerate(self._readers[name]):
                used = {c: arrays[c] for c in self.plan.query.columns_of(alias)}
                arrivals[alias] = Arrival(rows[name].times, first + place, used)
        ordered = {alias: arrivals[alias] for alias in self.plan.query.aliases}
        return ordered, self.next_seq + int(np.dot(copies, lengths))

    def _run(self, arrivals: dict[str, Arrival], now_us: int, seq: int) -> Results:
        if self.buckets == 1:
            return self.pipelines[0].on_rows(arrivals, now_us, seq)
        places = {alias: self._buckets_of(alias, a) for alias, a in arrivals.items()}
        parts = []
        for bucket, pipeline in enumerate(self.pipelines):
            mine = {}
            for alias, arrival in arrivals.items():
                place = places[alias]
                mine[alias] = arrival if place is None else arrival.where(place == bucket)
            parts.append(pipeline.on_rows(mine, now_us, seq, ordered=True))
        return merge_results(parts)

    def _buckets_of(self, alias: str, arrival: Arrival) -> npt.NDArray[np.int64] | None:
        """Return the bucket of each row, or None when rows go to every bucket."""
        partitioning = self.plan.partitioning
        if alias in partitioning.broadcast:
            return None
        if alias == partitioning.by_row:
            return arrival.seqs % self.buckets
        expr = dict(partitioning.hashed)[alias]
        assert partitioning.type is not None
        values = evaluate(cast_to(expr, partitioning.type), len(arrival), lambda c: arrival.columns[c.name])
        codes = code(values)
        places = bucket_of(codes.values, self.buckets)
        return places if codes.valid is None else np.where(codes.valid, places, 0)


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
