"""Whatever black box is replaced, by which strategy, when and between which changes: its output does not notice."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from local.test_resume import Killer, until_killed

import midstream as ms
from midstream.local.loop import Loop, output_schema
from midstream.local.replay import in_process
from midstream.local.sinks import TableSink
from midstream.migrate.request import GENERAL, GENERAL_HYBRID, MigrationRequest
from midstream.operators.aggregate import stage as stage_module
from oracle.campaign import Script, rows_of
from oracle.differences import draw_difference, draw_order, recompute_changes
from oracle.differences import rows_of as changes_of
from oracle.general import check_records, defined, draw_general_script, draw_own_script, run_local, unmigrated
from oracle.generate import draw_tree
from oracle.migrations import STRATEGIES, check_output, draw_dense_case, draw_options, plan_of, span_us, with_times
from oracle.recompute import recompute
from oracle.test_campaign import ByHand, ScriptCluster, reachable, written
from oracle.test_changes import difference
from seeds import seeds

HOSTS = ("cut otherwise", "killed", "by hand", "cluster")
Rows = Sequence[tuple[Any, ...]]


def compare(got: Rows, expected: Rows, how: str, script: object) -> None:
    if list(got) != list(expected):
        pytest.fail(f"{how}: {difference(got, expected)}{script}")


def run_here(script: Script, expected: Rows, how: str) -> None:
    got, report = run_local(script)
    compare(got, expected, how, script)
    check_records(script, report.migrations, how)


def run_killed(script: Script, expected: Rows, rnd: random.Random, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Kill a run between steps of its commits, over and over, and let it go on from its checkpoint."""
    killer = Killer(patch)
    report = None
    while report is None:
        killer.passed, killer.at = 0, rnd.randint(1, 30) if len(killer.where) < 5 else None
        report = until_killed(script.loop(), folder)
    patch.undo()
    compare(rows_of(written(folder)), expected, f"killed at {killer.where}", script)


def run_by_hand(script: Script, rnd: random.Random, folder: Path) -> None:
    by_hand = ByHand(reachable(script), rnd, folder)
    done, got = by_hand.finished()
    compare(got, unmigrated(done), f"by hand, {'with' if by_hand.kept else 'without'} a checkpoint", done)


def run_on_cluster(script: Script, expected: Rows, rnd: random.Random, folder: Path) -> None:
    """Run buckets on stores of their own, with attempts that fail and memory that is lost."""
    labels = (4,) if script.case.changes else rnd.choice([(4,), (4, 7), (1, 2, 5)])
    crashes = rnd.choice([0.0, 0.3, 1.0])
    schedule = script.schedule()
    cluster = ScriptCluster(script.tables, script.plans(), schedule, script.case.batch_us, folder, labels, rnd, crashes)
    cluster.run()
    compare(rows_of([d.rows for d in cluster.departures]), expected, f"cluster {labels}, crashes {crashes}", script)


@pytest.mark.parametrize("seed", seeds(0, 480, quick=4))
def test_a_black_box_is_replaced(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(71_000_000 + seed)
    script = draw_general_script(rnd)
    run_everywhere(script, unmigrated(script), rnd, HOSTS[seed % len(HOSTS)], tmp_path, monkeypatch)


def run_everywhere(
    script: Script, expected: Rows, rnd: random.Random, host: str, folder: Path, patch: pytest.MonkeyPatch
) -> None:
    """Run a script in process, and on another host."""
    run_here(script, expected, "in process")
    if not defined(script):
        return
    if host == "killed":
        run_killed(script, expected, rnd, folder, patch)
    elif host == "by hand":
        run_by_hand(script, rnd, folder)
    elif host == "cluster":
        run_on_cluster(script, expected, rnd, folder)
    else:
        batch_us = max(1, script.case.batch_us // rnd.choice([2, 3, 7])) if rnd.random() < 0.5 else 2**60
        case = replace(script.case, batch_us=batch_us, buckets=1 + script.case.buckets % 3)
        run_here(replace(script, case=case), expected, host)


@pytest.mark.parametrize("seed", seeds(3000, 320, quick=2))
def test_users_code_is_replaced(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Medians and a user's class: over joins, over windows over them, by hops, and over differences by hops."""
    rnd = random.Random(75_000_000 + seed)
    script = draw_own_script(rnd)
    run_everywhere(script, unmigrated(script), rnd, HOSTS[seed % len(HOSTS)], tmp_path, monkeypatch)


def draw_requests(rnd: random.Random, trees: Sequence[str], span: int, others: Sequence[str]) -> list[MigrationRequest]:
    """Draw migrations to trees, most of them general."""
    asked = []
    for k, tree in enumerate(trees):
        strategy = rnd.choice([*GENERAL]) if rnd.random() < 0.8 or not others else rnd.choice(others)
        options = draw_options(rnd, strategy) | ({"rows": rnd.choice([1, 5, 40])} if strategy == GENERAL_HYBRID else {})
        if strategy == "parallel-track":
            options["output"] = "merged"
        asked.append(MigrationRequest.of(tree, strategy, options, at_us=rnd.randrange(span), identity=str(k)))
    return sorted(asked, key=lambda request: request.at_us or 0)


@pytest.mark.parametrize("seed", seeds(1000, 120, quick=1))
def test_dense_joins(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many results, keyed windows, nested loops, eddies; strategies that know the joins as well."""
    rnd = random.Random(72_000_000 + seed)
    monkeypatch.setattr(stage_module, "FOLD_ROWS", 1 + seed % 7)
    case = with_times(draw_dense_case(rnd))
    trees = [draw_tree(rnd, [alias for alias, _ in case.sources]) for _ in range(rnd.randint(1, 4))]
    requests = draw_requests(rnd, trees, span_us(case), [s for s in STRATEGIES if s != "auto"])
    plan = plan_of(case)
    engine = ms.Engine()
    for name, table in case.streams.items():
        engine.stream(name, table, time="ts")
    planned = engine.query(case.sql, plan=case.tree, join=case.join)
    batch_us, framework = rnd.choice([300_000, 3_000_000, 60_000_000]), rnd.choice(["tree", "tree", "stairs", "cacq"])
    loop = Loop(planned.plan, planned.streams, batch_us, rnd.choice([1, 2, 3]), requests, framework)
    sink = TableSink(output_schema(plan))
    report = in_process(loop, sink, None, None)
    told = f"seed {seed}: {case.sql} | {case.tree} {case.join} | {requests} | {batch_us} {framework}"
    check_output(case, sink.table().drop_columns(["_version"]), recompute(case), requests, told)
    assert len(report.migrations) == len(requests), told


@pytest.mark.parametrize("seed", seeds(2000, 120, quick=1))
def test_differences(seed: int) -> None:
    rnd = random.Random(73_000_000 + seed)
    case = draw_difference(rnd)
    while len(case.sides) < 3 or len(expected := recompute_changes(case)) < 5:
        case = draw_difference(rnd)
    trees = [draw_order(rnd, case.sides) for _ in range(rnd.randint(1, 4))]
    requests = draw_requests(rnd, trees, 20_000_000, ["just-in-time"])
    engine = ms.Engine()
    for name, table in case.streams.items():
        engine.stream(name, table, time="ts")
    planned = engine.query(case.sql, plan=case.tree)
    loop = Loop(planned.plan, planned.streams, rnd.choice([200_000, 1_000_000, 60_000_000]), 1, requests)
    sink = TableSink(output_schema(planned.plan))
    report = in_process(loop, sink, None, None)
    assert changes_of(sink.table()) == expected, f"seed {seed}: {requests}{case}"
    assert len(report.migrations) == len(requests)
