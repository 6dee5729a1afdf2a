"""DiffDP finds what trying everything finds: all trees the rules reach, all join orders, all modes."""

import random

import pytest
from optimize.hopping.brute_force import answer
from optimize.hopping.exhaustive import TooMany, cheapest
from optimize.hopping.random_plans import NAMES, SECOND, RandomPlans, drawn_constants, equal
from optimize.hopping.test_rules import col, project, same_rows, scan

from midstream.model.statistics import Statistics
from midstream.optimize.hopping import place_differences
from midstream.optimize.hopping.assign_modes import assign_modes
from midstream.optimize.hopping.candidates import Pricing
from midstream.optimize.hopping.choose import optimal, searched
from midstream.optimize.hopping.cost import Constants
from midstream.optimize.hopping.estimate import Sizes
from midstream.optimize.hopping.fresh import Fresh, aliases_in
from midstream.optimize.hopping.graph import graph_of
from midstream.optimize.hopping.place_differences import MOST_JOINS, PlaceDifferences
from midstream.optimize.hopping.push_difference import push_differences
from midstream.optimize.hopping.push_down import push_down
from midstream.plan.algebra import Except, Join, Rel, operators, relation_text, scans, walk
from midstream.plan.modes import TUPLE, WINDOW
from midstream.plan.query import COMPLETE, DELTA
from seeds import some


def _is_nothing(difference: Except) -> bool:
    """Tell whether a stream is taken from itself: of nothing anything is equal, whatever the rules lead to."""
    left, right = ({s.source.stream.name for s in scans(side)} for side in (difference.left, difference.right))
    return len(left) == 1 and left == right


def compare(seeds: range, most: int, operators: int, working: str = WINDOW) -> tuple[int, int]:
    """Return how many queries were compared, and how often pushing down was not the best."""
    compared = pulled = 0
    for seed in seeds:
        rng = random.Random(seed)
        plans = RandomPlans(rng, plain=seed % 2 == 0)
        root = plans.small_query(operators)
        if any(isinstance(rel, Except) and _is_nothing(rel) for _, rel in walk(root)):
            continue
        sizes = Sizes(plans.statistics(root), int(10 * SECOND * 10 ** rng.uniform(-1.5, 0.3)))
        emit = rng.choice([COMPLETE, DELTA])
        constants = drawn_constants(seed)
        try:
            best, _, _ = cheapest(root, emit, sizes, constants, most, working)
        except TooMany:
            continue
        found = optimal(root, emit, sizes, constants, working)
        assert abs(found.cost - best) <= 1e-9 * best, f"seed {seed}"
        assert abs(assign_modes(found.rel, emit, sizes, constants, working).cost - best) <= 1e-9 * best, f"seed {seed}"
        tables = [plans.tables() for _ in range(2)]
        assert [answer(found.rel, t) for t in tables] == [answer(root, t) for t in tables], f"seed {seed}"
        compared += 1
        pulled += push_down(root, emit, sizes, constants, working=working).cost > best * (1 + 1e-9)
    return compared, pulled


@pytest.mark.slow
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


def joined(count: int, star: bool, twice: bool = False, alias: str = "t") -> Rel:
    """Return a difference, of a difference if `twice`, joined with others: all with it, or each with the last one."""
    less = Except(scan("a", 1), scan("b", 2), True)
    rel: Rel = Except(less, scan("c", 3), True) if twice else less
    for i in range(count - 1):
        on = col("a") if star or not i else col(f"{alias}{i - 1}", "x")
        rel = Join(rel, scan(f"{alias}{i}", i % 6), (equal(on, col(f"{alias}{i}")),))
    return project(rel, "p", col("a"), *(col(f"{alias}{i}", "x") for i in range(count - 1)))


