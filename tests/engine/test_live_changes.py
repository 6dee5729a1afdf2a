"""Live changes in buckets that crash: output and every count of the record are as in process, and as defined."""

import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine.cluster import Cluster

from midstream.change.request import ChangeRequest
from midstream.engine.control.controls import CHANGE, CONTROL, DRAIN, ELEMENT, MET, MIGRATE
from midstream.engine.results.merger import ResultMerger
from midstream.engine.rows.packed import Packed
from midstream.engine.rows.rows import Rows
from midstream.migrate.request import MigrationRequest
from oracle.change_run import Oracle
from oracle.changes import METHODS
from oracle.live_scripts import IDLE, LiveScript, draw_live, draw_live_migrating
from oracle.test_changes import run_engine
from seeds import seeds

CLOCKS = ("identity", "asked_us", "response_ms", "two_versions_ms", "duration_us")
"""What a record says of the clock, and of how it was asked for."""


class LiveCluster(Cluster):
    """A cluster that runs a live script."""

    goes_on = False
    """It is run again after it was drained, with no further rows, and learns what the drain has caused."""

    def __init__(
        self, script: LiveScript, folder: Path, labels: tuple[int, ...], rnd: random.Random, crashes: float
    ) -> None:
        super().__init__(script.plans(), folder, labels, rnd, crashes, lateness_us=script.lateness_us)
        self.live()
        self.script = script
        self.positions = {s.stream.name: s.position for plan in script.plans() for s in plan.query.sources}
        self.sent = 0
        self.late_by = rnd.choice([0, 0, 1])
        """How many micro-batches later than they could buckets learn of something, as in a run that ends by itself."""

    @property
    def out(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for d in self.departures for row in d.rows.to_pylist()]

    def run(self) -> ResultMerger:
        script, learned = self.script, list[list[dict[str, Any]]]()
        idle = IDLE * (1 + self.late_by)
        total = script.batches + idle * (1 + self.goes_on) + 1
        for number in range(total):
            controls = learned[number - 1 - self.late_by] if number > self.late_by else []
            controls = controls + [self.change(k) for k, batch in enumerate(script.read) if batch == number]
            controls += [self.row(CONTROL, control=kind) for kind, batch, _ in script.controls if batch == number]
            controls += [
                self.row(MIGRATE, migration=MigrationRequest(plan, strategy).to_dict())
                for batch, plan, strategy in script.migrations
                if batch == number
            ]
            drains = number + 1 == total or (self.goes_on and number + 1 + idle == total)
            controls += [self.row(DRAIN)] if drains else []
            self.batch(lambda place: self.packed(place, number, controls), drain=drains)  # noqa: B023 - run at once
            learned.append([self.row(ELEMENT, **element) for element in self.decided])
            met = {report["meets_for"] for report in self.reports[-1]} - {None}
            learned[-1] += [self.row(MET, of=of) for of in met]
        merger = self.merger()
        merger.control.finish()
        return merger

    def row(self, do: str, **more: Any) -> dict[str, Any]:
        self.sent += 1
        return {"id": f"{self.sent:05d}", "do": do, **more}

    def change(self, place: int) -> dict[str, Any]:
        change = self.script.case.changes[place]
        method, _, order = change.method.partition("/")
        request = ChangeRequest(change.query.sql, method, order or None, audit=True)
        return self.row(CHANGE, change=request.to_dict(), version=place + 2)

    def packed(self, place: int, number: int, controls: list[dict[str, Any]]) -> Packed:
        script, packed = self.script, Packed(controls=list(controls))
        over = set(self.merger().over())
        tables = {name: script.table(name, number) for name in script.streams}
        rows = {}
        for name, table in tables.items():
            times = table.column("ts").to_numpy()
            if len(times):
                packed.high[self.positions[name]] = int(times.max())
                packed.low[self.positions[name]] = int(times.min())
                columns = {c: table.column(c).combine_chunks() for c in table.column_names}
                rows[name] = Rows(times, np.arange(len(times)), columns)
        for version, plan in enumerate(self.versions.plans, 1):
            for rank, source in enumerate(plan.query.sources):
                mine = rows.get(source.stream.name)
                if mine is not None and version not in over:
                    used = {n: mine.columns[n] for n in plan.query.columns_of(source.alias)}
                    self.place(packed, place, version, rank, Rows(mine.times, mine.offsets, used), mine.columns)
        return packed


def check(script: LiveScript, cluster: LiveCluster) -> None:
    """Compare output with the definitions, and what records say with those of the same changes in process."""
    case = script.case
    merger = cluster.run()
    told = f"{cluster.labels} {cluster.crashes}{script}"
    assert cluster.out == [g.row for g in Oracle(case.rows, case.first, case.changes).given_out()], told
    _, report = run_engine(case, cluster.folder)
    for n, (record, expected) in enumerate(zip(merger.control.records(), report.changes, strict=True)):
        found = asdict(record)
        apart = {k: (found[k], v) for k, v in expected.items() if k not in CLOCKS and found[k] != v}
        assert not apart, f"change {n + 1}: {apart}{told}"


@pytest.mark.parametrize("seed", seeds(0, 120, quick=3))
def test_a_live_change_is_as_defined(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(1_000_000 + seed)
    script = draw_live(rnd, [METHODS[seed % len(METHODS)]])
    check(script, LiveCluster(script, tmp_path, rnd.choice([(4,), (4, 7), (1, 2, 5)]), rnd, rnd.choice([0.0, 0.5])))


@pytest.mark.parametrize("seed", seeds(0, 120, quick=2, kept=[12, 13, 107, 120, 195]))
def test_live_changes_that_meet_are_as_defined(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(1_100_000 + seed)
    methods = [rnd.choice(METHODS) for _ in range(rnd.choice([2, 2, 3]))]
    script = draw_live(rnd, methods)
    check(script, LiveCluster(script, tmp_path, rnd.choice([(4,), (4, 7), (1, 2, 5)]), rnd, rnd.choice([0.0, 0.5])))


@pytest.mark.parametrize("seed", seeds(0, 60, quick=1, kept=[2, 3, 4, 9]))
def test_live_changes_and_migrations_are_as_defined(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(1_200_000 + seed)
    script = draw_live_migrating(rnd)
    check(script, LiveCluster(script, tmp_path, rnd.choice([(4,), (4, 7)]), rnd, rnd.choice([0.0, 0.5])))
