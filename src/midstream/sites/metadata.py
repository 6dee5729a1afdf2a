"""What a node knows of one probe sequence: its own place, its neighbours, and the joins that take place at it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from midstream.sites.cost import CostModel, costed
from midstream.sites.messages import register
from midstream.sites.operator_set import Operator, operators_at
from midstream.sites.plan import AT_DESTINATION, Flow, ProbeSequence, SitesPlan
from midstream.sites.statistics import FlowStatistics, StreamStatistics


@register
@dataclass
class Metadata:
    """A node's share of one sequence. The paper's r, t and C, with what it says a node finds its neighbours by.

    Invariant: between two modifications all of it is as the plan has it. During one, what a visit has not reached yet
    is as before.
    """

    flow: FlowStatistics | None
    """What is to be joined with the node's stream, and where it is produced; None at the head."""
    placement: int = AT_DESTINATION
    cost: float = 0.0
    preceding: str | None = None
    """The stream before the node's own in the sequence."""
    succeeding: str | None = None
    """The stream after it."""
    gives: FlowStatistics | None = None
    """What the join with the node's stream gives; at the head the stream itself."""
    following: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """The stream at a later position, and the placement of its join, as far as the flow before it is produced here."""
    told: tuple[int, int, str] | None = None
    """Position and placement that were said last to the node at which the flow before it is produced."""
    seen: tuple[int, int] = (0, 0)
    """Modification and number of the last visit: one that is delivered again is known by it."""

    @property
    def position(self) -> int:
        """Return the position of the node's stream: 0 of the head."""
        return 0 if self.flow is None else len(self.flow.streams)

    def operators(self, node: str, head: str, streams: int) -> tuple[Operator, ...]:
        """Return what the node does for the sequence (NOS^i_k), of a join of so many streams."""
        later = range(self.position + 1, streams)
        after = [self.following[p] for p in later if p in self.following]
        if self.flow is None:
            return operators_at(node, Flow(node, node), after)
        flow = Flow(head, str(self.preceding))
        return operators_at(node, flow, after, (self.placement, self.flow.node))


def first_metadata(
    model: CostModel, plan: SitesPlan, streams: Mapping[str, StreamStatistics]
) -> dict[str, dict[str, Metadata]]:
    """Return what each node knows of each sequence of a plan, by node and head."""
    known: dict[str, dict[str, Metadata]] = {node: {} for node in plan.aliases}
    for sequence in plan.sequences:
        for node, own in _of_sequence(model, sequence, streams).items():
            known[node][sequence.head] = own
    return known


def _of_sequence(
    model: CostModel, sequence: ProbeSequence, streams: Mapping[str, StreamStatistics]
) -> dict[str, Metadata]:
    found = {sequence.head: Metadata(None)}
    steps = list(costed(model, sequence, streams))
    for position, (step, flow, cost) in enumerate(steps, 1):
        gives = model.next_flow(flow, step.stream, streams[step.stream], step.placement)
        told = (position, step.placement, step.source)
        found[step.stream] = Metadata(flow, step.placement, cost, step.flow.last, gives=gives, told=told)
        found[step.flow.last].succeeding = step.stream
        source = found[step.source]
        source.following = {**source.following, position: (step.stream, step.placement)}
    found[sequence.head].gives = steps[0].flow
    return found
