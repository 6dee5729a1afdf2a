"""Correct means equal to recomputing: joins over sites, delivered in any order, by any plans, modified at any time."""

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from oracle.generate import Case, draw_case
from oracle.migrations import plan_of
from oracle.recompute import plain, recompute
from oracle.site_nodes import DrawnRun
from oracle.site_scripts import draw_script, run_script
from seeds import seeds

MOST_RESULTS = 2000


def draw_small_case(rnd: random.Random, least: int = 2, most: int = 8) -> tuple[Case, pa.Table]:
    """Draw a case with few enough results, mostly some."""
    while True:
        case = draw_case(rnd, count=rnd.randint(least, most))
        if case.join == "hash":
            case.join = "auto"
        expected = recompute(case)
        if 0 < expected.num_rows <= MOST_RESULTS or (expected.num_rows == 0 and rnd.random() < 0.1):
            return case, expected


def check_nodes(seed: int) -> None:
    """Run nodes without a network, in a drawn order, by drawn plans, and compare."""
    rnd = random.Random(seed)
    case, expected = draw_small_case(rnd, 2, 5)
    plan = plan_of(case)
    run = DrawnRun(rnd, case, plan, modifications=rnd.choice([0, 0, 1, 3, 6]))
    found = run.run()
    schema = plan.query.schema.append(pa.field("_time", pa.int64()))
    got = pa.Table.from_batches(found, schema)
    assert plain(got, schema) == plain(expected, schema), f"{case.sql} | {run.plan}"
    assert all(len(positions) <= 1 for positions in run.positions), "nodes agree on where a modification takes effect"


@pytest.mark.parametrize("seed", seeds(0, 400, quick=3))
def test_nodes_equal_recomputing(seed: int) -> None:
    check_nodes(seed)


def check_script(seed: int, least: int = 3, most: int = 8, deaths: int | None = None) -> None:
    """Run a drawn script, by both ways to modify plans where it modifies them at all, and compare."""
    rnd = random.Random(seed)
    case, expected = draw_small_case(rnd, least, most)
    plan = plan_of(case)
    script = draw_script(rnd, case, plan, faulty=rnd.random() < 0.7)
    if deaths is not None:
        script = replace(script, faults=replace(script.faults, deaths=deaths, down_us=100_000, keep_every=3))
    update = script.setup.declared.update
    schema = plan.query.schema.append(pa.field("_time", pa.int64()))
    outcomes = [
        run_script(case, plan, script, u) for u in (["off"] if update == "off" else ["centralized", "distributed"])
    ]
    for outcome in outcomes:
        got = pa.Table.from_batches(outcome.rows, schema)
        assert plain(got, schema) == plain(expected, schema), f"{case.sql} | {script.setup.declared} | {script.faults}"
        ended = outcome.simulation.modifications.all.values()
        assert all(m.ended_us is not None for m in ended), "every modification ends"
    assert all(o.operators == outcomes[0].operators for o in outcomes), "both ways reach the same plan"


@pytest.mark.parametrize("seed", seeds(30_000, 16, quick=1))
def test_sites_that_die_equal_recomputing(seed: int) -> None:
    check_script(seed, 3, 4, deaths=6)


@pytest.mark.parametrize("seed", seeds(10_000, 1000, quick=2, parts=40))
def test_sites_equal_recomputing(seed: int) -> None:
    check_script(seed)
