"""DiffDP finds what trying everything finds: all trees the rules reach, all join orders, all modes."""

import random

import pytest
from optimize.hopping.brute_force import answer
from optimize.hopping.exhaustive import TooMany, cheapest
from optimize.hopping.random_plans import SECOND, RandomPlans, drawn_constants, equal
from optimize.hopping.test_rules import col, project, same_rows, scan

from midstream.model.statistics import Statistics
from midstream.optimize.hopping.assign_modes import assign_modes
from midstream.optimize.hopping.choose import optimal
from midstream.optimize.hopping.cost import Constants
from midstream.optimize.hopping.estimate import Sizes
from midstream.optimize.hopping.push_down import push_down
from midstream.plan.algebra import Except, Join, Rel, relation_text
from midstream.plan.query import COMPLETE, DELTA
from seeds import some


def compare(seeds: range, most: int, operators: int) -> tuple[int, int]:
    """Return how many queries were compared, and how often pushing down was not the best."""
    compared = pulled = 0
    for seed in seeds:
        rng = random.Random(seed)
        plans = RandomPlans(rng, plain=seed % 2 == 0)
        root = plans.small_query(operators)
        sizes = Sizes(plans.statistics(root), int(10 * SECOND * 10 ** rng.uniform(-1.5, 0.3)))
        emit = rng.choice([COMPLETE, DELTA])
        constants = drawn_constants(seed)
        try:
            best, _, _ = cheapest(root, emit, sizes, constants, most)
        except TooMany:
            continue
        found = optimal(root, emit, sizes, constants)
        assert abs(found.cost - best) <= 1e-9 * best, f"seed {seed}"
        assert abs(assign_modes(found.rel, emit, sizes, constants).cost - best) <= 1e-9 * best, f"seed {seed}"
        tables = [plans.tables() for _ in range(2)]
        assert [answer(found.rel, t) for t in tables] == [answer(root, t) for t in tables], f"seed {seed}"
        compared += 1
        pulled += push_down(root, emit, sizes, constants).cost > best * (1 + 1e-9)
    return compared, pulled


def test_all_positions_orders_and_modes() -> None:
    compared, _ = compare(range(60), 150, 6)
    assert compared > 40


def test_a_difference_is_pulled_over_a_join_that_leaves_little() -> None:
    less = Except(scan("a", 1), scan("b", 2), True)
    root = project(Join(less, scan("s", 0), (equal(col("a"), col("s")),)), "p", col("a"), col("s", "x"))
    many = {("a", "k"): 1e6, ("b", "k"): 1e6, ("s", "k"): 1e6, ("a", "x"): 100.0, ("b", "x"): 100.0}
    sizes = Sizes(Statistics({"a": 1e5, "b": 1e5, "s": 0.5}, {}, many), 10 * SECOND)
    found = optimal(root, COMPLETE, sizes, Constants())
    assert relation_text(found.rel).count("s_2") == 1
    assert found.cost < push_down(root, COMPLETE, sizes, Constants()).cost * 0.9
    assert same_rows(root, found.rel)


def test_a_difference_stays_below_a_join_that_makes_more() -> None:
    less = Except(scan("a", 1), scan("b", 2), True)
    root = project(Join(less, scan("s", 0), (equal(col("a"), col("s")),)), "p", col("a"), col("s", "x"))
    sizes = Sizes(Statistics({"a": 1e3, "b": 1e3, "s": 1e3}), SECOND)
    found = optimal(root, COMPLETE, sizes, Constants())
    assert found.cost == pytest.approx(push_down(root, COMPLETE, sizes, Constants()).cost)
    assert "s_2" not in relation_text(found.rel)


def test_the_search_ends_and_is_never_worse_than_the_heuristic() -> None:
    def side(own: str, shared: str, alias: str, stream: int) -> Rel:
        rel: Rel = scan(own, stream)
        for i in range(6):
            on = col(own) if i == 0 else col(f"{shared}{i - 1}", "x")
            rel = Join(rel, scan(f"{shared}{i}", i), (equal(on, col(f"{shared}{i}")),))
        return project(rel, alias, col(own), *(col(f"{shared}{i}", "x") for i in range(6)))

    root = Except(side("a", "s", "p", 1), side("b", "t", "q", 2), True)
    sizes = Sizes(Statistics(), SECOND)
    found = optimal(root, COMPLETE, sizes, Constants())
    assert found.cost <= push_down(root, COMPLETE, sizes, Constants()).cost


@pytest.mark.slow
@pytest.mark.parametrize("first", some(range(1000, 1600, 75), 1))
def test_many_positions_orders_and_modes(first: int) -> None:
    compared, pulled = compare(range(first, first + 75), 3000, 7)
    assert compared > 60
    assert pulled