def drawn_statistics(root: Rel, seed: int) -> Statistics:
    rng = random.Random(seed)
    aliases = [s.source.alias for s in scans(root)]
    rates = {a: 10 ** rng.uniform(0, 3) for a in aliases}
    return Statistics(rates, {}, {(a, n): 10 ** rng.uniform(1.5, 4) for a in aliases for n in NAMES})


@pytest.mark.slow
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize(("count", "star"), [(10, True), (10, False), (14, False)])
def test_every_place_is_looked_at_in_large_queries(count: int, star: bool, twice: bool) -> None:
    root = joined(count, star, twice)
    price = Pricing(Sizes(drawn_statistics(root, count), SECOND), Constants())
    found, search = searched(root, COMPLETE, price)
    assert search.left_out == 0
    # A set of parts that holds the difference, or both, is one place of each.
    sets = 2 ** (count - 1) - 1 if star else count - 1
    assert search.looked_at >= sets
    assert search.joins < MOST_JOINS
    assert found.cost <= push_down(root, COMPLETE, price.sizes, price.constants).cost
    again = assign_modes(found.rel, COMPLETE, price.sizes, price.constants)
    assert again.cost == pytest.approx(found.cost, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_left_out_as_too_dear_is_in_no_best_plan(seed: int) -> None:
    root = joined(5 + seed % 3, seed % 2 == 0, seed > 3)
    price = Pricing(Sizes(drawn_statistics(root, seed), SECOND), drawn_constants(seed))
    emit = (COMPLETE, DELTA)[seed % 2]
    everything = PlaceDifferences(price, Fresh(aliases_in(root)))
    best = min(p.cost for p in everything.whole(push_differences(graph_of(root)), emit))
    found, search = searched(root, emit, price)
    assert found.cost == pytest.approx(best, rel=1e-9)
    assert search.joins <= everything.joins


def test_differences_stay_where_they_are_when_there_is_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    root = joined(6, star=True)
    price = Pricing(Sizes(drawn_statistics(root, 2), SECOND), Constants())
    monkeypatch.setattr(place_differences, "MOST_JOINS", 0)
    found, search = searched(root, COMPLETE, price)
    assert search.left_out
    assert found.cost <= push_down(root, COMPLETE, price.sizes, price.constants).cost


def test_what_many_parts_share_is_taken_out_at_once() -> None:
    def side(own: str, shared: str, alias: str, stream: int) -> Rel:
        rel: Rel = scan(own, stream)
        for i in range(9):
            on = col(own) if i == 0 else col(f"{shared}{i - 1}", "x")
            rel = Join(rel, scan(f"{shared}{i}", i % 6), (equal(on, col(f"{shared}{i}")),))
        return project(rel, alias, col(own), *(col(f"{shared}{i}", n) for i in range(9) for n in ("k", "x")))

    root = Except(side("a", "s", "p", 1), side("b", "t", "q", 2), True)
    pushed = push_down(root, COMPLETE, Sizes(Statistics(), SECOND), Constants())
    less = next(n for n in operators(pushed.rel) if isinstance(n, Except))
    assert [s.source.alias for s in scans(less)] == ["a", "b"]
    found, search = searched(root, COMPLETE, Pricing(Sizes(Statistics(), SECOND), Constants()))
    assert found.cost <= pushed.cost
    assert search.left_out == 0


@pytest.mark.slow
def test_trees_are_the_cheapest_for_operators_that_work_by_tuple() -> None:
    compared, _ = compare(range(100, 130), 150, 6, TUPLE)
    assert compared > 20


def test_a_part_may_cost_more_than_the_best_plan() -> None:
    """Where a difference is pushed down in another way: nothing is left of it, and nothing is said."""
    assert compare(range(1503, 1504), 3000, 7) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("first", some(range(1000, 1600, 75), 1))
def test_many_positions_orders_and_modes(first: int) -> None:
    found = [compare(range(first, first + 75), 3000, 7, working) for working in (WINDOW, TUPLE)]
    assert all(compared > 60 for compared, _ in found)
    assert any(pulled for _, pulled in found)
