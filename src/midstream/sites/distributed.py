"""Plan modification by the nodes themselves (Algorithm 3): each sequence is put in order by visits along it.

    stage 1   earlier ▶ earlier ▶ ... chosen          a stream that costs less looks for its place from the front on,
              compare ▶ compare ▶ ... chosen          one that costs more has its place taken by the cheapest after it
              exchange ▶ neighbour ▶ exchanged        the two swap places; their neighbours change their operators
              decided ▶ (who is told) ▶ next place    where the join takes place now
    stage 2   compare, ... the same for every later place, as what flows there has changed

Who modifies the plan has the turn (`turn.py`), so that a second change waits: statistics that a node has not had its
turn for are not used by it either. All sequences are put in order at a time, each by one message that goes round, so
that nothing can overtake anything. What the paper leaves open, or has otherwise, is in docs/decisions/0037.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from midstream.sites.cost import CostModel, cost_change, may_cost_less
from midstream.sites.greedy import greedy_plan
from midstream.sites.messages import (
    Chosen,
    Compare,
    Decided,
    Earlier,
    Exchange,
    Exchanged,
    Finished,
    Message,
    Neighbour,
    Step,
    Visit,
    deliver_own,
    read,
    register,
    write,
)
from midstream.sites.metadata import Metadata, first_metadata
from midstream.sites.migration import Migration
from midstream.sites.operator_set import OperatorSet, operator_sets
from midstream.sites.statistics import StreamStatistics, head_flow
from midstream.sites.turn import Turn, TurnState


@register
@dataclass
class DistributedState:
    """All that a node must remember."""

    statistics: StreamStatistics
    """Of its stream, as it had its turn for last: what plans are made of."""
    known: Mapping[str, Metadata]
    """What it knows of each sequence, by head."""
    running: OperatorSet
    turn: TurnState
    migration: Migration | None = None


class DistributedNode:
    """The node of a stream, which knows its own share of each sequence, and changes that with its neighbours."""

    def __init__(self, name: str, model: CostModel, threshold: float, state: DistributedState) -> None:
        self.name, self._model, self._threshold, self.state = name, model, threshold, state
        self._turn = Turn(self, model.graph.aliases, state.turn)

    @property
    def running(self) -> OperatorSet:
        """Return the operator set in use."""
        return self.state.running

    @property
    def migration(self) -> Migration | None:
        """Return what is to be done until `migrated` is called."""
        return self.state.migration

    @property
    def operators(self) -> OperatorSet:
        """Return the operator set of the plan as far as the node knows it."""
        count = len(self._model.graph.aliases)
        known = self.state.known.items()
        return OperatorSet(self.name, {head: m.operators(self.name, head, count) for head, m in known})

    def export(self) -> Any:
        """Return the state as JSON holds it."""
        return write(self.state)

    def observe(self, statistics: StreamStatistics) -> list[Message]:
        """Take what the statistics of the node's stream are now, and ask for a turn if that matters."""
        latest = self.state.turn.wanted or self.state.statistics
        if cost_change(latest, statistics) <= self._threshold:
            return []
        return self._say(self._turn.ask(statistics))

    def handle(self, message: Message) -> list[Message]:
        """Take a message; return what there is to say."""
        return self._say(self._handled(message))

    def migrated(self) -> list[Message]:
        """Go on with the new operator set alone, once the windows of all affected nodes are full."""
        done = self.state.migration
        assert done is not None, "nothing was to be done"
        self.state.migration, self.state.running = None, done.after
        return self._say(self._turn.migrated(done))

    def _say(self, said: list[Message]) -> list[Message]:
        return deliver_own(self.name, said, self._handled)

    def _handled(self, message: Message) -> list[Message]:
        if not isinstance(message.body, Visit):
            return self._turn.handle(message)
        visit = message.body
        own = self.state.known[visit.head]
        if (visit.modification, visit.hop) <= own.seen:
            return []
        own.seen = (visit.modification, visit.hop)
        return Stop(self, self._model, own, visit).take(message.sender)

    # What the turn asks of a node.

    def begin(self, modification: int, statistics: StreamStatistics) -> list[Message]:
        """Use new statistics, and put every sequence in order."""
        before, self.state.statistics = self.state.statistics, statistics
        said: list[Message] = []
        for head, own in self.state.known.items():
            visit = Visit(modification, self.name, head, 1, (), Exchanged(None))
            own.seen = (modification, 0)
            said += Stop(self, self._model, own, visit).begin(may_cost_less(before, statistics))
        return said

    def settle(self, modification: int, coordinator: str, affected: tuple[str, ...]) -> None:
        """Note what is to be done: the new plan is complete."""
        self.state.migration = Migration(modification, coordinator, self.running, self.operators, affected)


