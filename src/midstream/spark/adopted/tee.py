"""Tee: one streaming query that writes the rows of all sources into the journal, a segment per micro-batch."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from midstream.live.adopted.journal import STREAM, column_of_stream
from midstream.model.errors import MidstreamError
from midstream.spark.graph import column_of
from midstream.spark.query import SparkStream


class Streams(dict[str, Any]):
    """The streams of a program by name.

    >>> Streams({"orders": 1, "prices": 2})["order"]
    Traceback (most recent call last):
    midstream.model.errors.MidstreamError: there is no stream 'order'; there are orders, prices
    """

    def __missing__(self, name: str) -> Any:
        raise MidstreamError(f"there is no stream '{name}'; there are {', '.join(self)}")


def journal_schema(streams: Sequence[SparkStream]) -> StructType:
    """Return the columns of the journal: the name of a stream, and a column for the rows of each."""
    rows = [StructField(column_of_stream(k), stream.frame.schema, True) for k, stream in enumerate(streams)]
    return StructType([StructField(STREAM, StringType(), True), *rows])


def all_rows(streams: Sequence[SparkStream]) -> DataFrame:
    """Return the rows of all streams as one DataFrame in the form of the journal."""
    schema = journal_schema(streams)
    packed = []
    for place, stream in enumerate(streams):
        own = column_of_stream(place)
        values = [
            F.struct(*[column_of(c) for c in stream.frame.columns]).alias(own)
            if field.name == own
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in schema.fields[1:]
        ]
        packed.append(stream.frame.select(F.lit(stream.schema.name).alias(STREAM), *values))
    return reduce(DataFrame.unionByName, packed)


def streams_of(spark: SparkSession, place: str, streams: Sequence[SparkStream]) -> dict[str, DataFrame]:
    """Return the streams as a version reads them: all of them from one source, a segment per micro-batch."""
    reader = spark.readStream.schema(journal_schema(streams)).option("maxFilesPerTrigger", 1)
    source: Any = reader.option("pathGlobFilter", "*.parquet").parquet(place)
    found = Streams()
    for k, stream in enumerate(streams):
        own, name = column_of_stream(k), stream.schema.name
        columns = [F.col(own).getField(c).alias(c) for c in stream.frame.columns]
        found[name] = source.where(F.col(STREAM) == name).select(*columns)
    return found
