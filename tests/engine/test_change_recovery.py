"""Buckets that change their query, crash on the way and meet on a driver that crashes too: the output is as defined."""

import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pytest
from engine.script_cluster import ScriptCluster

import midstream as ms
from midstream.change.request import ChangeRequest, ControlRequest
from midstream.engine.bucket.state import Due
from midstream.migrate.request import MigrationRequest
from midstream.plan.plan import Plan
from oracle.change_counts import count
from oracle.change_run import Change, Oracle
from oracle.changes import METHODS, Aggregates, RowsSlide
from oracle.test_changes import (
    COUNTS,
    Case,
    Migration,
    draw_case,
    draw_migrating,
    draw_position,
    draw_query,
    draw_run,
    rows_at,
    run_engine,
    tick_us,
)
from seeds import seeds


def table_of(case: Case, name: str) -> pa.Table:
    rows = case.rows[name]
    columns = {c: pa.array([r.values[c] for r in rows], pa.int64()) for c in ("k", "v")}
    return pa.table({"ts": pa.array([r.time for r in rows], pa.int64()), **columns})


def plans_of(case: Case) -> list[Plan]:
    engine = ms.Engine()
    for name in case.rows:
        engine.stream(name, table_of(case, name), time="ts")
    return [engine.query(q.sql).plan for q in (case.first, *(c.query for c in case.changes))]


class ChangingCluster(ScriptCluster):
    """A cluster that runs the changes of a case."""

    def __init__(
        self,
        case: Case,
        folder: Path,
        labels: tuple[int, ...],
        rnd: random.Random,
        crashes: float,
        controls: Sequence[tuple[str, int]] = (),
        migrations: Sequence[Migration] = (),
    ) -> None:
        requests: list[Due] = []
        for k, change in enumerate(case.changes):
            method, _, order = change.method.partition("/")
            requests.append(
                ChangeRequest(change.query.sql, method, order or None, change.position, str(k + 1), audit=True)
            )
        requests += [ControlRequest(kind, at_us, f"c{k}") for k, (kind, at_us) in enumerate(controls)]
        requests += [
            MigrationRequest(plan, strategy, at_us=at_us, identity=f"m{k}")
            for k, (at_us, plan, strategy) in enumerate(migrations)
        ]
        requests.sort(key=lambda r: r.at_us or 0)
        tables = {name: table_of(case, name) for name in case.rows}
        super().__init__(tables, plans_of(case), requests, case.batch_us, folder, labels, rnd, crashes)


def check(
    case: Case,
    folder: Path,
    labels: tuple[int, ...],
    rnd: random.Random,
    crashes: float,
    migrations: Sequence[Migration] = (),
) -> None:
    """Compare output and every count with the definitions."""
    oracle = Oracle(case.rows, case.first, case.changes)
    given = oracle.given_out()
    cluster = ChangingCluster(case, folder, labels, rnd, crashes, migrations=migrations)
    merger = cluster.run()
    merger.control.finish()
    assert cluster.out == [g.row for g in given], f"{migrations} {labels} {crashes}{case}"
    for n, record in enumerate(merger.control.records()):
        expected, found = asdict(count(oracle, n, given)), asdict(record)
        apart = {name: (found[name], value) for name, value in expected.items() if found[name] != value}
        assert not apart, f"change {n + 1}: {apart} {migrations} {labels} {crashes}{case}"


@pytest.mark.parametrize("seed", seeds(0, 40, quick=1, kept=[7]))
@pytest.mark.parametrize("method", METHODS)
def test_a_change_through_crashes(method: str, seed: int, tmp_path: Path) -> None:
    rnd = random.Random(600_000 + seed * 10 + METHODS.index(method))
    case = draw_case(rnd, method)
    check(case, tmp_path, rnd.choice([(4,), (4, 7), (1, 2, 5)]), rnd, rnd.choice([0.0, 0.3, 1.0]))


