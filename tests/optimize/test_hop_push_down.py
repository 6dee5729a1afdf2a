"""How often the heuristic is as good as the search: counted over random plans, as in the thesis."""

import random

from optimize.random_plans import SECOND, RandomPlans

from midstream.optimize.hopping.choose import optimal
from midstream.optimize.hopping.cost import Constants
from midstream.optimize.hopping.estimate import Sizes
from midstream.optimize.hopping.push_down import push_down
from midstream.plan.hopping import COMPLETE, DELTA


def hits(count: int, deepest_antis: bool) -> float:
    """Return in which part of random plans of up to 8 operators pushing down is the best."""
    found = 0
    for seed in range(count):
        rng = random.Random(seed)
        plans = RandomPlans(rng, plain=True)
        root = plans.small_query(8)
        sizes = Sizes(plans.statistics(root), int(10 * SECOND * 10 ** rng.uniform(-1.5, 0.3)))
        emit = rng.choice([COMPLETE, DELTA])
        best = optimal(root, emit, sizes, Constants()).cost
        pushed = push_down(root, emit, sizes, Constants(), deepest_antis).cost
        assert pushed >= best * (1 - 1e-9)
        found += pushed <= best * (1 + 1e-9)
    return found / count


def test_pushing_differences_down_is_nearly_always_the_best() -> None:
    assert hits(300, deepest_antis=False) >= 0.95


def test_doing_anti_joins_at_once_is_the_best_less_often() -> None:
    # Joins of random selectivity leave less than many an anti-join: then it is cheaper behind them.
    assert 0.6 <= hits(100, deepest_antis=True) <= 0.9
