"""Messages between nodes in memory: each channel in order, which channel is next is drawn; counted by name."""

import json
import random
from collections import Counter, deque
from collections.abc import Mapping
from typing import Protocol

from midstream.sites.messages import Message, read_message
from midstream.sites.migration import Migration
from midstream.sites.operator_set import OperatorSet
from midstream.sites.statistics import StreamStatistics


class Node(Protocol):
    @property
    def running(self) -> OperatorSet: ...
    @property
    def migration(self) -> Migration | None: ...
    def observe(self, statistics: StreamStatistics) -> list[Message]: ...
    def handle(self, message: Message) -> list[Message]: ...
    def migrated(self) -> list[Message]: ...


class Network:
    """Nodes and the messages on their way; migrations take as long as it is drawn."""

    def __init__(self, nodes: Mapping[str, Node], rng: random.Random, repeated: float = 0.0) -> None:
        self.nodes, self._rng, self._repeated = nodes, rng, repeated
        self._channels: dict[tuple[str, str], deque[Message]] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        self.migrations: list[Migration] = []

    def send(self, said: list[Message]) -> None:
        for message in said:
            assert message.to != message.sender
            self.counts[message.kind, message.name] += 1
            channel = self._channels.setdefault((message.sender, message.to), deque())
            if self._rng.random() < 0.1:
                again = read_message(message.sender, message.to, json.loads(json.dumps(message.to_json())))
                assert again == message
                message = again
            channel.append(message)
            if self._rng.random() < self._repeated:
                channel.append(message)

    def step(self) -> bool:
        """Deliver a message, or let a node migrate; return whether there was anything to do."""
        ready = [c for c in sorted(self._channels) if self._channels[c]]
        migrating = [name for name, node in self.nodes.items() if node.migration is not None]
        if not ready and not migrating:
            return False
        chosen = self._rng.randrange(len(ready) + len(migrating))
        if chosen < len(ready):
            message = self._channels[ready[chosen]].popleft()
            self.send(self.nodes[message.to].handle(message))
        else:
            node = self.nodes[migrating[chosen - len(ready)]]
            assert node.migration is not None
            self.migrations.append(node.migration)
            self.send(node.migrated())
        return True

    def run(self) -> None:
        while self.step():
            pass

    def of_kind(self, kind: str) -> int:
        return sum(n for (k, _), n in self.counts.items() if k == kind)
