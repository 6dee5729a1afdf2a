"""Turns: one modification after the other, where nodes modify the plan themselves.

    node ── ask ──▶ giver ── grant ──▶ node ... sequences finished ... settled ──▶ affected nodes
                      ▲                  │ ◀──────────── done (migrated) ─────────────┘
                      └──── release ─────┘

The first node in declaration order gives turns, in the order they are asked for. What changes while a node waits for
its turn is taken together. A turn lasts until all affected nodes have migrated: modifications never meet a migration.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from midstream.sites.messages import Ask, Body, Done, Finished, Grant, Message, Release, Settled, register
from midstream.sites.migration import Migration
from midstream.sites.statistics import StreamStatistics


@register
@dataclass
class TurnState:
    """What a node must remember of turns."""

    wanted: StreamStatistics | None = None
    """Statistics that wait for the node's turn."""
    asking: bool = False
    asks: int = 0
    """How often the node has asked."""
    granted: int = 0
    """The last modification that was the node's."""
    settled: int = 0
    """The last modification that the node was affected by."""
    unfinished: tuple[str, ...] = ()
    """Sequences that are not in order yet, in its own turn."""
    affected: tuple[str, ...] = ()
    migrating: tuple[str, ...] = ()
    own: bool = False
    """Whether it is the node's turn."""
    waiting: tuple[str, ...] = ()
    """Of the giver: who has asked."""
    asked: Mapping[str, int] = field(default_factory=dict)
    """Of the giver: how often each node has asked."""
    holder: str | None = None
    """Of the giver: whose turn it is."""
    number: int = 0
    """Of the giver: the last modification."""


class Modifying(Protocol):
    """A node that can modify the plan."""

    name: str

    def begin(self, modification: int, statistics: StreamStatistics) -> list[Message]:
        """Use new statistics, and put every sequence in order."""
        ...

    def settle(self, modification: int, coordinator: str, affected: tuple[str, ...]) -> None:
        """Note what is to be done: the new plan is complete."""
        ...


class Turn:
    """What a node does for its turn, and the giver for those of others."""

    def __init__(self, node: Modifying, nodes: tuple[str, ...], state: TurnState) -> None:
        self._node, self._nodes, self._state = node, nodes, state
        self._giver = nodes[0]

    def ask(self, statistics: StreamStatistics) -> list[Message]:
        """Ask for a turn with new statistics, unless it was asked for, or the node's own lasts still."""
        state = self._state
        state.wanted = statistics
        if state.asking or state.own:
            return []
        state.asking = True
        state.asks += 1
        return [self._to(self._giver, Ask(state.asks))]

    def migrated(self, done: Migration) -> list[Message]:
        """Report that the node has migrated."""
        return [self._to(done.coordinator, Done(done.modification))]

    def handle(self, message: Message) -> list[Message]:
        """Take a message about turns; one that is delivered again changes nothing."""
        state = self._state
        match message.body:
            case Ask(number) if number > state.asked.get(message.sender, 0):
                state.asked = {**state.asked, message.sender: number}
                state.waiting = (*state.waiting, message.sender)
                return self._give()
            case Grant(number) if number > state.granted:
                return self._granted(number)
            case Finished(number, head, affected) if number == state.granted and head in state.unfinished:
                return self._finished(head, affected)
            case Settled(number, affected) if number > state.settled:
                state.settled = number
                self._node.settle(number, message.sender, affected)
            case Done(number) if number == state.granted and message.sender in state.migrating:
                state.migrating = tuple(node for node in state.migrating if node != message.sender)
                return [] if state.migrating else self._release()
            case Release(number) if number == state.number and message.sender == state.holder:
                state.holder = None
                return self._give()
        return []

    def _give(self) -> list[Message]:
        """Give the next turn, if it is nobody's."""
        state = self._state
        if state.holder is not None or not state.waiting:
            return []
        state.holder, *waiting = state.waiting
        state.waiting = tuple(waiting)
        state.number += 1
        return [self._to(state.holder, Grant(state.number))]

    def _granted(self, number: int) -> list[Message]:
        state = self._state
        state.granted, state.asking, state.own = number, False, True
        state.unfinished, state.affected = self._nodes, ()
        statistics, state.wanted = state.wanted, None
        assert statistics is not None, "who asks has statistics"
        return self._node.begin(number, statistics)

    def _finished(self, head: str, affected: tuple[str, ...]) -> list[Message]:
        state = self._state
        state.unfinished = tuple(h for h in state.unfinished if h != head)
        state.affected = tuple(node for node in self._nodes if node in (*state.affected, *affected))
        if state.unfinished:
            return []
        if not state.affected:
            return self._release()
        state.migrating = state.affected
        return [self._to(node, Settled(state.granted, state.affected)) for node in state.affected]

    def _release(self) -> list[Message]:
        state = self._state
        state.own = False
        said = [self._to(self._giver, Release(state.granted))]
        return said + (self.ask(state.wanted) if state.wanted is not None else [])

    def _to(self, to: str, body: Body) -> Message:
        return Message(self._node.name, to, body)
