"""Changes from, to and between hopping queries on Spark: output, order and record are as defined."""

import random
from pathlib import Path

import pytest

from oracle.changes import METHODS
from oracle.test_hop_changes import PAIRS, check, draw_case
from seeds import numbers

pytestmark = pytest.mark.spark


@pytest.mark.together
@pytest.mark.parametrize("seed", numbers(0, 30, quick=2))
def test_a_drawn_change_is_as_defined(seed: int, folder: Path, spark: object) -> None:
    rnd = random.Random(7_900_000 + seed)
    method, pair = METHODS[seed % len(METHODS)], PAIRS[seed // len(METHODS) % len(PAIRS)]
    case = draw_case(rnd, method, pair)
    while not 2 <= len({r.time // case.batch_us for rows in case.rows.values() for r in rows}) <= 8:
        case = draw_case(rnd, method, pair)
    check(case, folder, "spark")
