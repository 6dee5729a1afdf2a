"""Costs by the printed formulas, greedy plans by the definition of Algorithm 1, the optimum by looking at all plans."""

import itertools
import random

import pytest
from sites.setups import changed, drawn_model, drawn_stream, names, paper_model, paper_stream

from midstream.sites.cost import CostModel, cost_change, costed, may_cost_less, sequence_cost
from midstream.sites.declaration import Declared, Link
from midstream.sites.greedy import greedy_plan, violations
from midstream.sites.optimum import optimal_plan
from midstream.sites.plan import ProbeSequence, SitesPlan
from midstream.sites.statistics import StreamStatistics, complete_graph, head_flow


def drawn(seed: int, most: int) -> tuple[CostModel, dict[str, StreamStatistics], random.Random]:
    rng = random.Random(seed)
    model = drawn_model(rng, rng.randint(3, most))
    return model, {a: drawn_stream(rng, model, a) for a in model.graph.aliases}, rng


def test_costs_are_those_of_the_equations() -> None:
    """Three streams, f = 0.01, 0.02, 0.005: each number below is computed by hand from equations 1 to 3."""
    aliases = ("1", "2", "3")
    links = {("1", "2"): Link(5000, 1000.0), ("2", "3"): Link(1000, 500.0)}
    model = CostModel(complete_graph(aliases), Declared({a: a for a in aliases}, "1", links=links), 1e-3, 1e-2)
    streams = {
        "1": StreamStatistics(10, 100, 20, {"J": 0.01}),
        "2": StreamStatistics(40, 50, 80, {"J": 0.02}),
        "3": StreamStatistics(30, 200, 60, {"J": 0.005}),
    }
    sequence = ProbeSequence("1", ("2", "3"), (1, 0))
    first, second = costed(model, sequence, streams)
    assert first.cost == pytest.approx(0.005 + 10 * 100 / 1000 + 40 * 1e-2 + 10 * 1e-3 * 80)
    assert model.at_source(first.flow, "2", streams["2"]) == pytest.approx(0.005 + 40 * 50 / 1000 + 0.4 + 0.8)
    assert second.flow.rate == pytest.approx(10 * 0.01 * 80)
    assert second.flow.size == 150
    assert second.flow.factors == {"J": 0.02}
    assert second.cost == pytest.approx(0.001 + 30 * 200 / 500 + 30 * 1e-2 + 8 * 1e-3 * 60)
    assert model.at_destination(second.flow, "3", streams["3"]) == pytest.approx(0.001 + 8 * 150 / 500 + 0.3 + 0.48)
    third = model.next_flow(second.flow, "3", streams["3"], 0)
    assert third.node == "2"
    assert third.rate == pytest.approx(8 * 0.005 * 60)


def test_nothing_is_paid_for_shipping_within_a_site() -> None:
    model = CostModel(complete_graph("ab"), Declared({"a": "x", "b": "x"}, "x"), 1.0, 1.0)
    streams = {"a": StreamStatistics(10, 100, 20, {"J": 0.01}), "b": StreamStatistics(40, 50, 80, {"J": 0.02})}
    placed = model.placed(head_flow("a", streams["a"]), "b", streams["b"])
    assert placed == (40 + 10 * 80, 0)


@pytest.mark.parametrize("seed", range(60))
def test_a_greedy_plan_breaks_the_invariant_nowhere_and_others_do(seed: int) -> None:
    model, streams, rng = drawn(seed, 8)
    plan = greedy_plan(model, streams)
    assert violations(model, plan, streams) == []
    assert greedy_plan(model, dict(reversed(streams.items()))) == plan
    sequence = rng.choice(plan.sequences)
    order, placements = list(sequence.order), list(sequence.placements)
    if rng.random() < 0.5:
        j, k = rng.sample(range(len(order)), 2)
        order[j], order[k] = order[k], order[j]
    else:
        j = rng.randrange(len(order))
        placements[j] = 1 - placements[j]
    other = ProbeSequence(sequence.head, tuple(order), tuple(placements))
    spoiled = SitesPlan(tuple(other if s.head == other.head else s for s in plan.sequences))
    assert violations(model, spoiled, streams)


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_is_cheaper_than_the_optimum(seed: int) -> None:
    model, streams, _ = drawn(seed, 5)
    plan = optimal_plan(model, streams)
    assert plan is not None
    for sequence in plan.sequences:
        others = [a for a in model.graph.aliases if a != sequence.head]
        least = min(
            sequence_cost(model, ProbeSequence(sequence.head, order, placements), streams)
            for order in itertools.permutations(others)
            for placements in itertools.product((0, 1), repeat=len(others))
        )
        assert sequence_cost(model, sequence, streams) == pytest.approx(least)


def test_equal_streams_stand_in_declaration_order() -> None:
    plan = greedy_plan(paper_model(4), {a: paper_stream(100.0) for a in names(4)})
    assert [s.order for s in plan.sequences] == [
        ("s2", "s3", "s4"), ("s1", "s3", "s4"), ("s1", "s2", "s4"), ("s1", "s2", "s3"),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_no_cost_at_a_node_changes_by_more_than_is_compared_with_the_threshold(seed: int) -> None:
    model, streams, rng = drawn(seed, 5)
    alias = rng.choice(model.graph.aliases)
    before, after = streams[alias], changed(rng, model, alias, streams[alias])
    most = cost_change(before, after)
    for head in model.graph.aliases:
        if head != alias:
            flow = head_flow(head, streams[head])
            old, new = model.placed(flow, alias, before).cost, model.placed(flow, alias, after).cost
            assert abs(new - old) <= most * old * (1 + 1e-9)
            assert may_cost_less(before, after) or new >= old
