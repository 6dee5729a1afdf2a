"""The engine: declare streams, ask queries, run them.

engine = Engine()
engine.stream("orders", table, time="ts")
run = engine.query("SELECT ...").start()
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from midstream.lang.builder import QueryBuilder
from midstream.lang.sql import parse_query
from midstream.model.errors import MidstreamError
from midstream.model.stream import StreamSchema
from midstream.model.time import parse_duration
from midstream.plan.plan import Plan
from midstream.runtime.loop import Loop, output_schema
from midstream.runtime.replay import make_plan
from midstream.runtime.report import Report
from midstream.runtime.sinks import FileSink, Sink, TableSink
from midstream.runtime.sources import RecordedStream, open_recorded, recorded_table


class FunctionSink:
    """Results handed to a function, one record batch at a time."""

    def __init__(self, function: Callable[[pa.RecordBatch], None]) -> None:
        self.write = function

    def commit(self) -> None:
        """Do nothing: the function has seen everything."""

    def abort(self) -> None:
        """Do nothing: what the function has seen cannot be taken back."""


class Engine:
    """Declared streams, in declaration order, and the queries asked of them. `Engine()` runs in process,
    `Engine(spark)` on Spark.
    """

    def __init__(self, spark: Any = None) -> None:
        self._spark = spark
        self._streams: dict[str, RecordedStream] = {}
        self._frames: dict[str, SparkStream] = {}

    def stream(self, name: str, data: Any, time: str, lateness: str | int = 0) -> "Engine":
        """Declare a stream: a file, a table or what hands out Arrow; on Spark a streaming DataFrame."""
        if name in self._streams or name in self._frames:
            raise MidstreamError(f"stream '{name}' is declared twice")
        if self._spark is not None:
            self._frames[name] = spark_stream(name, data, time, parse_duration(lateness))
            return self
        open_it = open_recorded if isinstance(data, str | Path) else recorded_table
        place = Path(data) if isinstance(data, str) else data
        self._streams[name] = open_it(name, place, time, parse_duration(lateness))
        return self

    def query(
        self, query: "str | QueryBuilder", name: str = "query", plan: str | None = None, join: str = "auto"
    ) -> "PlannedQuery | SparkQuery":
        """Plan a query given as SQL text or by the builder; `plan` is a join order such as `((a b) c)`."""
        catalog = [s.schema for s in self._streams.values()] + [s.schema for s in self._frames.values()]
        if not isinstance(query, str | QueryBuilder):
            raise MidstreamError(f"a query is SQL text or a builder, not {type(query).__name__}")
        bound = parse_query(query, catalog) if isinstance(query, str) else query.bind(catalog)
        planned = make_plan(bound, plan, join)
        if self._spark is not None:
            return SparkQuery(self._spark, name, planned, tuple(self._frames.values()))
        return PlannedQuery(name, planned, tuple(self._streams.values()))


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
    from midstream.runtime.spark.graph import arrow_schema  # PySpark is an extra

    return SparkStream(StreamSchema(name, arrow_schema(frame), time), frame, lateness_us)


class SparkQuery:
    """A query ready to run on Spark."""

    def __init__(self, spark: Any, name: str, plan: Plan, streams: tuple[SparkStream, ...]) -> None:
        self.name = name
        self.plan = plan
        self._spark = spark
        self._streams = streams

    def explain(self) -> str:
        """Return the plan as people read it."""
        return self.plan.explain()

    def start(
        self,
        sink: Any,
        checkpoint: str | Path,
        buckets: int | None = None,
        ordered: bool = False,
        trigger: dict[str, Any] | None = None,
    ) -> Any:
        """Start the query, or go on where its checkpoint left off.

        `sink` is a folder for Parquet, a function of (DataFrame, batch number), or {"format": ..., options}. `buckets`
        is one per core unless given. `ordered` brings each micro-batch's results into max order. `trigger` is what
        Spark's `trigger` takes, such as {"processingTime": "1 second"} or {"availableNow": True}.
        """
        from midstream.runtime.spark.run import SparkRun  # PySpark is an extra

        frames = {s.schema.name: s.frame for s in self._streams}
        lateness = {s.schema.name: s.lateness_us for s in self._streams}
        return SparkRun(
            self._spark, self.name, self.plan, frames, lateness, sink, checkpoint, buckets, ordered, trigger
        )


class PlannedQuery:
    """A query ready to run in process."""

    def __init__(self, name: str, plan: Plan, streams: tuple[RecordedStream, ...]) -> None:
        self.name = name
        self.plan = plan
        self.streams = streams

    def explain(self) -> str:
        """Return the plan as people read it."""
        return self.plan.explain()

    def start(
        self,
        sink: "str | Path | Callable[[pa.RecordBatch], None] | None" = None,
        batch: str | int = "1 second",
        buckets: int = 1,
    ) -> "Run":
        """Run over the recorded streams to their end; results go to a file, a function, or memory (`run.table()`)."""
        schema = output_schema(self.plan)
        target: Sink
        if sink is None:
            target = TableSink(schema)
        elif isinstance(sink, str | Path):
            target = FileSink(Path(sink), schema)
        else:
            target = FunctionSink(sink)
        try:
            report = Loop(self.plan, self.streams, parse_duration(batch), buckets).run(target)
            target.commit()
        except BaseException:
            target.abort()
            raise
        return Run(self, report, target)


class Run:
    """A run that has ended: its results and what happened."""

    def __init__(self, query: PlannedQuery, report: Report, sink: Sink) -> None:
        self.query = query
        self.report = report
        self._sink = sink

    def table(self) -> pa.Table:
        """Return the results of a run without a sink."""
        if not isinstance(self._sink, TableSink):
            raise MidstreamError(f"the results of '{self.query.name}' went to its sink, not to memory")
        return self._sink.table()

    def explain(self) -> str:
        """Return the plan as people read it."""
        return self.query.explain()

    def status(self) -> dict[str, Any]:
        """Return where the run stands, as plain values."""
        r = self.report
        return {
            "name": self.query.name,
            "state": "ended",
            "plan": str(self.query.plan),
            "rows_in": r.rows_in,
            "rows_out": r.rows_out,
            "late": r.late,
        }
