"""The lines of a micro-batch as Spark has them: a DataFrame, with its results still in the workers.

workers: rows ──▶ lines ─────────────┐
driver: what they read is synced ────┴▶ lines are handed on: from here on somebody may see results
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from midstream.engine.results.output import ORDER
from midstream.live.blobs import from_blob
from midstream.live.lines import RESULT, PartWriter


class SparkLines:
    """The lines of one micro-batch."""

    def __init__(self, frame: DataFrame, kept: Callable[[], object] = lambda: None) -> None:
        """`kept` returns when what the micro-batch reads would outlast a power cut: nobody sees results before."""
        self.frame = frame
        self._kept = kept

    def collect(self) -> list[Any]:
        """Return all lines."""
        lines = self.frame.select("bucket", "kind", "blob").collect()
        self._kept()
        return list(lines)

    def written(self, write: PartWriter) -> list[Any]:
        """Let `write` take the lines of each partition in its worker; return those it hands on. One job."""
        frame = self.frame.select("bucket", "kind", "blob")
        lines = frame.mapInArrow(_InWorker(write), "bucket int, kind int, blob binary").collect()
        self._kept()
        return list(lines)

    def others(self) -> list[Any]:
        """Return all lines that are no results."""
        return list(self.frame.where(F.col("kind") != RESULT).select("bucket", "kind", "blob").collect())

    def results(self, schema: pa.Schema, ordered: bool) -> DataFrame:
        """Return the results as rows."""
        self._kept()  # whoever gets the frame decides when it is computed
        full = pa.schema([*schema, (ORDER, pa.list_(pa.int64()))]) if ordered else schema
        blobs = self.frame.where(F.col("kind") == RESULT).select("blob")
        rows = blobs.mapInArrow(_Unpacker(full), from_arrow_schema(full))
        return rows.orderBy(ORDER).drop(ORDER) if ordered else rows


class _InWorker:
    """Hands the lines of one partition to a writer, with the number of the partition."""

    def __init__(self, write: PartWriter) -> None:
        self._write = write

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take one partition."""
        yield from self._write(batches, TaskContext.get().partitionId())


class _Unpacker:
    """Turns result blobs into rows, in the workers."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack the blobs of one partition."""
        for batch in batches:
            for blob in batch.column(0):
                for rows in from_blob(blob.as_buffer()).to_batches():
                    yield rows.select(self._schema.names).replace_schema_metadata()
