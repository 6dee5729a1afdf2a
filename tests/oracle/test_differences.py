"""Differences: whatever the chain, the batching, the migrations and the crashes, the changes are those recomputed."""

import random
from pathlib import Path

import pyarrow as pa
import pytest
from engine.test_bucket_recovery import run_disturbed

import midstream as ms
from benchmarks.direct import DirectRun
from midstream.engine.snapshot.form import put_together, take_apart
from midstream.local.loop import output_schema
from midstream.migrate.record import FINISHED, NO_OP, SUPERSEDED, UNFINISHED
from midstream.plan.plan import Plan
from oracle.differences import (
    DifferenceCase,
    answer_after,
    arrivals_of,
    draw_difference,
    recompute_changes,
    rows_of,
)
from oracle.test_moved_states import rows_between
from seeds import seeds


def plan_of(case: DifferenceCase) -> Plan:
    engine = ms.Engine()
    for name, table in case.streams.items():
        engine.stream(name, table, time="ts")
    return engine.query(case.sql, plan=case.tree).plan


def run(case: DifferenceCase, bounds: list[int], move: bool) -> tuple[pa.Table, DirectRun]:
    """Run a case in process, migrating on the way; `move` takes the states apart between micro-batches."""
    plan = plan_of(case)
    runtime = DirectRun(plan, 3, case.requests)
    found = []
    for rows in rows_between(case, runtime, bounds):
        found += [r.rows for r in runtime.on_rows(rows)]
        if move:
            description, arrays = take_apart(runtime.migrators)
            runtime.migrators = put_together(description, [a.copy() for a in arrays])
    found += [r.rows for r in runtime.finish()]
    schema = output_schema(plan)
    return pa.Table.from_batches(found, schema.remove(schema.get_field_index("_version"))), runtime


def draw_bounds(rnd: random.Random) -> list[int]:
    step = rnd.choice([200_000, 1_000_000, 60_000_000, 0])
    drawn = sorted(rnd.randrange(21_000_000) for _ in range(rnd.randint(0, 25)))
    return [*(range(step, 21_000_000, step) if step else drawn), 2**60]


def check_records(case: DifferenceCase, runtime: DirectRun) -> None:
    """The records tell of every migration what became of it."""
    records = runtime.records()
    assert [r.identity for r in records] == [r.identity for r in case.requests]
    reached = [r for r in records if r.state in (FINISHED, NO_OP, SUPERSEDED, UNFINISHED)]
    assert all(r.strategy == "just-in-time" for r in reached)
    for record in reached:
        assert 0 <= record.states_completed <= record.states_incomplete
        if record.state == FINISHED:
            assert record.states_completed == record.states_incomplete
            assert record.states_matched >= 1, "the top of the chain has always been there"
    if reached:
        assert str(runtime.plan) == reached[-1].plan


@pytest.mark.parametrize("seed", seeds(0, 180, quick=6))
def test_changes_are_those_recomputed(seed: int) -> None:
    rnd = random.Random(seed)
    case = draw_difference(rnd)
    expected = recompute_changes(case)
    for _ in range(2):
        bounds = draw_bounds(rnd)
        got, runtime = run(case, bounds, rnd.random() < 0.3)
        assert rows_of(got) == expected, f"seed {seed}: {case} | {bounds[:9]}"
        check_records(case, runtime)


@pytest.mark.parametrize("seed", seeds(0, 60, quick=3))
def test_a_crash_does_not_show(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(5000 + seed)
    case = draw_difference(rnd)
    got, rebuilt = run_disturbed(case, plan_of(case), rnd, tmp_path, seed % 6 > 0, case.requests)
    assert rows_of(got) == recompute_changes(case), f"seed {seed}: {case}"
    if seed % 6 == 0:
        assert rebuilt == 0


@pytest.mark.parametrize("seed", seeds(0, 8, quick=1))
def test_long_runs_let_go_of_rows_and_go_on(seed: int, tmp_path: Path) -> None:
    """Enough rows that stores are cut and rows are numbered anew; the answer is looked at now and then."""
    rnd = random.Random(900 + seed)
    case = draw_difference(rnd)
    while case.sides[0].conditions or not any(w == "rows" and by for w, _, by in (s.window for s in case.sides)):
        case = draw_difference(rnd)
    grow(case, rnd)
    got, _ = run(case, draw_bounds(rnd), True)
    changes = rows_of(got)
    arrivals = arrivals_of(case)
    for time in sorted(rnd.randrange(arrivals[-1].key[0] + 1) for _ in range(25)):
        answer: dict[tuple[object, ...], int] = {}
        for *value, at, sign in changes:
            if at <= time:
                answer[tuple(value)] = answer.get(tuple(value), 0) + sign
        assert set(answer.values()) <= {0, 1}
        assert {v for v, n in answer.items() if n} == answer_after(case, arrivals, (time, 2, 0)), f"{time}: {case}"
    disturbed, _ = run_disturbed(case, plan_of(case), rnd, tmp_path, True, case.requests)
    assert rows_of(disturbed) == changes, f"seed {seed}: {case}"


def grow(case: DifferenceCase, rnd: random.Random) -> None:
    """Repeat the rows of each stream in random order at more times, until there are thousands."""
    for name, table in case.streams.items():
        if table.num_rows:
            rows = table.take([rnd.randrange(table.num_rows) for _ in range(3000)])
            times = sorted(rnd.randrange(20_000_000) for _ in range(3000))
            case.streams[name] = rows.set_column(0, "ts", pa.array(times, pa.int64()))
