"""The processor: hosts a bucket inside Spark's transformWithState, on its state store."""

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from midstream.migrate.warm import load_kernels
from midstream.spark.bucket import Bucket, BucketSpec, Packed
from midstream.spark.hop_bucket import HopBucket, HopBucketSpec
from midstream.spark.pack import CONTROL, TICK, UNTIMED

OUTPUT = "bucket int, kind int, rows long, blob binary"
"""The columns a processor gives out."""


class SparkStore:
    """One bucket's durable state in Spark's state store: a value for the head, a map for the chunks."""

    def __init__(self, head: Any, chunks: Any) -> None:
        self._head = head
        self._chunks = chunks

    def read_head(self) -> bytes | None:
        """Return the head, or None in the first batch."""
        held = self._head.get()
        return None if held is None else bytes(held[0])

    def write_head(self, head: bytes) -> None:
        """Replace the head."""
        self._head.update((head,))

    def read(self, alias: int, chunk: int) -> bytes:
        """Return a chunk."""
        return bytes(self._chunks.getValue((alias, chunk))[0])

    def write(self, alias: int, chunk: int, blob: bytes) -> None:
        """Add or replace a chunk."""
        self._chunks.updateValue((alias, chunk), (blob,))

    def remove(self, alias: int, chunk: int) -> None:
        """Remove a chunk."""
        self._chunks.removeKey((alias, chunk))


class BucketProcessor(StatefulProcessor):
    """Runs once per bucket and micro-batch; every bucket gets at least a tick."""

    def __init__(self, spec: BucketSpec | HopBucketSpec) -> None:
        self._spec = spec

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state, and load in the first micro-batch of a worker what a migration will need."""
        if isinstance(self._spec, BucketSpec):
            load_kernels(self._spec.plan)
        self._head = handle.getValueState("head", "blob binary")
        self._chunks = handle.getMapState("rows", "alias int, chunk long", "blob binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Process one micro-batch of one bucket."""
        label = int(key[0])
        store = SparkStore(self._head, self._chunks)
        bucket: Bucket | HopBucket
        if isinstance(self._spec, HopBucketSpec):
            bucket = HopBucket(self._spec, label, store)
        else:
            bucket = Bucket(self._spec, label, store)
        for kind, count, blob in bucket.on_batch(_packed(rows)):
            yield Row(bucket=label, kind=kind, rows=count, blob=blob)

    def close(self) -> None:
        """Nothing to close: state belongs to Spark."""


def _packed(rows: Iterator[Row]) -> Packed:
    packed = Packed()
    for row in rows:
        if row.alias == TICK:
            packed.high[row.part] = max(row.high, packed.high.get(row.part, row.high))
            if row.blob is not None:
                low = int.from_bytes(bytes(row.blob), "little", signed=True)
                packed.low[row.part] = min(low, packed.low.get(row.part, low))
        elif row.alias == UNTIMED:
            packed.untimed += row.high
        elif row.alias == CONTROL:
            packed.controls.append(json.loads(bytes(row.blob)))
        else:
            packed.rows.setdefault(row.alias, []).append((row.part, bytes(row.blob)))
    packed.controls.sort(key=lambda c: c["id"])
    return packed
