"""A query that was planned for Spark, and the streaming DataFrames it may read. Needs no PySpark by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from midstream.live.planned import LiveStream, PlannedLive
from midstream.model.errors import MidstreamError
from midstream.model.stream import StreamSchema
from midstream.model.timing import Timing


@dataclass(frozen=True)
class SparkStream(LiveStream):
    """A declared streaming DataFrame."""

    frame: Any


def checked_session(spark: Any) -> Any:
    """Return a Spark session, or None where there is none; refuse what is neither."""
    if spark is not None and not hasattr(spark, "readStream"):
        raise MidstreamError(f"an engine takes a SparkSession, or nothing to run in process, not {spark!r}")
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise MidstreamError("a session of Spark Connect cannot run queries; make one in this process, with a master")
    return spark


def spark_stream(name: str, frame: Any, time: str, timing: Timing) -> SparkStream:
    """Check a streaming DataFrame and take its schema."""
    if not getattr(frame, "isStreaming", False):
        raise MidstreamError(f"stream '{name}' is not a streaming DataFrame; make it with spark.readStream")
    from midstream.spark.graph import arrow_schema  # PySpark is an extra

    return SparkStream(StreamSchema(name, arrow_schema(frame), time), timing.checked(name), frame)


@dataclass(frozen=True)
class PlannedOnSpark(PlannedLive):
    """A query that can be started on Spark."""

    streams: Sequence[SparkStream]
    spark: Any
