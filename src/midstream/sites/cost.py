"""What a join over sites costs per second of time: shipping, keeping windows and probing them (equations 1 to 3).

C[source]      = T(r_k t_k) + r_k c_u + r c_p w_k      the stream comes to where the flow is
C[destination] = T(r t)     + r_k c_u + r c_p w_k      the flow, of rate r and size t, goes to the stream
T(x)           = c_l + x / c_r                         a link's latency and rate; nothing within a site
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from midstream.optimize.guesses import EVALUATIONS_PER_S
from midstream.sites.declaration import Declared
from midstream.sites.plan import AT_DESTINATION, AT_SOURCE, ProbeSequence, SitesPlan, Step
from midstream.sites.statistics import FlowStatistics, JoinGraph, StreamStatistics, head_flow, joined_flow

PROBE_S = 1 / EVALUATIONS_PER_S
"""Seconds it takes to compare a row with one in a window (c_p)."""
UPDATE_S = 5e-7
"""Seconds it takes to put a row into a window (c_u)."""

Rank = tuple[bool, float, int]
"""What the next stream of a sequence is chosen by: whether no condition relates it, its cost, its place in the FROM."""


class Placed(NamedTuple):
    """A one-way join where it is cheaper (equation 3), at the source where both cost the same."""

    cost: float
    placement: int


@dataclass(frozen=True)
class CostModel:
    """The costs of one-way joins between the nodes of a query's streams."""

    graph: JoinGraph
    network: Declared
    probe_s: float = PROBE_S
    update_s: float = UPDATE_S

    def transfer(self, bytes_per_s: float, source: str, target: str) -> float:
        """Return what shipping that much from one node to another costs (T)."""
        link = self.network.link(source, target)
        return 0.0 if link is None else link.latency_us / 1e6 + bytes_per_s / link.bytes_per_s

    def at_source(self, flow: FlowStatistics, alias: str, stream: StreamStatistics) -> float:
        """Return the cost of a one-way join where the flow is produced (equation 1)."""
        return self.transfer(stream.rate * stream.size, alias, flow.node) + self._local(flow, stream)

    def at_destination(self, flow: FlowStatistics, alias: str, stream: StreamStatistics) -> float:
        """Return the cost of a one-way join at the node of the stream (equation 2)."""
        return self.transfer(flow.rate * flow.size, flow.node, alias) + self._local(flow, stream)

    def _local(self, flow: FlowStatistics, stream: StreamStatistics) -> float:
        return stream.rate * self.update_s + flow.rate * self.probe_s * stream.window

    def placed(self, flow: FlowStatistics, alias: str, stream: StreamStatistics) -> Placed:
        """Return the cheaper placement of a one-way join (equation 3)."""
        source, destination = self.at_source(flow, alias, stream), self.at_destination(flow, alias, stream)
        return Placed(source, AT_SOURCE) if source <= destination else Placed(destination, AT_DESTINATION)

    def rank(self, flow: FlowStatistics, alias: str, stream: StreamStatistics) -> Rank:
        """Return how good a stream is as the next one of a sequence; no two streams have the same rank."""
        related = self.graph.joins(alias, flow.streams)
        return not related, self.placed(flow, alias, stream).cost, self.graph.aliases.index(alias)

    def next_flow(self, flow: FlowStatistics, alias: str, stream: StreamStatistics, placement: int) -> FlowStatistics:
        """Return the flow that a one-way join gives."""
        return joined_flow(flow, alias, stream, alias if placement == AT_DESTINATION else flow.node)


class CostedStep(NamedTuple):
    """A one-way join of a sequence, what flows into it and what it costs."""

    step: Step
    flow: FlowStatistics
    cost: float


def costed(model: CostModel, sequence: ProbeSequence, streams: Mapping[str, StreamStatistics]) -> Iterator[CostedStep]:
    """Yield the steps of a sequence with their costs, at the placements they have."""
    flow = head_flow(sequence.head, streams[sequence.head])
    for step in sequence.steps():
        stream = streams[step.stream]
        of = model.at_destination if step.placement == AT_DESTINATION else model.at_source
        yield CostedStep(step, flow, of(flow, step.stream, stream))
        flow = model.next_flow(flow, step.stream, stream, step.placement)


def sequence_cost(model: CostModel, sequence: ProbeSequence, streams: Mapping[str, StreamStatistics]) -> float:
    """Return the cost of a sequence (C_SEP)."""
    return sum(c.cost for c in costed(model, sequence, streams))


def plan_cost(model: CostModel, plan: SitesPlan, streams: Mapping[str, StreamStatistics]) -> float:
    """Return the cost of all sequences of a plan."""
    return sum(sequence_cost(model, s, streams) for s in plan.sequences)


def cost_change(before: StreamStatistics, after: StreamStatistics) -> float:
    """Return how much, at most, a change of a stream's statistics changes a cost at its node: 0.1 is a tenth.

    Costs of joins with the stream are sums of positive multiples of its rate, its bytes a second and its window rows,
    and its flows are multiples of how many rows of the window match; none of them changes by a larger part than these
    do. So what is compared with the threshold needs no knowledge of other streams, and is the same at every node.

    >>> cost_change(StreamStatistics(50, 150, 25), StreamStatistics(60, 150, 30))
    0.2
    """
    changes = [
        (before.rate, after.rate),
        (before.rate * before.size, after.rate * after.size),
        (before.window, after.window),
    ]
    for name in {**before.factors, **after.factors}:
        changes.append((before.factors.get(name, 1.0) * before.window, after.factors.get(name, 1.0) * after.window))
    for name in {**before.pairs, **after.pairs}:
        changes.append((before.pairs.get(name, 1.0) * before.window, after.pairs.get(name, 1.0) * after.window))
    return max(_part(*change) for change in changes)


def _part(before: float, after: float) -> float:
    return abs(after - before) / before if before else float(after != before)


def may_cost_less(before: StreamStatistics, after: StreamStatistics) -> bool:
    """Tell whether a join with a stream may cost less than before, so that it may belong further to the front."""
    return (
        after.rate < before.rate or after.rate * after.size < before.rate * before.size or after.window < before.window
    )
