"""The processor: hosts buckets inside Spark's transformWithState, on its state store."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from midstream.engine.bucket.bucket import Bucket
from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.bucket.store import Key
from midstream.engine.run.family import family_of
from midstream.live.blobs import from_blob, to_blob
from midstream.live.lines import to_lines
from midstream.live.mailbox import Mailbox
from midstream.live.mapped import MappedMemory
from midstream.live.pack import unpack
from midstream.live.shared_memory import hold_query
from midstream.model.failpoint import reach

OUTPUT = "bucket int, kind int, rows long, blob binary"
"""The columns a processor emits."""


class SparkStore:
    """One bucket's durable state in Spark's state store: a value for the head, a map for the tables."""

    def __init__(self, head: Any, tables: Any) -> None:
        self._head = head
        self._tables = tables

    def read_state(self) -> str | None:
        """Return the bucket state, or None before the first micro-batch."""
        held = self._head.get()
        return None if held is None else str(held[0])

    def write_state(self, state: str) -> None:
        """Replace the bucket state."""
        self._head.update((state,))
        reach("head written")

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

    def __init__(self, spec_of: Callable[[int], BucketSpec], shared: str, mail: Mailbox | None = None) -> None:
        """`shared` names the query in the shared memory of each machine; `mail`: its buckets send messages."""
        self._spec_of = spec_of
        self._shared = shared
        self._mail = mail

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._head = handle.getValueState("head", "state string")
        self._tables = handle.getMapState("rows", "kind string, version int, place int, chunk long", "blob binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Process one micro-batch of one bucket."""
        label = int(key[0])
        spec = self._spec_of(label).of_batch(batch_number())
        # What a migration will need is loaded in the first micro-batch of a worker.
        family_of(spec.plan_of(1)).load_kernels(spec.plan_of(1))
        with MappedMemory(lambda: hold_query(self._shared) / str(label)) as memory:
            bucket = Bucket(spec, label, SparkStore(self._head, self._tables), memory)
            reach("bucket opened")
            packed = unpack(rows, spec, batch_number())
            if self._mail is not None:
                assert packed.batch is not None, "Spark says which micro-batch a task is of"
                packed.mail = self._mail.read(packed.batch, spec.labels.index(label))
                reach("mail read")
            output = bucket.on_batch(packed)
        reach("bucket done")
        for kind, count, blob in to_lines(output):
            yield Row(bucket=label, kind=kind, rows=count, blob=blob)
        reach("lines sent")

    def close(self) -> None:
        """Nothing to close: state belongs to Spark."""


def batch_number() -> int | None:
    """Return the number of the micro-batch that a task belongs to, as Spark counts them."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    return int(number) if number else None
