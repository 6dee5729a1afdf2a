"""The campaign: scripts in which everything meets come out as defined, on every host, through kills and restarts."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine.script_cluster import ScriptCluster
from local.test_resume import Killer, until_killed

import midstream as ms
from midstream.app.engine import Run
from midstream.local.loop import output_schema
from midstream.local.replay import in_process
from midstream.local.report import Report, change_records
from midstream.local.sinks import TableSink
from midstream.model.errors import MidstreamError
from oracle.campaign import Script, draw_script, expected_rows, rows_of
from oracle.own_class import spread_class
from oracle.test_changes import check_records, difference
from seeds import seeds

Rows = Sequence[tuple[Any, ...]]
HOSTS = ("cut otherwise", "killed", "by hand", "cluster")


def check(script: Script, got: Rows, changes: list[dict[str, Any]], how: str, ends: bool = True) -> None:
    """Compare rows in their order, and every count of every record, with the oracle."""
    oracle = script.oracle()
    expected = expected_rows(oracle)
    if list(got) != expected:
        pytest.fail(f"{how}: {difference(got, expected)}{script}")
    report = Report(changes=changes)
    check_records(oracle, oracle.given_out(), report, f" ({how}){script}", ends=ends)


def run_in_process(script: Script, how: str = "in process") -> None:
    loop = script.loop()
    sink = TableSink(output_schema(loop.plan, *loop.versions))
    report = in_process(loop, sink, None, None)
    check(script, rows_of([sink.table()]), report.changes, how)
    asked = [m for m in report.migrations if m["identity"].startswith("m")]
    assert len(asked) == len(script.migrations), f"{how}: {asked}{script}"


def run_killed(script: Script, rnd: random.Random, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill a run between steps of its commits, over and over, and let it go on from its checkpoint."""
    killer = Killer(monkeypatch)
    report = None
    while report is None:
        killer.passed, killer.at = 0, rnd.randint(1, 30) if len(killer.where) < 5 else None
        report = until_killed(script.loop(), folder)
    monkeypatch.undo()
    check(script, rows_of(written(folder)), report.changes, f"killed at {killer.where}")


def written(folder: Path) -> list[pa.Table]:
    return [pq.read_table(file) for file in sorted((folder / "out").glob("batch-*.parquet"))]


class ByHand:
    """A run that somebody advances, asking for one thing after the other; it may be stopped and started again."""

    def __init__(self, script: Script, rnd: random.Random, folder: Path) -> None:
        self.script, self.rnd, self.folder = script, rnd, folder
        self.engine = ms.Engine()
        for name, table in script.tables.items():
            self.engine.stream(name, table, time="ts")
        self.engine.aggregate("spread", spread_class(), "BIGINT")
        self.kept = rnd.random() < 0.6
        self.run = self.start()
        self.numbers = self.register()

    def start(self) -> Run:
        case = self.script.case
        places = {"sink": self.folder / "out", "checkpoint": self.folder / "checkpoint"} if self.kept else {}
        buckets = 1 if self.script.delayed else case.buckets
        query = self.engine.query(case.first.sql)
        run = query.start(batch=case.batch_us, buckets=buckets, paused=True, adapt=self.script.adapt, **places)
        assert isinstance(run, Run)
        return run

    def register(self) -> dict[str, int]:
        """Register all queries in some order, and some that are removed again."""
        found = {self.script.case.first.sql: 1}
        for change in self.rnd.sample(self.script.case.changes, len(self.script.case.changes)):
            if self.rnd.random() < 0.3:
                self.run.remove(self.run.register(change.query.sql))
            found[change.query.sql] = self.run.register(change.query.sql)
        return found

    def to(self, at: int) -> None:
        """Go on to a position; now and then the run is stopped there and started again."""
        self.run.advance(at)
        if self.kept and self.rnd.random() < 0.4:
            self.run.stop()
            self.run = self.start()

    def finished(self) -> tuple[Script, list[tuple[Any, ...]]]:
        """Do all that is asked for; return the script with the positions it took effect at, and the rows."""
        script = self.script
        reached = -(2**62)
        changes, controls, migrations = [], [], []
        read = set(script.case.first.streams)
        elements = [(c.position, "change", c) for c in script.case.changes]
        elements += [(at, "control", kind) for kind, at in script.controls]
        elements += [(m[0], "migrate", m) for m in script.migrations]
        for at, what, asked in sorted(elements, key=lambda element: element[0]):
            if at <= reached:  # a migration has gone on to the next row
                continue
            self.to(at)
            if what == "change":
                read |= asked.query.streams
                method, _, order = asked.method.partition("/")
                query = self.numbers[asked.query.sql] if self.rnd.random() < 0.5 else asked.query.sql
                self.run.change(query, method, order or None, audit=True, allow_schema_change=True)
                changes.append(replace(asked, position=at))
            elif what == "control":
                try:
                    self.run.control(asked)
                except MidstreamError:
                    assert asked == "abort", "nothing else is refused"
                controls.append((asked, at))
            else:
                coming = [r.time for name in read for r in script.case.rows[name] if r.time >= at]
                try:
                    self.run.migrate(asked[1], asked[2], **asked[3])
                except MidstreamError:
                    continue
                reached = min(coming, default=at)
                migrations.append((reached, *asked[1:]))
        self.run.finish()
        case = replace(script.case, changes=tuple(changes))
        done = replace(script, case=case, controls=tuple(controls), migrations=tuple(migrations))
        return done, rows_of(written(self.folder) if self.kept else [self.run.table()])


