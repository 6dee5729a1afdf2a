"""Plan modification at one node (Algorithm 2): nodes report changed statistics, the central node makes all sets anew.

    node ── report ──▶ central node ── new operators ──▶ every node whose set is another one ── done ──▶ central node

One modification is carried out after the other: reports that come while nodes migrate wait, and are taken together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from midstream.sites.cost import CostModel, cost_change
from midstream.sites.greedy import greedy_plan
from midstream.sites.messages import Done, Message, NewOperators, Report, deliver_own, read, register, write
from midstream.sites.migration import Migration
from midstream.sites.operator_set import OperatorSet, operator_sets
from midstream.sites.plan import SitesPlan
from midstream.sites.statistics import StreamStatistics


@register
@dataclass
class CentralState:
    """What the central node knows beyond its own stream."""

    streams: Mapping[str, StreamStatistics]
    """The statistics that the plan is made of."""
    modification: int = 0
    waiting: Mapping[str, StreamStatistics] = field(default_factory=dict)
    """Reports for the next modification."""
    migrating: tuple[str, ...] = ()


@register
@dataclass
class CentralizedState:
    """All that a node must remember."""

    statistics: StreamStatistics | None
    """Of its stream, as reported last; None at N_0, which has no stream."""
    running: OperatorSet
    migration: Migration | None = None
    central: CentralState | None = None
    """Of the central node only."""


class CentralizedNode:
    """A node that reports what changes and does as it is told; the central one of them (N_q) makes the plan of all.

    All that is remembered is in `state`, which `export` writes.
    """

    def __init__(self, name: str, model: CostModel, threshold: float, state: CentralizedState) -> None:
        self.name, self._model, self._threshold, self.state = name, model, threshold, state

    @property
    def running(self) -> OperatorSet:
        """Return the operator set in use."""
        return self.state.running

    @property
    def migration(self) -> Migration | None:
        """Return what is to be done until `migrated` is called."""
        return self.state.migration

    @property
    def plan(self) -> SitesPlan:
        """Return the plan of all nodes; only the central one knows it."""
        assert self.state.central is not None, "only the central node knows the plan"
        return greedy_plan(self._model, self.state.central.streams)

    def export(self) -> Any:
        """Return the state as JSON holds it."""
        return write(self.state)

    def observe(self, statistics: StreamStatistics) -> list[Message]:
        """Take what the statistics of the node's stream are now, and report them if that matters."""
        known = self.state.statistics
        assert known is not None, "N_0 has no stream"
        if cost_change(known, statistics) <= self._threshold:
            return []
        self.state.statistics = statistics
        return self._say([Message(self.name, self._model.network.central, Report(statistics))])

    def handle(self, message: Message) -> list[Message]:
        """Take a message; return what there is to say."""
        return self._say(self._handled(message))

    def migrated(self) -> list[Message]:
        """Go on with the new operator set alone, once the windows of all affected nodes are full."""
        done = self.state.migration
        assert done is not None, "nothing was to be done"
        self.state.migration, self.state.running = None, done.after
        return self._say([Message(self.name, done.coordinator, Done(done.modification))])

    def _say(self, said: list[Message]) -> list[Message]:
        return deliver_own(self.name, said, self._handled)

    def _handled(self, message: Message) -> list[Message]:
        state, central = self.state, self.state.central
        match message.body:
            case NewOperators(number, operators, affected):
                state.migration = Migration(number, message.sender, state.running, operators, affected)
            case Report(statistics) if central is not None:
                central.waiting = {**central.waiting, message.sender: statistics}
            case Done(number) if central is not None and number == central.modification:
                central.migrating = tuple(node for node in central.migrating if node != message.sender)
        return self._modified(central) if central is not None and central.waiting and not central.migrating else []

    def _modified(self, central: CentralState) -> list[Message]:
        """Make the plan anew, and send operator sets to those who have another one (Algorithm 2)."""
        before = operator_sets(self.plan)
        central.streams, central.waiting = {**central.streams, **central.waiting}, {}
        after = operator_sets(self.plan)
        affected = tuple(node for node, operators in after.items() if operators != before[node])
        central.modification += 1
        central.migrating = affected
        number = central.modification
        return [Message(self.name, node, NewOperators(number, after[node], affected)) for node in affected]


def centralized_nodes(
    model: CostModel, streams: Mapping[str, StreamStatistics], threshold: float
) -> dict[str, CentralizedNode]:
    """Return the nodes of all streams with the first plan; N_0 is one of them where it is the central node."""
    central, sets = model.network.central, operator_sets(greedy_plan(model, streams))
    nodes = {}
    for name in dict.fromkeys((*model.graph.aliases, central)):
        state = CentralizedState(streams.get(name), sets.get(name, OperatorSet(name, {})))
        if name == central:
            state.central = CentralState(dict(streams))
        nodes[name] = CentralizedNode(name, model, threshold, state)
    return nodes


def restored_centralized(name: str, model: CostModel, threshold: float, written: Any) -> CentralizedNode:
    """Return a node with a state that `export` has written."""
    return CentralizedNode(name, model, threshold, read(written))
