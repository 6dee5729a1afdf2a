"""Direct run: a plan over rows handed in by hand, without readers, sink or report; for benchmarks and tests."""

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from midstream.engine.bucket.state import Due
from midstream.engine.host import Left, QueryHost
from midstream.engine.rows.rows import Rows
from midstream.engine.run.contract import Framework
from midstream.engine.run.sliding import SlidingRun
from midstream.migrate.migrator import Migrator
from midstream.migrate.record import MigrationRecord
from midstream.migrate.request import MigrationRequest
from midstream.model.batch import Results
from midstream.operators.contract.execution import StateSize
from midstream.operators.contract.pipeline import Pipeline
from midstream.plan.plan import Plan


class DirectRun:
    """The host of a sliding query, with a view of its operators."""

    def __init__(
        self,
        plan: Plan,
        buckets: int = 1,
        schedule: Sequence[Due] = (),
        framework: str = "tree",
        routing: str = "selectivity",
    ) -> None:
        self.host = QueryHost([plan], buckets, Framework(framework, routing), schedule)
        self.host.open()
        self._asked = 0

    @property
    def runs(self) -> list[SlidingRun]:
        """Return the newest version's run in each bucket."""
        return [cast(SlidingRun, b.newest.run) for b in self.host.buckets if b.newest is not None]

    @property
    def plan(self) -> Plan:
        """Return the plan that runs, or is being migrated to."""
        return self.host.plan

    @property
    def migrators(self) -> list[Migrator]:
        """Return the migrators of all buckets."""
        return [run.migrator for run in self.runs]

    @migrators.setter
    def migrators(self, migrators: Iterable[Migrator]) -> None:
        for run, migrator in zip(self.runs, migrators, strict=True):
            run.migrator = migrator

    @property
    def next_seq(self) -> int:
        """Return the next sequence number of the first bucket."""
        return self.runs[0].next_seq

    @next_seq.setter
    def next_seq(self, seq: int) -> None:
        for run in self.runs:
            run.next_seq = seq

    @property
    def pipelines(self) -> list[Pipeline]:
        """Return the pipelines of all buckets."""
        return [m.pipeline for m in self.migrators]

    @property
    def phase(self) -> str:
        """Return what is going on, in a word or two."""
        return self.host.phase

    @property
    def predicate_evaluations(self) -> int:
        """Return how many pairs the joins have tested so far."""
        return sum(run.predicate_evaluations for run in self.runs)

    def size(self) -> StateSize:
        """Return what the states of all buckets hold now."""
        total = StateSize()
        for run in self.runs:
            total.add(run.size())
        return total

    def on_rows(self, rows: dict[str, Rows]) -> Iterator[Results]:
        """Take in the next rows of every stream; yield what leaves."""
        last = max((int(r.times[-1]) for r in rows.values() if len(r)), default=None)
        if last is not None:
            yield from _results(self.host.on_rows(rows, last + 1))

    def migrate(self, request: MigrationRequest, now_us: int) -> Iterator[Results]:
        """Migrate before the next row, at `now_us` or later; yield what was held back until now."""
        self._asked += 1
        identity = request.identity or f"asked {self._asked}"
        yield from _results(self.host.migrate_now(request, identity, now_us))

    def finish(self) -> Iterator[Results]:
        """End the run; yield what is still held back."""
        left = self.host.finish()
        self.host.not_reached()
        yield from _results(left)

    def records(self) -> list[MigrationRecord]:
        """Return what became of each migration, over all buckets."""
        return [
            MigrationRecord(**{k: v for k, v in record.items() if k != "duration_us"})
            for record in self.host.current_records()
        ]


def _results(left: Left) -> Iterator[Results]:
    for departure in left.departures:
        if departure.rows.num_rows:
            yield Results(departure.rows.drop_columns(["_version"]))
