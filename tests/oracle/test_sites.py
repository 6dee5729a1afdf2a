"""Correct means equal to recomputing: joins over sites, delivered in any order, by any plans, modified at any time."""

import random

import pyarrow as pa
import pytest

from oracle.generate import Case, draw_case
from oracle.migrations import plan_of
from oracle.recompute import plain, recompute
from oracle.site_nodes import DrawnRun
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


@pytest.mark.parametrize("seed", seeds(0, 200, quick=3))
def test_nodes_equal_recomputing(seed: int) -> None:
    rnd = random.Random(seed)
    case, expected = draw_small_case(rnd, 2, 5)
    plan = plan_of(case)
    run = DrawnRun(rnd, case, plan, modifications=rnd.choice([0, 0, 1, 3, 6]))
    found = run.run()
    schema = plan.query.schema.append(pa.field("_time", pa.int64()))
    got = pa.Table.from_batches(found, schema)
    assert plain(got, schema) == plain(expected, schema), f"{case.sql} | {run.plan}"
    assert all(len(positions) <= 1 for positions in run.positions), "nodes agree on where a modification takes effect"
