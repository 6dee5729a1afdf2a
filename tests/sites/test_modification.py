"""Plan modification: centralized and distributed nodes end with the plan of Algorithm 1, whatever changes and when."""

import json
import random

import pytest
from sites.exchange import Network
from sites.setups import changed, drawn_model, drawn_stream

from midstream.sites.centralized import CentralizedNode, centralized_nodes, restored_centralized
from midstream.sites.cost import CostModel, cost_change
from midstream.sites.distributed import DistributedNode, distributed_nodes, restored_distributed
from midstream.sites.greedy import greedy_plan, violations
from midstream.sites.operator_set import operator_sets
from midstream.sites.plan import SitesPlan
from midstream.sites.statistics import StreamStatistics
from seeds import few_quick


def check(model: CostModel, network: Network, streams: dict[str, StreamStatistics], threshold: float) -> SitesPlan:
    """Compare nodes with the plan made anew of what was reported, which is what there is unless it hardly changed."""
    nodes = {n: node for n, node in network.nodes.items() if isinstance(node, DistributedNode)}
    reported = {name: node.state.statistics for name, node in nodes.items()}
    for name, now in streams.items():
        assert cost_change(reported[name], now) <= threshold
    plan = greedy_plan(model, reported)
    expected = operator_sets(plan)
    assert violations(model, plan, reported) == []
    for name, node in nodes.items():
        assert node.running == expected[name], (name, str(plan))
        assert node.operators == node.running
    return plan


def restored(network: Network, model: CostModel, threshold: float, rng: random.Random) -> None:
    """Let a node forget everything but its state."""
    name = rng.choice(list(network.nodes))
    node, nodes = network.nodes[name], dict(network.nodes)
    assert isinstance(node, DistributedNode | CentralizedNode)
    written = json.loads(json.dumps(node.export()))
    again = restored_distributed if isinstance(node, DistributedNode) else restored_centralized
    nodes[name] = again(name, model, threshold, written)
    network.nodes = nodes


@pytest.mark.parametrize("seed", few_quick(range(120), 4))
def test_both_end_with_the_plan_of_algorithm_1(seed: int) -> None:
    """Twenty-five changes each: one at a time, several at once, and while others are under way."""
    rng = random.Random(seed)
    model = drawn_model(rng, rng.randint(3, 10) if seed >= 4 else 4)
    threshold = rng.choice((0.0, 0.0, 0.6))
    streams = {a: drawn_stream(rng, model, a) for a in model.graph.aliases}
    distributed = Network(distributed_nodes(model, streams, threshold), rng, 0.1)
    central = Network(centralized_nodes(model, streams, threshold), rng, 0.1)
    left = 25
    while left:
        for _ in range(min(left, rng.choice((1, 1, 1, 2, 4)))):
            alias = rng.choice(model.graph.aliases)
            streams[alias] = changed(rng, model, alias, streams[alias])
            for network in (distributed, central):
                network.send(network.nodes[alias].observe(streams[alias]))
            left -= 1
            for network in (distributed, central):
                for _ in range(rng.choice((0, 0, 3, 30))):
                    network.step()
        for network in (distributed, central):
            if rng.random() < 0.3:
                restored(network, model, threshold, rng)
        if rng.random() < 0.7:
            distributed.run()
            central.run()
            check(model, distributed, streams, threshold)
            assert {n: node.running for n, node in distributed.nodes.items()} == {
                n: central.nodes[n].running for n in distributed.nodes
            }
    distributed.run()
    central.run()
    plan = check(model, distributed, streams, threshold)
    centre = central.nodes[model.network.central]
    assert isinstance(centre, CentralizedNode)
    assert centre.plan == plan
