"""Outlet: from the lines of a micro-batch to the sink. Results leave from the workers, or from the driver if they met.

lines ──▶ results ──▶ sink
      └─▶ events, late rows ──▶ the driver
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from midstream.local.loop import output_schema
from midstream.plan.plan import Plan
from midstream.spark.blobs import from_blob
from midstream.spark.course import order_columns
from midstream.spark.sinks import BatchSink, ParquetFolder
from midstream.spark.version_bucket import RESULT


class Outlet:
    """Gives the results of micro-batches to a sink; `ordered` brings those of each into max order."""

    def __init__(self, spark: SparkSession, sink: BatchSink, ordered: bool) -> None:
        self._spark = spark
        self._sink = sink
        self.ordered = ordered

    def write(self, lines: DataFrame, plan: Plan, number: int) -> list[Row]:
        """Give out the results among the lines of a micro-batch, all of one version; return the other lines."""
        if isinstance(self._sink, ParquetFolder) and not self.ordered:
            return self._sink.write_lines(lines, output_schema(plan), number)
        lines.persist()
        try:
            self._sink.write(self._results(lines, plan), number)
            return list(lines.where(F.col("kind") != RESULT).select("kind", "blob").collect())
        finally:
            lines.unpersist()

    def write_tables(self, tables: list[pa.Table], plan: Plan, number: int) -> None:
        """Give out results that are here already, in order."""
        if isinstance(self._sink, ParquetFolder):
            self._sink.write_tables(tables, number)
            return
        nothing = output_schema(plan).empty_table()
        whole = pa.concat_tables(tables, promote_options="default") if tables else nothing
        self._sink.write(self._spark.createDataFrame(whole), number)

    def _results(self, lines: DataFrame, plan: Plan) -> DataFrame:
        order = order_columns(plan.query) if self.ordered else []
        full = pa.schema([*output_schema(plan), *((n, pa.int64()) for n in order)])
        blobs = lines.where(F.col("kind") == RESULT).select("blob")
        rows = blobs.mapInArrow(_Unpacker(full), from_arrow_schema(full))
        return rows.orderBy(*order).drop(*order) if order else rows


class _Unpacker:
    """Turns result blobs into rows, in the workers."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack the blobs of one partition."""
        for batch in batches:
            for blob in batch.column(0):
                for rows in from_blob(blob.as_buffer()).to_batches():
                    yield rows.select(self._schema.names)
