"""Join order with modes: the cheapest of all orders, no products unless needed, and greedily when there are many."""

import random

from optimize.hopping.brute_force import answer
from optimize.hopping.exhaustive import cheapest
from optimize.hopping.random_plans import SECOND, RandomPlans, drawn_constants, equal
from optimize.hopping.test_rules import col, project, same_rows, scan

from midstream.model.statistics import Statistics
from midstream.optimize.hopping.assign_modes import assign_modes
from midstream.optimize.hopping.cost import Constants
from midstream.optimize.hopping.estimate import Sizes
from midstream.optimize.hopping.push_down import push_down
from midstream.optimize.search import MOST_PARTS
from midstream.plan.algebra import Join, Rel, operators
from midstream.plan.query import COMPLETE, DELTA


def test_the_order_is_the_cheapest_of_all() -> None:
    for seed in range(25):
        rng = random.Random(seed)
        plans = RandomPlans(rng, plain=True)
        rel = plans.block(4 if seed < 5 else 3)
        root = plans.project(rel, [plans.column(rel)])
        sizes = Sizes(plans.statistics(root), int(SECOND * 10 ** rng.uniform(-1, 1.3)))
        emit = rng.choice([COMPLETE, DELTA])
        constants = drawn_constants(seed)
        best, _, _ = cheapest(root, emit, sizes, constants, 10_000)
        found = push_down(root, emit, sizes, constants)
        assert abs(found.cost - best) <= 1e-9 * best
        assert abs(assign_modes(found.rel, emit, sizes, constants).cost - best) <= 1e-9 * best
        tables = [plans.tables() for _ in range(3)]
        assert [answer(found.rel, t) for t in tables] == [answer(root, t) for t in tables]


def chain(count: int) -> Rel:
    rel: Rel = scan("t0", 0)
    for i in range(1, count):
        rel = Join(rel, scan(f"t{i}", i % 6), (equal(col(f"t{i - 1}", "x"), col(f"t{i}")),))
    return project(rel, "p", col("t0"), col(f"t{count - 1}", "x"))


def test_parts_that_a_condition_holds_together_are_never_multiplied() -> None:
    rates = {f"t{i}": 10.0 ** (i % 4) for i in range(7)}
    found = push_down(chain(7), COMPLETE, Sizes(Statistics(rates), SECOND), Constants())
    assert all(n.conjuncts for n in operators(found.rel) if isinstance(n, Join))


def test_what_nothing_holds_together_is_multiplied_last() -> None:
    apart = Join(Join(scan("a", 1), scan("b", 2)), scan("c", 3), (equal(col("a"), col("c")),))
    rel = project(apart, "p", col("b"))
    found = push_down(rel, COMPLETE, Sizes(Statistics(), SECOND), Constants())
    joins = [n for n in operators(found.rel) if isinstance(n, Join)]
    assert [bool(j.conjuncts) for j in joins] == [True, False]
    assert same_rows(rel, found.rel)


def test_many_parts_are_joined_greedily() -> None:
    rel = chain(MOST_PARTS + 3)
    sizes = Sizes(Statistics({f"t{i}": 10.0 for i in range(13)}), SECOND)
    found = push_down(rel, DELTA, sizes, Constants())
    assert all(n.conjuncts for n in operators(found.rel) if isinstance(n, Join))
    assert abs(assign_modes(found.rel, DELTA, sizes, Constants()).cost - found.cost) <= 1e-9 * found.cost
    assert found.cost <= assign_modes(rel, DELTA, sizes, Constants()).cost * 1.001