def reachable(script: Script) -> Script:
    """Leave out what lies after the last row that is read: by hand it would take effect all the same."""
    while True:
        read = {name for query in script.queries for name in query.streams}
        latest = max((r.time for name in read for r in script.case.rows[name]), default=-(2**62))
        changes = tuple(c for c in script.case.changes if c.position <= latest)
        if changes == script.case.changes:
            controls = tuple(c for c in script.controls if c[1] <= latest)
            return replace(script, controls=controls, migrations=tuple(m for m in script.migrations if m[0] <= latest))
        script = replace(script, case=replace(script.case, changes=changes))


def run_by_hand(script: Script, rnd: random.Random, folder: Path) -> None:
    by_hand = ByHand(reachable(script), rnd, folder)
    done, got = by_hand.finished()
    check(done, got, by_hand.run.changes(), f"by hand, {'with' if by_hand.kept else 'without'} a checkpoint")


def run_on_cluster(script: Script, rnd: random.Random, folder: Path) -> None:
    """Run buckets on stores of their own, with attempts that fail, memory that is lost and drivers that die.

    Several buckets learn a micro-batch later of first results and drains that are over, which decide what a control
    element finds and where a delayed drain goes on: then there is one.
    """
    labels = (4,) if script.delayed or script.controls else rnd.choice([(4,), (4, 7), (1, 2, 5)])
    crashes = rnd.choice([0.0, 0.3, 1.0])
    schedule = script.schedule()
    cluster = ScriptCluster(script.tables, script.plans(), schedule, script.case.batch_us, folder, labels, rnd, crashes)
    merger = cluster.run()
    merger.control.finish()
    got = rows_of([d.rows for d in cluster.departures])
    how = f"cluster {labels}, crashes {crashes}"
    check(script, got, change_records(merger.control, schedule), how, ends=len(labels) == 1)


def run_script(seed: int, host: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(9_000_000 + seed)
    script = draw_script(rnd)
    run_in_process(script)
    if host == "killed":
        run_killed(script, rnd, folder, monkeypatch)
    elif host == "by hand":
        run_by_hand(script, rnd, folder)
    elif host == "cluster":
        run_on_cluster(script, rnd, folder)
    else:
        batch_us = max(1, script.case.batch_us // rnd.choice([2, 3, 7])) if rnd.random() < 0.5 else 2**60
        case = replace(script.case, batch_us=batch_us, buckets=1 + script.case.buckets % 3)
        run_in_process(replace(script, case=case), "cut otherwise")


@pytest.mark.parametrize("seed", seeds(0, 3200, quick=2, kept=(403,), parts=40))
def test_a_script(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_script(seed, HOSTS[seed % len(HOSTS)], tmp_path, monkeypatch)
