"""The loop: micro-batches of event time from readers through a runtime to a sink, with a report."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from midstream.model.errors import MidstreamError
from midstream.plan.plan import Plan
from midstream.runtime.arrivals import FOREVER, StreamReader
from midstream.runtime.local import LocalRuntime
from midstream.runtime.report import BatchReport, Report
from midstream.runtime.sinks import Sink
from midstream.runtime.sources import RecordedStream, StreamRows

MOST_BUCKETS = 4096
Progress = Callable[[int], None]
"""Told after each micro-batch how many rows have been taken in."""


def output_schema(plan: Plan) -> pa.Schema:
    """Return the columns of a query's output file."""
    return plan.query.schema.append(pa.field("_time", pa.int64())).append(pa.field("_version", pa.int64()))


@dataclass(frozen=True)
class Loop:
    """A plan, the recorded streams it reads and how wide its micro-batches are."""

    plan: Plan
    streams: Sequence[RecordedStream]
    batch_us: int
    buckets: int

    def __post_init__(self) -> None:
        if self.batch_us <= 0:
            raise MidstreamError(f"batch must be longer than nothing, not {self.batch_us} microseconds")
        if type(self.buckets) is not int or not 1 <= self.buckets <= MOST_BUCKETS:
            raise MidstreamError(f"buckets must be a whole number from 1 to {MOST_BUCKETS}, not {self.buckets}")

    def run(
        self,
        sink: Sink,
        progress: Progress | None = None,
        on_late: Callable[[str, StreamRows], None] | None = None,
    ) -> Report:
        """Run until every stream has ended. The sink is written to, not committed."""
        started = time.perf_counter()
        runtime = LocalRuntime(self.plan, self.buckets)
        report = Report(buckets=runtime.buckets, partitioning=str(self.plan.partitioning))
        readers = self.readers(on_late)
        while (earliest := min(r.next_time() for r in readers.values())) < FOREVER:
            end = (earliest // self.batch_us + 1) * self.batch_us
            rows = {name: reader.until(end) for name, reader in readers.items()}
            batch = self._batch(runtime, rows, end, sink)
            if batch is not None:
                report.batches.append(batch)
                report.rows_in += batch.rows_in
                report.rows_out += batch.rows_out
            if progress is not None:
                progress(report.rows_in)
        report.late_by_stream = {name: reader.late for name, reader in readers.items()}
        report.late = sum(report.late_by_stream.values())
        report.wall_s = time.perf_counter() - started
        return report

    def readers(self, on_late: Callable[[str, StreamRows], None] | None) -> dict[str, StreamReader]:
        """Return a reader for each stream the query uses, in declaration order."""
        query = self.plan.query
        readers = {}
        for stream in self.streams:
            name = stream.schema.name
            aliases = [s.alias for s in query.sources if s.stream.name == name]
            if not aliases:
                continue
            used = {c for a in aliases for c in query.columns_of(a)}
            # Late rows are kept whole, so that they can be looked at or replayed.
            whole = on_late is not None
            names = stream.schema.columns.names
            columns = [c for c in names if c in used or (whole and stream.schema.type_of(c) is not None)]
            readers[name] = StreamReader(stream, columns, _for(name, on_late))
        return readers

    def _batch(self, runtime: LocalRuntime, rows: dict[str, StreamRows], end: int, sink: Sink) -> BatchReport | None:
        rows_in = sum(len(r.times) for r in rows.values())
        if not rows_in:
            return None
        started = time.perf_counter()
        tested = runtime.predicate_evaluations
        rows_out = 0
        for results in runtime.on_rows(rows):
            rows_out += len(results)
            sink.write(_versioned(results.rows, 1))
        size = runtime.size()
        return BatchReport(
            end=end,
            rows_in=rows_in,
            rows_out=rows_out,
            predicate_evaluations=runtime.predicate_evaluations - tested,
            state_tuples=size.tuples,
            state_bytes=size.nbytes,
            wall_ms=(time.perf_counter() - started) * 1000,
            plan=str(self.plan),
            phase="steady",
        )


def _for(name: str, on_late: Callable[[str, StreamRows], None] | None) -> Callable[[StreamRows], None] | None:
    return None if on_late is None else lambda rows: on_late(name, rows)


def _versioned(rows: pa.RecordBatch, version: int) -> pa.RecordBatch:
    return rows.append_column("_version", pa.repeat(pa.scalar(version, pa.int64()), rows.num_rows))
