"""Choosing a plan: shapes, modes, names of columns, and refusals."""

import random
from dataclasses import replace

import pytest
from optimize.hopping.brute_force import answer
from optimize.hopping.random_plans import SECOND, RandomPlans
from optimize.hopping.test_rules import scan, soldiers

from midstream.model.errors import PlanError
from midstream.model.statistics import Statistics
from midstream.optimize.hopping.choose import choose, costs
from midstream.optimize.hopping.cost import Constants
from midstream.plan.algebra import operators, relation_text, scans
from midstream.plan.modes import TUPLE
from midstream.plan.query import COMPLETE, DELTA, hop_query

QUERY = hop_query(soldiers(), 30 * SECOND, COMPLETE)


def test_the_shapes() -> None:
    written = choose(QUERY, shape="as-written")
    assert written.root is QUERY.root
    pushed = choose(QUERY, shape="push-down")
    assert relation_text(pushed.root).count("join") == 1
    best = choose(QUERY)
    price = {p: sum(c.total for _, _, c, _ in costs(p)) for p in (written, pushed, best)}
    assert price[best] <= price[pushed]
    assert price[best] <= price[written]


@pytest.mark.parametrize("emit", [COMPLETE, DELTA])
@pytest.mark.parametrize("shape", ["optimal", "push-down", "as-written"])
def test_the_same_modes_everywhere(shape: str, emit: str) -> None:
    query = hop_query(soldiers(), 30 * SECOND, emit)  # type: ignore[arg-type]
    delta = choose(query, shape=shape, modes="delta")
    assert set(delta.modes[:-1]) == {"DIDO"}
    assert delta.modes[-1] == ("DIDO" if emit == DELTA else "DICO")
    complete = choose(query, shape=shape, modes="complete")
    assert set(complete.modes[:-1]) == {"CICO"}
    assert complete.modes[-1] == ("CIDO" if emit == DELTA else "CICO")


def test_modes_for_each_operator() -> None:
    count = sum(1 for _ in operators(QUERY.root))
    asked = ("DIDO",) * (count - 1) + ("DICO",)
    assert choose(QUERY, shape="as-written", modes=asked).modes == asked
    with pytest.raises(PlanError, match="5 operators, but 1 modes"):
        choose(QUERY, shape="as-written", modes=("DICO",))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"shape": "round"}, "there is no plan shape 'round'; the shapes are optimal, push-down, as-written"),
        ({"modes": "fast"}, "there are no modes 'fast'; they are auto, delta, complete, or one for each operator"),
    ],
)
def test_refusals(wrong: dict[str, str], told: str) -> None:
    with pytest.raises(PlanError, match=told):
        choose(QUERY, **wrong)  # type: ignore[arg-type]


def test_long_hops_read_complete_relations_and_short_ones_deltas() -> None:
    known = Statistics(dict.fromkeys(("gps", "gps2", "healthy", "low"), 10000.0))
    short = choose(hop_query(soldiers(), SECOND // 10, DELTA), known)
    assert set(short.modes) == {"DIDO"}
    long = choose(hop_query(soldiers(), 10 * SECOND, COMPLETE), known)
    assert set(long.modes) == {"CICO"}


def test_a_query_that_is_one_scan() -> None:
    plan = choose(hop_query(scan("a", 1), SECOND))
    assert plan.modes == ()
    assert costs(plan) == []


@pytest.mark.slow
def test_columns_keep_their_names_and_rows_stay_the_same() -> None:
    for seed in range(30):
        plans = RandomPlans(random.Random(seed))
        root = plans.small_query(10)
        query = hop_query(root, 3 * SECOND, random.Random(seed).choice([COMPLETE, DELTA]))
        statistics = plans.statistics(root)
        for shape in ("optimal", "push-down"):
            plan = choose(query, statistics, Constants(), shape)
            assert plan.root.columns == root.columns
            aliases = [s.source.alias for s in scans(plan.root)]
            assert len(set(aliases)) == len(aliases)
            tables = [plans.tables() for _ in range(2)]
            assert [answer(plan.root, t) for t in tables] == [answer(root, t) for t in tables]
            assert all(c.total > 0 for _, _, c, _ in costs(plan, statistics))


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["optimal", "push-down", "as-written"])
def test_modes_are_the_cheapest_for_how_operators_work(shape: str) -> None:
    """What it costs to decide on every tuple as it comes counts when modes are chosen."""
    dearer = 0
    for seed in range(40):
        plans = RandomPlans(random.Random(seed))
        root = plans.small_query(10)
        query = hop_query(root, 3 * SECOND, random.Random(seed).choice([COMPLETE, DELTA]))
        statistics, constants = plans.statistics(root), Constants(arrival=500.0)
        found = choose(query, statistics, constants, shape, working=TUPLE)
        by_window = choose(query, statistics, constants, shape)
        others = [replace(by_window, working=(TUPLE,) * len(by_window.modes))]
        others += [choose(query, statistics, constants, shape, modes, TUPLE) for modes in ("delta", "complete")]
        best, *rest = (sum(c.total for _, _, c, _ in costs(p, statistics, constants)) for p in (found, *others))
        assert best <= min(rest) * (1 + 1e-9), f"{seed}: {found}"
        dearer += rest[0] > best * 1.01
    assert dearer, "the way of working makes a difference"
