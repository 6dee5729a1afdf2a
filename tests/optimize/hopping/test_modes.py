"""The mode assigner finds what trying all modes finds."""

import random

from optimize.hopping.exhaustive import cheapest_modes
from optimize.hopping.random_plans import SECOND, RandomPlans

from midstream.optimize.hopping.assign_modes import assign_modes
from midstream.optimize.hopping.cost import Constants, cost
from midstream.optimize.hopping.estimate import Sizes
from midstream.plan.algebra import operators
from midstream.plan.modes import TUPLE, WINDOW
from midstream.plan.plan import Plan
from midstream.plan.query import COMPLETE, DELTA, hop_query


def test_assigned_modes_are_the_cheapest_of_all() -> None:
    seen: set[str] = set()
    for seed in range(80):
        rng = random.Random(seed)
        plans = RandomPlans(rng)
        root = plans.small_query(5)
        sizes = Sizes(plans.statistics(root), int(SECOND * 10 ** rng.uniform(-1, 1.5)))
        constants = Constants(fixed=0.0)
        for emit in (COMPLETE, DELTA):
            found = assign_modes(root, emit, sizes, constants)
            seen |= set(found.modes)
            assert abs(found.cost - cheapest_modes(root, emit, sizes, constants)) <= 1e-9 * found.cost
            Plan(hop_query(root, SECOND, emit), root, found.modes)
    assert len(seen) == 4, "all modes are chosen somewhere"


def test_the_assigned_cost_is_that_of_its_modes() -> None:
    plans = RandomPlans(random.Random(3))
    root = plans.small_query(8)
    sizes, constants = Sizes(plans.statistics(root), SECOND), Constants()
    found = assign_modes(root, COMPLETE, sizes, constants)
    told = zip(operators(root), found.modes, strict=True)
    assert abs(sum(cost(n, m, WINDOW, sizes, constants).total for n, m in told) - found.cost) < 1e-6 * found.cost


def test_working_by_tuple_costs_more_and_may_change_modes() -> None:
    plans = RandomPlans(random.Random(3))
    root = plans.small_query(8)
    sizes, constants = Sizes(plans.statistics(root), SECOND), Constants()
    at_once = assign_modes(root, COMPLETE, sizes, constants)
    assert assign_modes(root, COMPLETE, sizes, constants, WINDOW) == at_once
    assert assign_modes(root, COMPLETE, sizes, constants, TUPLE).cost >= at_once.cost