@pytest.mark.parametrize("seed", seeds(0, 48, quick=2))
def test_buckets_that_hear_late_write_nothing_of_a_version_that_is_over(seed: int, tmp_path: Path) -> None:
    """As in a run that reads what is there and ends: what is decided meanwhile reaches the buckets much later."""
    rnd = random.Random(650_000 + seed)
    case = draw_case(rnd, METHODS[seed % len(METHODS)])
    cluster = ChangingCluster(case, tmp_path, (1, 2), rnd, 0.0)
    cluster.late_by = rnd.choice([1, 3, 1000])
    if cluster.late_by == 1000:
        cluster.late_by = len({r.time // case.batch_us for rows in case.rows.values() for r in rows})
    cluster.run()
    if case.changes[0].method != "delayed-drain":  # its new version starts when buckets learn of it
        assert cluster.out == [g.row for g in Oracle(case.rows, case.first, case.changes).given_out()], str(case)


@pytest.mark.parametrize("seed", seeds(0, 80, quick=2, kept=[33, 35]))
def test_one_change_after_the_other_through_crashes(seed: int, tmp_path: Path) -> None:
    """Any number of changes by any method, overlapping or not."""
    rnd = random.Random(700_000 + seed)
    case = draw_case(rnd, "drain/stream")
    tick = tick_us(case.rows)
    positions = sorted(draw_position(rnd, case.rows) for _ in range(rnd.randint(2, 3)))
    methods = [rnd.choice(METHODS) for _ in positions]
    changes = [Change(p, draw_query(rnd, tick, False, m), m) for p, m in zip(positions, methods, strict=True)]
    case = draw_run(rnd, case.rows, draw_query(rnd, tick, False, "drain/stream"), changes)
    check(case, tmp_path, rnd.choice([(4,), (4, 7), (1, 2, 5)]), rnd, rnd.choice([0.0, 0.5]))


@pytest.mark.parametrize("seed", seeds(0, 60, quick=2))
def test_migrations_during_changes_through_crashes(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(850_000 + seed)
    case, migrations = draw_migrating(rnd)
    check(case, tmp_path, rnd.choice([(4,), (4, 7)]), rnd, rnd.choice([0.0, 0.5]), migrations)


@pytest.mark.parametrize("seed", seeds(0, 90, quick=3))
def test_controls_during_a_change_are_as_in_process(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(800_000 + seed)
    method = METHODS[seed % len(METHODS)]
    case = draw_case(rnd, method)
    (change,) = case.changes
    times = sorted({r.time for rows in case.rows.values() for r in rows})
    change = replace(change, position=times[rnd.randrange(len(times) // 2)])
    case = replace(case, changes=(change,), buckets=1)
    later = [t for t in times if t > change.position]
    kinds = [rnd.choice(["istop", "dstop", "fstart", "abort"]) for _ in range(rnd.randint(1, 3))]
    controls = list(zip(kinds, sorted(rnd.sample(later, len(kinds))), strict=True))
    cluster = ChangingCluster(case, tmp_path, (3,), rnd, rnd.choice([0.0, 0.5]), controls)
    cluster.run()
    expected, _ = run_engine(case, tmp_path, controls)
    assert cluster.out == expected, f"{controls}{case}"


@pytest.mark.parametrize("first", ["graceful-immediate", "drain/query"])
def test_when_the_last_result_left_outlives_the_driver(first: str, tmp_path: Path) -> None:
    """Nothing leaves between the restart of the driver, with every row, and the change that asks for it."""
    old, late, soon = (Aggregates("s", RowsSlide(n, n), COUNTS) for n in (8, 40, 3))
    changes = (Change(9, late, first), Change(11, soon, "immediate"))
    check(Case(rows_at(range(16)), old, changes, 1, 1), tmp_path, (4,), random.Random(1), 0.0)


def test_a_version_that_is_only_counted_is_over_with_its_rows(tmp_path: Path) -> None:
    """Else results would come to the driver for ever."""
    first, second = (Aggregates("s", RowsSlide(n, 1), COUNTS) for n in (6, 3))
    case = Case(rows_at(range(24)), first, (Change(9, second, "immediate"),), 2, 1)
    merger = ChangingCluster(case, tmp_path, (4,), random.Random(1), 0.0).run()
    assert merger.control.records()[0].loss == 5
    assert not merger.control.audited
    assert merger.over() == [1]
    assert not merger.meets
