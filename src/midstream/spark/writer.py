"""Result writer: from the lines of a micro-batch to the sink, from the workers or, where results met, from here.

lines ──▶ results ──▶ sink
      └─▶ reports, late rows ──▶ the driver
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from midstream.engine.results.merger import Departure
from midstream.engine.results.output import ORDER
from midstream.spark.blobs import from_blob
from midstream.spark.lines import RESULT
from midstream.spark.sinks import BatchSink, ParquetFolder


class ResultWriter:
    """Hands the results of micro-batches to a sink; `ordered` brings those of each into max order."""

    def __init__(self, sink: BatchSink, ordered: bool) -> None:
        self.sink = sink
        self.ordered = ordered

    def write_lines(self, lines: DataFrame, schema: pa.Schema, number: int) -> list[Row]:
        """Write the results among the lines of a micro-batch, all of one version; return the other lines."""
        if isinstance(self.sink, ParquetFolder) and not self.ordered:
            return self.sink.write_lines(lines, schema, number)
        lines.persist()
        try:
            self.sink.write_frame(self._results(lines, schema), number)
            return list(lines.where(F.col("kind") != RESULT).select("bucket", "kind", "blob").collect())
        finally:
            lines.unpersist()

    def write(self, departures: Sequence[Departure], schema: pa.Schema, number: int) -> None:
        """Write results that met, in order."""
        self.sink.write(departures, schema, number)

    def _results(self, lines: DataFrame, schema: pa.Schema) -> DataFrame:
        full = pa.schema([*schema, (ORDER, pa.list_(pa.int64()))]) if self.ordered else schema
        blobs = lines.where(F.col("kind") == RESULT).select("blob")
        rows = blobs.mapInArrow(_Unpacker(full), from_arrow_schema(full))
        return rows.orderBy(ORDER).drop(ORDER) if self.ordered else rows


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