class Stop:
    """One visit at a node: what it changes in what the node knows of the sequence, and where it goes next."""

    def __init__(self, node: DistributedNode, model: CostModel, own: Metadata, visit: Visit) -> None:
        self._node, self._model, self._own, self._visit = node, model, own, visit
        self._name, self._stream = node.name, node.state.statistics

    def begin(self, less: bool) -> list[Message]:
        """Begin at the node whose statistics have changed; `less`: a join with its stream may cost less than it did."""
        own = self._own
        if own.flow is None:
            before, own.gives = own.gives, head_flow(self._name, self._stream)
            end = None if own.gives == before else own.succeeding
            return self._on(Decided(self._name, own.placement, own.gives, self._name, (), end))
        if less and own.position > 1:
            return self._go(own.flow.streams[1], Earlier(self._name, self._stream))
        return self._stay()

    def _stay(self) -> list[Message]:
        """Go on where the stream is: only one that costs more than it did may have to give way to a later one."""
        assert self._own.flow is not None
        dearer = self._model.placed(self._own.flow, self._name, self._stream).cost > self._own.cost
        return self._choose() if dearer else self._decide(False)

    def take(self, sender: str) -> list[Message]:
        """Do what the visit is for."""
        match self._visit.step:
            case Earlier() as earlier:
                return self._earlier(earlier)
            case Compare() as compare:
                return self._compare(compare)
            case Chosen() as chosen:
                return self._chosen(chosen)
            case Exchange() as exchange:
                return self._exchange(exchange, sender)
            case Neighbour() as neighbour:
                return self._neighbour(neighbour)
            case Exchanged(succeeding):
                self._own.succeeding = succeeding
                return self._decide(True)
            case Decided() as decided:
                return self._decided(decided)

    # Stage 1, step 1: which stream belongs here.

    def _earlier(self, asked: Earlier) -> list[Message]:
        own = self._own
        if asked.stream == self._name:
            return self._stay()
        assert own.flow is not None
        assert own.succeeding is not None
        mine = self._model.rank(own.flow, self._name, self._stream)
        if self._model.rank(own.flow, asked.stream, asked.statistics) < mine:
            return self._go(asked.stream, Chosen(own.flow, self._name))
        return self._go(own.succeeding, asked)

    def _choose(self) -> list[Message]:
        """Look for the stream that belongs where this one is, among it and those after it."""
        own = self._own
        assert own.flow is not None
        rank = self._model.rank(own.flow, self._name, self._stream)
        return self._compared(Compare(own.flow, self._name, self._name, rank))

    def _compare(self, so_far: Compare) -> list[Message]:
        rank = self._model.rank(so_far.flow, self._name, self._stream)
        if rank < so_far.rank:
            so_far = Compare(so_far.flow, so_far.incumbent, self._name, rank)
        return self._compared(so_far)

    def _compared(self, so_far: Compare) -> list[Message]:
        if self._own.succeeding is not None:
            return self._go(self._own.succeeding, so_far)
        return self._go(so_far.best, Chosen(so_far.flow, so_far.incumbent))

    # Stage 1, step 2: the swap.

    def _chosen(self, chosen: Chosen) -> list[Message]:
        own = self._own
        if chosen.incumbent == self._name:
            return self._decide(False)
        exchange = Exchange(self._name, str(own.preceding), own.succeeding)
        own.flow, own.preceding, own.told, own.gives = chosen.flow, chosen.flow.streams[-1], None, None
        return self._go(chosen.incumbent, exchange)

    def _exchange(self, asked: Exchange, sender: str) -> list[Message]:
        """Take the place of the other, which is further back, and give it this one."""
        own = self._own
        adjacent = own.succeeding == asked.stream
        given = Exchanged(self._name if adjacent else own.succeeding)
        own.preceding = asked.stream if adjacent else asked.preceding
        own.succeeding, own.told, own.gives = asked.succeeding, None, None
        beside = (None if adjacent else own.preceding, own.succeeding)
        return self._introduce(Neighbour(self._name, beside[0], beside[1], sender, given))

    def _introduce(self, neighbour: Neighbour) -> list[Message]:
        """Go to the neighbours of the place that was taken, then back to who has taken the other."""
        to = neighbour.preceding or neighbour.succeeding
        return self._go(neighbour.other, neighbour.given) if to is None else self._go(to, neighbour)

    def _neighbour(self, neighbour: Neighbour) -> list[Message]:
        """Replace the stream that was beside this one."""
        if neighbour.preceding == self._name:
            self._own.succeeding = neighbour.stream
            return self._introduce(replace(neighbour, preceding=None))
        self._own.preceding = neighbour.stream
        return self._introduce(replace(neighbour, succeeding=None))

    # Stage 1, step 3: the placement; and the next place (stage 2).

    def _decide(self, swapped: bool) -> list[Message]:
        own, visit = self._own, self._visit
        flow = own.flow
        assert flow is not None
        own.cost, own.placement = self._model.placed(flow, self._name, self._stream)
        gives = self._model.next_flow(flow, self._name, self._stream, own.placement)
        unchanged = gives == own.gives and visit.trigger in gives.streams
        own.gives = gives
        told = (own.position, own.placement, flow.node)
        stops = [flow.streams[-1]] if swapped else []
        if told != own.told and flow.node not in stops:
            stops.append(flow.node)
        own.told = told
        end = None if unchanged else own.succeeding
        decided = Decided(self._name, own.placement, gives, flow.node, tuple(stops), end)
        return self._on(decided)

    def _on(self, decided: Decided) -> list[Message]:
        """Go to the next who is told, then to the next place; after the last one the sequence is in order."""
        stops, succeeding = decided.stops, decided.succeeding
        if stops or succeeding is not None:
            return self._go(stops[0] if stops else str(succeeding), decided)
        visit = self._visit
        end = Finished(visit.modification, visit.head, self._affected())
        return [Message(self._name, visit.trigger, end)]

    def _decided(self, decided: Decided) -> list[Message]:
        own, position = self._own, len(decided.flow.streams) - 1
        if not decided.stops:
            own.flow, own.preceding = decided.flow, decided.flow.streams[-1]
            return self._choose()
        if own.position == position - 1:
            own.succeeding = decided.stream
        if decided.source == self._name:
            own.following = {**own.following, position: (decided.stream, decided.placement)}
        return self._on(replace(decided, stops=decided.stops[1:]))

    def _go(self, to: str, step: Step) -> list[Message]:
        visit = self._visit
        next_visit = Visit(visit.modification, visit.trigger, visit.head, visit.hop + 1, self._affected(), step)
        return [Message(self._name, to, next_visit)]

    def _affected(self) -> tuple[str, ...]:
        """Return whose operators are other ones than before, this node's with what it knows now."""
        others = tuple(node for node in self._visit.affected if node != self._name)
        return (*others, self._name) if self._changed() else others

    def _changed(self) -> bool:
        head, before = self._visit.head, self._node.running.by_head
        return self._own.operators(self._name, head, len(self._model.graph.aliases)) != before[head]


def distributed_nodes(
    model: CostModel, streams: Mapping[str, StreamStatistics], threshold: float
) -> dict[str, DistributedNode]:
    """Return the nodes of all streams with the first plan."""
    plan = greedy_plan(model, streams)
    sets, known = operator_sets(plan), first_metadata(model, plan, streams)
    return {
        name: DistributedNode(
            name, model, threshold, DistributedState(streams[name], known[name], sets[name], TurnState())
        )
        for name in plan.aliases
    }


def restored_distributed(name: str, model: CostModel, threshold: float, written: Any) -> DistributedNode:
    """Return a node with a state that `export` has written."""
    return DistributedNode(name, model, threshold, read(written))
