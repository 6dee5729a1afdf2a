"""Greedy plans: each sequence goes on with the stream that is cheapest to join next (Algorithm 1).

A stream that no condition relates to those before it comes after all that one does: it would be a cross product. Of
streams that cost the same the first in declaration order is next, so there is one plan for given statistics.
"""

from collections.abc import Mapping
from typing import NamedTuple

from midstream.sites.cost import CostModel, costed
from midstream.sites.plan import ProbeSequence, SitesPlan
from midstream.sites.statistics import StreamStatistics, head_flow


def greedy_plan(model: CostModel, streams: Mapping[str, StreamStatistics]) -> SitesPlan:
    """Return the plan of Algorithm 1."""
    return SitesPlan(tuple(greedy_sequence(model, head, streams) for head in model.graph.aliases))


def greedy_sequence(model: CostModel, head: str, streams: Mapping[str, StreamStatistics]) -> ProbeSequence:
    """Return the sequence of one head stream."""
    flow, order, placements = head_flow(head, streams[head]), list[str](), list[int]()
    left = [alias for alias in model.graph.aliases if alias != head]
    while left:
        best = min(left, key=lambda alias: model.rank(flow, alias, streams[alias]))
        placed = model.placed(flow, best, streams[best])
        flow = model.next_flow(flow, best, streams[best], placed.placement)
        order.append(best)
        placements.append(placed.placement)
        left.remove(best)
    return ProbeSequence(head, tuple(order), tuple(placements))


class Violation(NamedTuple):
    """A step of a sequence that breaks the invariant: another stream is cheaper there, or the other placement."""

    head: str
    stream: str
    better: str
    """The stream that belongs there; `stream` itself if only its placement is wrong."""

    def __str__(self) -> str:
        if self.stream == self.better:
            return f"SEP_{self.head}: the join with S_{self.stream} is cheaper at the other place"
        return f"SEP_{self.head}: S_{self.better} is cheaper where S_{self.stream} is"


def violations(model: CostModel, plan: SitesPlan, streams: Mapping[str, StreamStatistics]) -> list[Violation]:
    """Return where a plan breaks the invariant of equation 4; a plan that breaks it nowhere is the greedy one."""
    found = []
    for sequence in plan.sequences:
        for k, (step, flow, _) in enumerate(costed(model, sequence, streams)):
            best = min(sequence.order[k:], key=lambda alias: model.rank(flow, alias, streams[alias]))
            misplaced = model.placed(flow, step.stream, streams[step.stream]).placement != step.placement
            if best != step.stream or misplaced:
                found.append(Violation(sequence.head, step.stream, best))
    return found
