"""Join orders by cost: the search finds the cheapest tree, and cheap trees evaluate few predicates."""

import random
from collections.abc import Iterator
from itertools import pairwise
from math import exp, log

import numpy as np
import pyarrow as pa
import pytest
from optimize.skewed import Skewed, draw_skewed

import midstream as ms
from midstream.model.statistics import Statistics, Values
from midstream.optimize.join_cost import JoinCost
from midstream.optimize.order_joins import FEWEST_ROWS, cheapest_tree, order_joins, written_order
from midstream.optimize.search import MOST_PARTS
from midstream.plan.plan import Plan
from midstream.plan.tree import Pair, Tree, leaves, tree_text


def every_tree(names: tuple[str, ...]) -> Iterator[Tree]:
    """Yield every join tree of some streams; which input is left does not matter."""
    if len(names) == 1:
        yield names[0]
    for bits in range(1, 1 << (len(names) - 1)):
        right = tuple(n for k, n in enumerate(names[1:]) if bits >> k & 1)
        left = tuple(n for n in names if n not in right)
        for a in every_tree(left):
            yield from (Pair(a, b) for b in every_tree(right))


def plan_of(names: tuple[str, ...], where: list[str]) -> Plan:
    engine = ms.Engine()
    for name in names:
        engine.stream(name, pa.table({"ts": [1], "k": [1], "l": [1], "v": [1]}), time="ts")
    sources = ", ".join(f"{name} [RANGE 5 SECONDS]" for name in names)
    return engine.query(f"SELECT {names[0]}.v FROM {sources} WHERE {' AND '.join(where)}").plan


def draw_plan(rnd: random.Random, names: tuple[str, ...]) -> Plan:
    """Draw conditions between streams, not always enough to hold them together."""
    where = []
    for _ in range(rnd.randint(len(names) - 1, len(names) + 2)):
        a, b = rnd.sample(names, 2)
        where.append(f"{a}.{rnd.choice('kl')} {rnd.choice(['=', '=', '=', '<', '<>'])} {b}.{rnd.choice('kl')}")
    if rnd.random() < 0.3:
        where.append(f"{names[0]}.v + {names[1]}.v > {names[-1]}.v")
    return plan_of(names, where)


def draw_statistics(rnd: random.Random, plan: Plan) -> Statistics:
    stats = Statistics(rows_seen=FEWEST_ROWS)
    for alias in plan.query.aliases:
        stats.rows_per_s[alias] = rnd.choice([1.0, 10.0, 100.0, 1000.0])
        stats.window_rows[alias] = stats.rows_per_s[alias] * rnd.choice([0.1, 5.0, 60.0])
        stats.passing[alias] = rnd.choice([1.0, 0.5, 0.01])
        for group in range(len(plan.predicates.classes)):
            common = {value: 0.5 / (value + 1) for value in range(rnd.randint(0, 2))}
            stats.values[group, alias] = Values(rnd.choice([3.0, 50.0, 5000.0]), common, 1 - sum(common.values()))
    for comparison in plan.predicates.comparisons:
        stats.selectivity[str(comparison)] = rnd.choice([0.001, 0.3, 1.0])
    return stats


@pytest.mark.parametrize("seed", range(60))
def test_the_search_finds_the_cheapest_of_all_trees(seed: int) -> None:
    rnd = random.Random(seed)
    names = tuple("abcde"[: rnd.randint(2, 5)])
    plan = draw_plan(rnd, names)
    cost = JoinCost(names, plan.predicates, draw_statistics(rnd, plan), rnd.choice(["auto", "nested-loop"]))
    trees = list(every_tree(names))
    assert len({tree_text(t) for t in trees}) == len(trees) == [1, 1, 3, 15, 105][len(names) - 1]
    totals = [cost.of(tree).total for tree in trees]
    assert cost.of(cheapest_tree(cost)).total == pytest.approx(min(totals))
    assert max(totals) > min(totals) or len(names) == 2


def test_many_streams_are_ordered_greedily() -> None:
    names = tuple(f"s{k}" for k in range(MOST_PARTS + 2))
    plan = plan_of(names, [f"s0.k = {name}.k" for name in names[1:]])
    stats = Statistics(rows_seen=FEWEST_ROWS)
    for k, name in enumerate(names):
        stats.rows_per_s[name], stats.window_rows[name] = 100.0, 500.0
        stats.values[0, name] = Values(1000.0 if k > 5 else 10.0)
        stats.passing[name] = 0.01 if k > 8 else 1.0
    chosen = order_joins(plan.query, stats)
    assert sorted(leaves(chosen)) == sorted(names)
    cost = JoinCost(names, plan.predicates, stats)
    assert cost.of(chosen).total < 0.1 * cost.of(written_order(plan.query, plan.predicates)).total


