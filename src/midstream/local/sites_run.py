"""Run a join over sites in this process: recorded streams, sites on a simulated network, results in max order.

    readers ──▶ micro-batches of event time ──▶ sites ⇄ simulated links ──▶ results ──▶ sink
                                                   └──▶ messages by kind, bytes by link, modifications ──▶ report

The network's time is that of the rows: a micro-batch comes to its sites when its event time is over. Latencies and
bandwidths of links have a say in when plans change, and in nothing else: rows and their order are those of one machine.
"""

import time
from typing import Any

import pyarrow as pa

from midstream.engine.results.reports import BatchSummary
from midstream.engine.rows.rows import Rows
from midstream.local.explain_sites import explain_sites
from midstream.local.loop import Loop, OnLate, Progress
from midstream.local.report import Report
from midstream.local.sinks import Sink
from midstream.local.width import describe
from midstream.model.batch import Results
from midstream.model.time import FOREVER
from midstream.sites.node import Node
from midstream.sites.partials import Part
from midstream.sites.query import JoinedQuery
from midstream.sites.simulation import Faults, Simulation
from midstream.sites.start import Setup

STEADY, MIGRATING = "steady", "migrating (distributed track)"


def run_over_sites(
    loop: Loop, sink: Sink, progress: Progress | None, on_late: OnLate | None, faults: Faults | None = None
) -> Report:
    """Run a loop whose streams arrive at sites to its end; results go to the sink, which is not committed."""
    running = _Running(loop, sink, on_late, faults)
    while running.step():
        if progress is not None:
            progress(running.report.rows_in)
    return running.finish()


class _Running:
    """A run over sites between two micro-batches."""

    def __init__(self, loop: Loop, sink: Sink, on_late: OnLate | None, faults: Faults | None) -> None:
        assert loop.sites is not None, "a loop over sites knows them"
        self._started = time.perf_counter()
        self._loop, self._sink = loop, sink
        self._readers = loop.readers(on_late)
        streams = explain_sites(loop.plan, loop.sites, loop.streams).streams
        setup = Setup(JoinedQuery(loop.plan), loop.sites, streams)
        self.simulation = Simulation(setup, faults, self._leave)
        self.report = Report(buckets=len(setup.names), partitioning=f"by site: {', '.join(setup.names)}")
        self.report.batch = describe(loop.batch_us)
        self._first_us: int | None = None
        self._rows_out = self._tested = 0

    def _leave(self, results: Results) -> None:
        version = pa.array([1] * len(results), pa.int64())
        rows = results.rows
        self._sink.write(pa.RecordBatch.from_arrays([*rows.columns, version], names=[*rows.schema.names, "_version"]))
        self._rows_out += len(results)

    def step(self) -> bool:
        """Run the next micro-batch; return whether there was one."""
        earliest = min(reader.next_time() for reader in self._readers.values())
        if earliest == FOREVER:
            return False
        started = time.perf_counter()
        end = self._loop.batch_end(earliest, self._readers, (self._loop.plan,))
        rows = {name: reader.until(end) for name, reader in self._readers.items()}
        if self._first_us is None:
            self._first_us = earliest
        at_us = end - self._first_us
        self._bring(rows, end, at_us)
        self.simulation.run_until(at_us)
        self._add(end, sum(map(len, rows.values())), started)
        return True

    def _bring(self, rows: dict[str, Rows], upto_us: int, at_us: int) -> None:
        query = self._loop.plan.query
        for source in query.sources:
            mine = rows[source.stream.name]
            columns = {name: mine.columns[name] for name in query.columns_of(source.alias)}
            self.simulation.bring(source.alias, Part(mine.times, mine.offsets, columns), upto_us, at_us)

    def _add(self, end_us: int, rows_in: int, started: float) -> None:
        """Report what has happened since the last micro-batch."""
        nodes = [n for p in self.simulation.places.values() for n in p.site.nodes.values() if isinstance(n, Node)]
        tested = sum(node.pairs_tested for node in nodes)
        windows = [window for node in nodes for window in node.windows.values()]
        summary = BatchSummary(
            predicate_evaluations=tested - self._tested,
            state_tuples=sum(w.rows for w in windows),
            state_bytes=sum(w.nbytes for w in windows),
            plan=f"plan {self.simulation.modifications.latest}",
            phase=MIGRATING if any(n.migration is not None for n in nodes) else STEADY,
        )
        rows_out = self._rows_out - self.report.rows_out
        self.report.rows_out, self._tested = self._rows_out, tested
        self.report.add(end_us, rows_in, rows_out, summary, 0, time.perf_counter() - started)

    def finish(self) -> Report:
        """Let everything arrive that is on its way, and complete the report."""
        started = time.perf_counter()
        self.simulation.run_until()
        none = {name: reader.until(FOREVER) for name, reader in self._readers.items()}
        self._bring(none, FOREVER, self.simulation.now_us)
        self.simulation.run_until()
        if self._rows_out > self.report.rows_out:
            self._add(self.report.batches[-1].end, 0, started)
        self.report.set_aside(self._readers)
        self.report.sites = sites_report(self.simulation)
        self.report.end(self._started)
        return self.report


def sites_report(simulation: Simulation) -> dict[str, Any]:
    """Return what a report says of sites: messages by kind, bytes by link, modifications."""
    counts = simulation.counts
    return {
        "messages": dict(sorted(counts.messages.items())),
        "bytes": {f"{source} -> {target}": n for (source, target), n in sorted(counts.sent_bytes.items())},
        "modifications": simulation.modifications.to_json(),
    }
