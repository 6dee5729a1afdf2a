"""Hop meeting: where the answers of all buckets at a hop become one, on the driver.

answers and events of all buckets ──▶ by hop ──▶ in the order of values ──▶ hop by hop to the sink

It has no state: all buckets answer a hop in the same micro-batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from midstream.local.loop import output_schema
from midstream.operators.hopping.emission import merged
from midstream.plan.plan import Plan


@dataclass(frozen=True)
class HopAnswer:
    """What leaves at a hop: the whole answer, or how it has changed."""

    hop_us: int
    rows: pa.RecordBatch


class HopMeeting:
    """Brings the answers of the buckets of one query together."""

    def __init__(self, plan: Plan, labels: tuple[int, ...]) -> None:
        self.schema = output_schema(plan)
        self._columns = len(plan.query.schema)
        self._labels = labels

    def on_batch(self, tables: Sequence[pa.Table], events: Sequence[dict[str, Any]]) -> list[HopAnswer]:
        """Return the answer at every hop of a micro-batch, in order; also where it is empty.

        Not where nothing was there before and no window holds a row, in any bucket.
        """
        if not events:
            return []
        self._check(events)
        parts: dict[int, list[pa.RecordBatch]] = {hop: [] for e in events for hop in e["hops"]}
        for table in tables:
            hop_us = table.column("_hop")[0].as_py()
            parts[hop_us] += table.combine_chunks().to_batches()
        return [HopAnswer(hop, self._whole(parts[hop])) for hop in sorted(parts)]

    def _whole(self, answers: list[pa.RecordBatch]) -> pa.RecordBatch:
        return merged(answers, self._columns) if answers else pa.RecordBatch.from_pylist([], self.schema)

    def _check(self, events: Sequence[dict[str, Any]]) -> None:
        """A hop leaves when all buckets have answered it, which they do in the same micro-batch."""
        assert {e["bucket"] for e in events} == set(self._labels), "every bucket tells of every micro-batch"
        where = {(e["passed"], e["next_us"]) for e in events}
        assert len(where) == 1, f"buckets are at different hops: {where}"
