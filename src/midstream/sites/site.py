"""A site: the nodes of the streams that arrive there. What they say to each other stays there.

rows, messages from other sites ──▶ nodes ⇄ nodes ──▶ messages for other sites
"""

from collections import deque
from collections.abc import Iterable

from midstream.sites.node import Node
from midstream.sites.packet import Packet
from midstream.sites.partials import Part
from midstream.sites.results import QueryNode


class Site:
    """The nodes of one site."""

    def __init__(self, name: str, nodes: Iterable[Node | QueryNode]) -> None:
        self.name = name
        self.nodes = {node.name: node for node in nodes}

    def on_rows(self, alias: str, rows: Part, upto_us: int) -> list[Packet]:
        """Take the next rows of a stream, all that are before a time; return messages for other sites."""
        node = self.nodes[alias]
        assert isinstance(node, Node), "no rows arrive at the query node"
        return self.deliver(node.on_rows(rows, upto_us))

    def on_message(self, message: Packet) -> list[Packet]:
        """Take a message from another site; return messages for other sites."""
        return self.deliver([message])

    def deliver(self, messages: Iterable[Packet]) -> list[Packet]:
        """Let the nodes have those of some messages that are for them, and all that follow; return the others."""
        waiting, out = deque(messages), list[Packet]()
        while waiting:
            message = waiting.popleft()
            node = self.nodes.get(message.to)
            if node is None:
                out.append(message)
            else:
                waiting.extend(node.on_message(message))
        return out
