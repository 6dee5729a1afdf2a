"""Projections over projections: what is read twice at every level is neither planned nor computed twice as often."""

import random
from collections import Counter
from typing import Any

import pytest
from optimize.hopping.brute_force import answer
from optimize.hopping.random_plans import INT, SECOND, RandomPlans, call

from midstream.optimize.hopping import graph
from midstream.optimize.hopping.choose import choose, costs
from midstream.optimize.hopping.graph import Computed, graph_of
from midstream.plan.algebra import Distinct, Project, Rel, Select, expressions, operators, scans
from midstream.plan.expr import Call, Expr, Literal, children
from midstream.plan.query import COMPLETE, DELTA, Query, hop_query
from seeds import few_quick


def nested(levels: int) -> Query:
    """Ask for twice the double of the double of ... a column."""
    plans = RandomPlans(random.Random(1), plain=True)
    rel: Rel = plans.scan(0)
    for _ in range(levels):
        first = rel.columns[0]
        rel = plans.project(rel, [call("+", first, first), *rel.columns[1:2]])
    return hop_query(rel, 3 * SECOND)


def length(expr: Expr) -> int:
    return 1 + sum(length(child) for child in children(expr))


def made(monkeypatch: pytest.MonkeyPatch, levels: int, shape: str) -> tuple[int, int]:
    """Return how many calls planning makes of expressions, and how long those of the plan are."""
    query, counted = nested(levels), Counter[str]()
    plain = Call.__init__

    def counting(self: Call, *args: Any, **kwargs: Any) -> None:
        counted["calls"] += 1
        plain(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Call, "__init__", counting)
        plan = choose(query, shape=shape)
    return counted["calls"], sum(length(e) for rel in operators(plan.root) for e in expressions(rel))


@pytest.mark.parametrize("shape", ["optimal", "push-down"])
def test_plans_grow_with_what_is_written(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (few, short), (many, long) = (made(monkeypatch, levels, shape) for levels in (12, 36))
    assert many <= 9 * few, "not more than the square"
    assert long <= 4 * short


def test_what_is_read_once_stays_in_one_projection() -> None:
    plans = RandomPlans(random.Random(1), plain=True)
    rel: Rel = plans.scan(0)
    for _ in range(300):
        rel = plans.project(rel, [call("+", rel.columns[0], Literal(1, INT))])
    assert not any(isinstance(p, Computed) for p in graph_of(rel).parts)


def wrapped(plans: RandomPlans, rel: Rel) -> Rel:
    """Put projections that read columns several times, conditions and sets around a query."""
    rng = plans.rng
    for _ in range(rng.randint(2, 4)):
        picks = [rng.choice(rel.columns) for _ in range(3)]
        exprs: list[Expr] = [call("+", picks[0], picks[0]), call("-", picks[0], picks[1]), picks[2]]
        rel = plans.project(rel, rng.sample(exprs, 3))
        if rng.random() < 0.4:
            rel = Select(rel, (call("<", rng.choice(rel.columns), Literal(rng.randint(0, 9), INT)),))
        if rng.random() < 0.2:
            rel = Distinct(rel)
        if rng.random() < 0.3:
            other = plans.scan()
            rel = plans.joined(rel, other)
    return plans.project(rel, list(rel.columns[:3]))


@pytest.mark.parametrize("seed", few_quick(range(40), 5))
def test_rows_stay_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "LONGEST", random.Random(seed).choice([2, 5, 12]))
    plans = RandomPlans(random.Random(seed))
    inner = plans.small_query(6) if seed % 2 else plans.block(2)
    root = wrapped(plans, inner)
    query = hop_query(root, 3 * SECOND, random.Random(seed).choice([COMPLETE, DELTA]))
    statistics = plans.statistics(root)
    tables = [plans.tables() for _ in range(2)]
    for shape in ("optimal", "push-down"):
        plan = choose(query, statistics, shape=shape)
        assert plan.root.columns == root.columns
        aliases = [s.source.alias for s in scans(plan.root)]
        assert len(set(aliases)) == len(aliases)
        assert [answer(plan.root, t) for t in tables] == [answer(root, t) for t in tables]
        assert all(c.total > 0 for _, _, c, _ in costs(plan, statistics))


def test_draws_compute_before_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "LONGEST", 5)
    kept = 0
    for seed in range(40):
        plans = RandomPlans(random.Random(seed))
        inner = plans.small_query(6) if seed % 2 else plans.block(2)
        kept += any(isinstance(p, Computed) for p in graph_of(wrapped(plans, inner)).parts)
    assert kept > 10


def test_conditions_on_plain_columns_are_tested_first() -> None:
    plans = RandomPlans(random.Random(1), plain=True)
    rel: Rel = plans.scan(0)
    for _ in range(9):
        first, second = rel.columns[:2]
        rel = plans.project(rel, [call("+", first, first), second])
    rel = plans.project(Select(rel, (call("<", rel.columns[1], Literal(2, INT)),)), list(rel.columns))
    found = [type(r) for r in operators(choose(hop_query(rel, 3 * SECOND)).root)]
    assert found.index(Select) < found.index(Project)
    assert found.count(Select) == 1
