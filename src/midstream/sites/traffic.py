"""What a plan is expected to send between nodes: each shipped flow with its bytes per second."""

from collections.abc import Mapping
from typing import NamedTuple

from midstream.sites.cost import CostModel, costed
from midstream.sites.operator_set import Ship, operator_sets
from midstream.sites.plan import Flow, SitesPlan
from midstream.sites.statistics import StreamStatistics


class Shipped(NamedTuple):
    """A flow on its way from one node to another."""

    flow: Flow
    source: str
    target: str
    bytes_per_s: float


def flow_bytes(model: CostModel, plan: SitesPlan, streams: Mapping[str, StreamStatistics]) -> dict[Flow, float]:
    """Return how many bytes per second each flow of a plan has."""
    found = {}
    for sequence in plan.sequences:
        for step, flow, _ in costed(model, sequence, streams):
            found[step.flow] = flow.rate * flow.size
            after = model.next_flow(flow, step.stream, streams[step.stream], step.placement)
            found[step.result] = after.rate * after.size
    return found


def traffic(model: CostModel, plan: SitesPlan, streams: Mapping[str, StreamStatistics]) -> list[Shipped]:
    """Return what is shipped between sites, by node; what stays within a site is not."""
    bytes_per_s = flow_bytes(model, plan, streams)
    return [
        Shipped(o.flow, node, o.to, bytes_per_s[o.flow])
        for node, operators in operator_sets(plan).items()
        for o in operators.operators
        if isinstance(o, Ship) and model.network.link(node, o.to) is not None
    ]
