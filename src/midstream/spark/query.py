"""A query that was planned for Spark, and the streaming DataFrames it may read. Needs no PySpark by itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from midstream.model.errors import MidstreamError
from midstream.model.stream import StreamSchema
from midstream.plan.aggregates import UserAggregate
from midstream.plan.plan import Plan


@dataclass(frozen=True)
class SparkStream:
    """A declared streaming DataFrame."""

    schema: StreamSchema
    frame: Any
    lateness_us: int


def spark_stream(name: str, frame: Any, time: str, lateness_us: int) -> SparkStream:
    """Check a streaming DataFrame and take its schema."""
    if not getattr(frame, "isStreaming", False):
        raise MidstreamError(f"stream '{name}' is not a streaming DataFrame; make it with spark.readStream")
    if lateness_us < 0:
        raise MidstreamError(f"stream '{name}': lateness cannot be negative")
    from midstream.spark.graph import arrow_schema  # PySpark is an extra

    return SparkStream(StreamSchema(name, arrow_schema(frame), time), frame, lateness_us)


@dataclass(frozen=True)
class PlannedOnSpark:
    """A query that can be started on Spark, with all that later versions of it may use."""

    spark: Any
    name: str
    plan: Plan
    streams: tuple[SparkStream, ...]
    planner: Callable[[Any, str | None, str], Plan]
    """Plans another query over the same streams."""
    aggregates: Mapping[str, UserAggregate]
