"""The cheapest plan of all, where it is small enough to be found: how far greedy plans are from it.

What flows on after a set of streams has been joined does not depend on their order, only on where that was. So the best
way to each set and node is kept, and all orders and placements are looked at without walking each of them.
"""

from collections.abc import Mapping

from midstream.sites.cost import CostModel
from midstream.sites.plan import AT_DESTINATION, AT_SOURCE, ProbeSequence, SitesPlan
from midstream.sites.statistics import FlowStatistics, StreamStatistics, head_flow

MOST_STREAMS = 8
"""Joins of more streams have too many plans."""


def optimal_plan(model: CostModel, streams: Mapping[str, StreamStatistics]) -> SitesPlan | None:
    """Return the cheapest plan, or None where there are too many."""
    if len(model.graph.aliases) > MOST_STREAMS:
        return None
    return SitesPlan(tuple(optimal_sequence(model, head, streams) for head in model.graph.aliases))


def optimal_sequence(model: CostModel, head: str, streams: Mapping[str, StreamStatistics]) -> ProbeSequence:
    """Return the cheapest sequence of a head stream, of all orders and placements."""
    start = head_flow(head, streams[head])
    best: dict[tuple[frozenset[str], str], _Way] = {(frozenset(start.streams), head): (0.0, start, ())}
    others = [alias for alias in model.graph.aliases if alias != head]
    for _ in others:
        longer: dict[tuple[frozenset[str], str], _Way] = {}
        for cost, flow, placements in best.values():
            for alias in others:
                if alias not in flow.streams:
                    for placement in (AT_SOURCE, AT_DESTINATION):
                        way = _longer(model, (cost, flow, placements), alias, streams[alias], placement)
                        key = frozenset(way[1].streams), way[1].node
                        if key not in longer or way[0] < longer[key][0]:
                            longer[key] = way
        best = longer
    _, flow, placements = min(best.values(), key=lambda way: way[0])
    return ProbeSequence(head, flow.streams[1:], placements)


_Way = tuple[float, FlowStatistics, tuple[int, ...]]
"""What the joins so far cost, what flows on, and where they were placed."""


def _longer(model: CostModel, way: _Way, alias: str, stream: StreamStatistics, placement: int) -> _Way:
    cost, flow, placements = way
    of = model.at_destination if placement == AT_DESTINATION else model.at_source
    after = model.next_flow(flow, alias, stream, placement)
    return cost + of(flow, alias, stream), after, (*placements, placement)
