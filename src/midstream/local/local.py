"""The local runtime: one process, any number of buckets, the same results as one row at a time.

streams' rows ──▶ numbers ──▶ slices, cut where a change is due ──▶ buckets' pipelines ──▶ max order ──▶ results
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from midstream.engine.numbering import AliasRows, Slice, number_rows, slices, stop_at, time_of
from midstream.engine.routing import buckets_of
from midstream.engine.watch import OutputWatch
from midstream.local.sources import StreamRows
from midstream.migrate.migrator import Migrator
from midstream.migrate.record import NOT_REACHED, QUEUED, RUNNING, UNFINISHED, MigrationRecord, over_buckets
from midstream.migrate.request import MigrationRequest
from midstream.model.batch import Lineage, Results
from midstream.operators.build import TREE, build
from midstream.operators.contract.execution import StateSize
from midstream.operators.contract.pipeline import Pipeline
from midstream.plan.plan import Plan


class LocalRuntime:
    """A running query: its buckets with their states, the next sequence number, and the changes to come."""

    def __init__(
        self,
        plan: Plan,
        buckets: int = 1,
        schedule: Sequence[MigrationRequest] = (),
        framework: str = TREE,
        routing: str = "selectivity",
    ) -> None:
        self.buckets = 1 if plan.partitioning.one_bucket else buckets
        many = self.buckets > 1
        self.migrators = [Migrator(plan, build(plan, many, framework, routing), framework) for _ in range(self.buckets)]
        self._columns = {alias: plan.query.columns_of(alias) for alias in plan.query.aliases}
        self.next_seq = 0
        self.schedule = list(schedule)
        """Migrations to come, in order of their time."""
        self.batch_watch = OutputWatch()
        self._watches: dict[int, OutputWatch] = {}

    @property
    def plan(self) -> Plan:
        """Return the plan that runs, or is being migrated to."""
        return self.migrators[0].plan

    @property
    def pipelines(self) -> list[Pipeline]:
        """Return the pipelines of all buckets."""
        return [m.pipeline for m in self.migrators]

    @property
    def phase(self) -> str:
        """Return what is going on: a migration counts until it is over in all buckets."""
        return next((m.phase for m in self.migrators if m.running is not None), "steady")

    @property
    def predicate_evaluations(self) -> int:
        """Return how many pairs the joins have tested so far."""
        return sum(p.predicate_evaluations for p in self.pipelines)

    def size(self) -> StateSize:
        """Return what the states of all buckets hold now."""
        total = StateSize()
        for pipeline in self.pipelines:
            total.add(pipeline.size())
        return total

    def on_rows(self, rows: dict[str, StreamRows]) -> Iterator[Results]:
        """Take in the next rows of every stream and yield the results they complete, in max order."""
        query = self.plan.query
        arrays = {name: {c: one_array(r.rows.column(c)) for c in r.rows.column_names} for name, r in rows.items()}
        by_alias = {}
        for source in query.sources:
            mine, columns = rows[source.stream.name], arrays[source.stream.name]
            used = {c: columns[c] for c in self._columns[source.alias]}
            by_alias[source.alias] = AliasRows(mine.times, mine.offsets, used)
        arrivals = number_rows(query, by_alias, self.next_seq)
        end = self.next_seq + sum(len(a) for a in arrivals.values())
        while self.next_seq < end:
            now_us = time_of(arrivals, self.next_seq)
            yield from self._start_due(now_us)
            cuts = [m.next_cut_us() for m in self.migrators] + [r.at_us for r in self.schedule[:1]]
            stop = stop_at(arrivals, now_us, end, cuts)
            for piece in slices(arrivals, self.next_seq, stop):
                yield from self._run(piece)
            self.next_seq = stop

    def _start_due(self, now_us: int) -> Iterator[Results]:
        """Start the migrations whose time has come."""
        while self.schedule and (self.schedule[0].at_us or 0) <= now_us:
            yield from self.migrate(self.schedule.pop(0), now_us)

    def migrate(self, request: MigrationRequest, now_us: int) -> Iterator[Results]:
        """Migrate before the next row, at `now_us` or later; yield what was held back until now."""
        released = [r for m in self.migrators for r in m.advance(now_us, self.next_seq - 1)]
        yield from self._release(released, now_us)
        if request.at_us is None:
            request = replace(request, at_us=now_us)
        self._watches[len(self.migrators[0].records)] = watch = OutputWatch()
        watch.begin(now_us)
        for migrator in self.migrators:
            migrator.ask(request, now_us, self.next_seq - 1)

    def _run(self, piece: Slice) -> Iterator[Results]:
        arrivals = piece.arrivals
        released: list[Results] = []
        parts = []
        places = {}
        if self.buckets > 1:
            places = {
                alias: buckets_of(self.plan.partitioning, alias, self.buckets, a.offsets, a.columns)
                for alias, a in arrivals.items()
            }
        for bucket, migrator in enumerate(self.migrators):
            mine = {}
            for alias, arrival in arrivals.items():
                place = places.get(alias)
                mine[alias] = arrival if place is None else arrival.where(place == bucket)
            back, results = migrator.on_rows(mine, piece.now_us, piece.seq, piece.clock_us)
            released += back
            parts.append(results)
        yield from self._release(released, piece.now_us)
        merged = parts[0] if len(parts) == 1 else merge_results(parts)
        for watch in (self.batch_watch, *self._watches.values()):
            watch.see(merged.rows)
        yield merged

    def _release(self, released: list[Results], now_us: int) -> Iterator[Results]:
        """Yield what was held back in all buckets, in max order."""
        if not released:
            self._close_watches(now_us)
            return
        one = released[0] if len(released) == 1 else join_results(released)
        for watch in (self.batch_watch, *self._watches.values()):
            watch.see_released(one.rows, now_us)
        self._close_watches(now_us)
        yield one

    def _close_watches(self, now_us: int) -> None:
        """Write down the gaps of migrations that are over."""
        for place, watch in list(self._watches.items()):
            records = [m.records[place] for m in self.migrators]
            if all(r.state not in (RUNNING, QUEUED) for r in records):
                watch.end(now_us)
                for record in records:
                    record.longest_gap_us, record.output_delay_us = watch.gap_us, watch.delay_us
                del self._watches[place]

    def tick(self, clock_us: int) -> Results:
        """Return what time alone brings: the window instances that end by then, in max order."""
        return merge_results([p.tick(clock_us) for p in self.pipelines])

    def trace(self, on: bool = True) -> None:
        """Let results say from now on what brought them and what they depend on; or not."""
        for pipeline in self.pipelines:
            pipeline.trace(on)

    def work(self) -> None:
        """Do what can be done between micro-batches."""
        for migrator in self.migrators:
            migrator.work(self.next_seq - 1)

    def finish(self) -> Iterator[Results]:
        """End the run: yield what is still held back, and say which migrations are not over."""
        now_us = max((m.last_us for m in self.migrators if m.last_us is not None), default=0)
        for migrator in self.migrators:
            if migrator.running is not None:
                migrator.running.state = UNFINISHED
            for _, record in migrator.waiting:
                record.state = NOT_REACHED
        yield from self._release([r for p in self.pipelines for r in p.release()], now_us)

    def records(self) -> list[MigrationRecord]:
        """Return what became of each migration, over all buckets."""
        lists = [m.report() for m in self.migrators]
        told = [over_buckets(list(records)) for records in zip(*lists, strict=True)]
        for request in self.schedule:
            told.append(
                MigrationRecord(
                    request.identity, request.plan, request.strategy, request.options, request.at_us,
                    str(self.plan), NOT_REACHED,
                )
            )  # fmt: skip
        return told


def join_results(parts: list[Results]) -> Results:
    """Bring results held back over several slices and buckets into max order."""
    if parts[0].order is not None:
        return merge_results(parts)
    return Results(pa.Table.from_batches([p.rows for p in parts]).combine_chunks().to_batches()[0])


def merge_results(parts: list[Results]) -> Results:
    """Bring the results of several buckets into one max order."""
    parts = [p for p in parts if len(p)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    orders = [p.order for p in parts if p.order is not None]
    order = np.concatenate(orders)
    place = np.lexsort(order.T[::-1])
    rows = pa.Table.from_batches([p.rows for p in parts]).take(pa.array(place)).combine_chunks()
    lines = [p.lineage for p in parts if p.lineage is not None]
    lineage = None
    if len(lines) == len(parts):
        oldest = np.concatenate([line.oldest_us for line in lines])
        lineage = Lineage(oldest, np.concatenate([line.prints for line in lines])).where(place)
    return Results(rows.to_batches()[0], order[place], lineage)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
