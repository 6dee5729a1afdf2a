"""The engine: declare streams, ask queries, run them.

engine = Engine()
engine.stream("orders", table, time="ts")
run = engine.query("SELECT ...").start()
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from midstream.lang.builder import QueryBuilder
from midstream.lang.sql import parse_query
from midstream.model.errors import MidstreamError
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
    """Declared streams, in declaration order, and the queries asked of them. `Engine()` runs in process."""

    def __init__(self, spark: Any = None) -> None:
        if spark is not None:
            raise MidstreamError("Engine(spark) is not supported yet; Engine() runs in process")
        self._streams: dict[str, RecordedStream] = {}

    def stream(self, name: str, data: Any, time: str, lateness: str | int = 0) -> "Engine":
        """Declare a stream: a Parquet or CSV file, an Arrow table, or anything that hands out Arrow."""
        if name in self._streams:
            raise MidstreamError(f"stream '{name}' is declared twice")
        open_it = open_recorded if isinstance(data, str | Path) else recorded_table
        place = Path(data) if isinstance(data, str) else data
        self._streams[name] = open_it(name, place, time, parse_duration(lateness))
        return self

    def query(
        self, query: "str | QueryBuilder", name: str = "query", plan: str | None = None, join: str = "auto"
    ) -> "PlannedQuery":
        """Plan a query given as SQL text or by the builder; `plan` is a join order such as `((a b) c)`."""
        catalog = [s.schema for s in self._streams.values()]
        if not isinstance(query, str | QueryBuilder):
            raise MidstreamError(f"a query is SQL text or a builder, not {type(query).__name__}")
        bound = parse_query(query, catalog) if isinstance(query, str) else query.bind(catalog)
        return PlannedQuery(name, make_plan(bound, plan, join), tuple(self._streams.values()))


class PlannedQuery:
    """A query ready to run."""

    def __init__(self, name: str, plan: Plan, streams: tuple[RecordedStream, ...]) -> None:
        self.name = name
        self.plan = plan
        self._streams = streams

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
            report = Loop(self.plan, self._streams, parse_duration(batch), buckets).run(target)
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
