"""The processor: hosts buckets inside Spark's transformWithState, on its state store."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from midstream.engine.bucket.bucket import Bucket
from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.bucket.store import Key
from midstream.engine.rows.packed import Packed
from midstream.engine.rows.rows import Rows
from midstream.engine.run.family import family_of
from midstream.model.failpoint import reach
from midstream.spark.blobs import from_blob, to_blob
from midstream.spark.lines import to_lines
from midstream.spark.mapped import MappedMemory
from midstream.spark.pack import CONTROL, ROWS, TICK, UNTIMED

OUTPUT = "bucket int, kind int, rows long, blob binary"
"""The columns a processor emits."""


class SparkStore:
    """One bucket's durable state in Spark's state store: a value for the head, a map for the tables."""

    def __init__(self, head: Any, tables: Any) -> None:
        self._head = head
        self._tables = tables

    def read_head(self) -> str | None:
        """Return the head, or None before the first micro-batch."""
        held = self._head.get()
        return None if held is None else str(held[0])

    def write_head(self, head: str) -> None:
        """Replace the head."""
        self._head.update((head,))

    def read(self, key: Key) -> pa.Table:
        """Return a table."""
        return from_blob(bytes(self._tables.getValue(tuple(key))[0]))

    def write(self, key: Key, table: pa.Table) -> None:
        """Add or replace a table."""
        self._tables.updateValue(tuple(key), (to_blob(table),))

    def remove(self, key: Key) -> None:
        """Remove a table."""
        self._tables.removeKey(tuple(key))


class BucketProcessor(StatefulProcessor):
    """Runs once per bucket and micro-batch; every bucket gets at least a tick."""

    def __init__(self, spec_of: Callable[[int], BucketSpec], mapped_folder: str) -> None:
        self._spec_of = spec_of
        self._mapped_folder = mapped_folder

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._head = handle.getValueState("head", "state string")
        self._tables = handle.getMapState("rows", "kind string, version int, place int, chunk long", "blob binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Process one micro-batch of one bucket."""
        label = int(key[0])
        spec = self._spec_of(label)
        # What a migration will need is loaded in the first micro-batch of a worker.
        family_of(spec.plan_of(1)).load_kernels(spec.plan_of(1))
        with MappedMemory(Path(self._mapped_folder) / str(label)) as memory:
            bucket = Bucket(spec, label, SparkStore(self._head, self._tables), memory)
            reach("bucket opened")
            output = bucket.on_batch(_packed(rows, spec))
        reach("bucket done")
        for kind, count, blob in to_lines(output):
            yield Row(bucket=label, kind=kind, rows=count, blob=blob)

    def close(self) -> None:
        """Nothing to close: state belongs to Spark."""


def _packed(rows: Iterator[Row], spec: BucketSpec) -> Packed:
    """Return what the lines of a micro-batch bring to a bucket."""
    packed = Packed()
    for row in rows:
        if row.kind == TICK:
            packed.high[row.part] = max(row.high, packed.high.get(row.part, row.high))
            said = json.loads(bytes(row.blob)) if row.blob is not None else {}
            if said.get("low") is not None:
                packed.low[row.part] = min(said["low"], packed.low.get(row.part, said["low"]))
            if said.get("clock_us") is not None:
                packed.clock_us = max(said["clock_us"], packed.clock_us or said["clock_us"])
            packed.last |= said.get("last", False)
        elif row.kind == UNTIMED:
            packed.untimed += row.high
        elif row.kind == CONTROL:
            packed.controls.append(json.loads(bytes(row.blob)))
        elif row.kind == ROWS:
            query = spec.plan_of(row.version).query
            names = query.columns_of(query.sources[row.alias].alias)
            mine = Rows.of_table(from_blob(bytes(row.blob)), names)
            packed.rows.setdefault((row.version, row.alias), []).append((row.part, mine))
    packed.controls.sort(key=lambda c: c["id"])
    return packed