def counted(case: Skewed, plan: str) -> tuple[int, pa.Table]:
    run = case.engine().query(case.sql, plan=plan).start()
    return sum(batch.predicate_evaluations for batch in run.report.batches), run.table()


@pytest.mark.slow
def test_chosen_orders_evaluate_fewer_predicates() -> None:
    """In most cases, and far fewer; what comes out is the same."""
    ratios, cases = [], 40
    for seed in range(1000, 1000 + cases):
        case = draw_skewed(seed)
        plan = case.engine().query(case.sql).plan
        assert isinstance(plan, Plan)
        written = tree_text(written_order(plan.query, plan.predicates))
        if str(plan) == written:
            continue
        (mine, rows), (theirs, same) = counted(case, str(plan)), counted(case, written)
        assert rows.equals(same)
        ratios.append((mine + 1) / (theirs + 1))
    assert len(ratios) > cases / 2, "another order is mostly cheaper"
    assert sum(ratio <= 1 for ratio in ratios) >= 0.9 * len(ratios)
    assert exp(sum(log(ratio) for ratio in ratios) / len(ratios)) < 0.5


@pytest.mark.parametrize("join", ["auto", "nested-loop"])
def test_the_cost_says_about_how_many_predicates_are_evaluated(join: str) -> None:
    """Uniform keys, windows that are full most of the time: nothing is left to chance."""
    numbers, seconds = np.random.default_rng(5), 60
    engine = ms.Engine()
    for name, count in (("a", 6000), ("b", 3000), ("c", 1500)):
        times = np.sort(numbers.integers(0, seconds * 1_000_000, count))
        rows = {"k": numbers.integers(0, 50, count), "v": numbers.integers(0, 100, count)}
        engine.stream(name, pa.table({"ts": times, **rows}), time="ts")
    windows = ", ".join(f"{name} [RANGE 2 SECONDS]" for name in "abc")
    sql = f"SELECT a.v FROM {windows} WHERE a.k = b.k AND b.k = c.k AND a.v < b.v AND c.v < 50"
    query = engine.query(sql, join=join)
    run = query.start()
    evaluated = sum(batch.predicate_evaluations for batch in run.report.batches) / seconds
    said = query.explain().split("Expected per second of event time\n  ")[1]
    assert float(said.split()[0].replace(",", "")) == pytest.approx(evaluated, rel=0.15)


def test_the_written_order_stays_where_little_is_known() -> None:
    case = draw_skewed(9)
    plan = case.engine().query(case.sql).plan
    assert isinstance(plan, Plan)
    written = written_order(plan.query, plan.predicates)
    assert plan.tree != written
    assert order_joins(plan.query) == written
    few = Skewed(case.sql, {name: rows.slice(0, FEWEST_ROWS - 1) for name, rows in case.streams.items()})
    assert few.engine().query(case.sql).plan.tree == written
    assert str(case.engine().query(case.sql, plan=tree_text(written)).plan) == tree_text(written)


def test_a_join_by_key_alone_makes_no_product() -> None:
    plan = plan_of(("a", "b", "c"), ["a.k = b.k", "b.l = c.l"])
    stats = Statistics(rows_seen=FEWEST_ROWS)
    for name, rows in (("a", 1.0), ("b", 10_000.0), ("c", 1.0)):
        stats.rows_per_s[name], stats.window_rows[name] = rows, rows
        stats.values[0, name] = stats.values[1, name] = Values(2.0)
    assert tree_text(order_joins(plan.query, stats)) == "((a c) b)", "a product of two rows is cheap"
    assert tree_text(order_joins(plan.query, stats, "hash")) == "((a b) c)"


@pytest.mark.parametrize("count", [10, 11])
def test_explain_says_when_not_all_orders_are_compared(count: int) -> None:
    engine = ms.Engine()
    rows = pa.table({"ts": [k * 1_000 for k in range(300)], "k": [k % 50 for k in range(300)]})
    names = [f"s{n}" for n in range(count)]
    for name in names:
        engine.stream(name, rows, time="ts")
    streams = ", ".join(f"{name} [RANGE 10 MILLISECONDS]" for name in names)
    equal = " AND ".join(f"{a}.k = {b}.k" for a, b in pairwise(names))
    said = engine.query(f"SELECT s0.k FROM {streams} WHERE {equal}").explain()
    assert ("are not all compared" in said) == (count > 10)
