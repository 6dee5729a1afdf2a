"""The loop: micro-batches of event time from readers through a runtime to a sink, with a report."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from midstream.migrate.request import MigrationRequest
from midstream.model.errors import MidstreamError
from midstream.operators.build import check_framework
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
    added = ("_time", "_version", "_sign") if plan.query.subtracted else ("_time", "_version")
    return pa.schema([*plan.query.schema, *(pa.field(name, pa.int64()) for name in added)])


@dataclass(frozen=True)
class Loop:
    """A plan, the recorded streams it reads and how wide its micro-batches are."""

    plan: Plan
    streams: Sequence[RecordedStream]
    batch_us: int
    buckets: int
    schedule: Sequence[MigrationRequest] = ()
    framework: str = "tree"
    routing: str = "selectivity"

    def __post_init__(self) -> None:
        check_framework(self.plan, self.framework)
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
        running = self.start(sink, on_late)
        while running.step():
            if progress is not None:
                progress(running.report.rows_in)
        return running.finish()

    def start(self, sink: Sink, on_late: Callable[[str, StreamRows], None] | None = None) -> "RunningLoop":
        """Get ready to run, one micro-batch at a time."""
        return RunningLoop(self, sink, on_late)

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


class RunningLoop:
    """A loop between two micro-batches."""

    def __init__(self, loop: Loop, sink: Sink, on_late: Callable[[str, StreamRows], None] | None) -> None:
        self._started = time.perf_counter()
        self._loop = loop
        self._sink = sink
        self._readers = loop.readers(on_late)
        self.runtime = LocalRuntime(loop.plan, loop.buckets, loop.schedule, loop.framework, loop.routing)
        self.report = Report(buckets=self.runtime.buckets, partitioning=str(loop.plan.partitioning))
        self.finished = False

    @property
    def next_us(self) -> int:
        """Return the time of the next row, or FOREVER."""
        return min(r.next_time() for r in self._readers.values())

    def step(self, before_us: int = FOREVER) -> bool:
        """Run the next micro-batch, no further than `before_us`; return whether there was one."""
        width = self._loop.batch_us
        while (earliest := self.next_us) < before_us:
            end = min((earliest // width + 1) * width, before_us)
            rows = {name: reader.until(end) for name, reader in self._readers.items()}
            batch = self._batch(rows, end)
            if batch is not None:
                self._add(batch)
                return True
        return False

    def migrate(self, request: MigrationRequest) -> None:
        """Migrate before the next row, or refuse to."""
        request.checked(self.runtime.plan)
        now_us = self.next_us
        for results in self.runtime.migrate(request, now_us):
            self._sink.write(versioned(results.rows, 1))
            self.report.rows_out += len(results)

    def finish(self) -> Report:
        """End the run: give out what is held back, and complete the report."""
        report = self.report
        if not self.finished:
            self.finished = True
            for results in self.runtime.finish():
                report.rows_out += len(results)
                self._sink.write(versioned(results.rows, 1))
            report.late_by_stream = {name: reader.late for name, reader in self._readers.items()}
            report.late = sum(report.late_by_stream.values())
            report.wall_s = time.perf_counter() - self._started
            report.migrations = [record.to_dict() for record in self.runtime.records()]
        return report

    def _add(self, batch: BatchReport) -> None:
        self.report.batches.append(batch)
        self.report.rows_in += batch.rows_in
        self.report.rows_out += batch.rows_out

    def _batch(self, rows: dict[str, StreamRows], end: int) -> BatchReport | None:
        rows_in = sum(len(r.times) for r in rows.values())
        if not rows_in:
            return None
        runtime = self.runtime
        started = time.perf_counter()
        tested = runtime.predicate_evaluations
        runtime.batch_watch.begin(end)
        phase = runtime.phase
        rows_out = 0
        for results in runtime.on_rows(rows):
            rows_out += len(results)
            self._sink.write(versioned(results.rows, 1))
            phase = runtime.phase if phase == "steady" else phase
        runtime.work()
        size = runtime.size()
        return BatchReport(
            end=end,
            rows_in=rows_in,
            rows_out=rows_out,
            predicate_evaluations=runtime.predicate_evaluations - tested,
            state_tuples=size.tuples,
            state_bytes=size.nbytes,
            wall_ms=(time.perf_counter() - started) * 1000,
            plan=str(runtime.plan),
            phase=phase,
            output_delay_us=runtime.batch_watch.delay_us,
        )


def _for(name: str, on_late: Callable[[str, StreamRows], None] | None) -> Callable[[StreamRows], None] | None:
    return None if on_late is None else lambda rows: on_late(name, rows)


def versioned(rows: pa.RecordBatch, version: int) -> pa.RecordBatch:
    """Say behind the time of each result which version of the query gave it."""
    place = rows.schema.get_field_index("_time") + 1
    return rows.add_column(place, "_version", pa.repeat(pa.scalar(version, pa.int64()), rows.num_rows))
