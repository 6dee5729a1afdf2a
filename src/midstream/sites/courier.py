"""The courier of a site: each packet to another site comes once and in order, over a network that keeps no promise.

    packets ──▶ numbered, kept until acknowledged ──▶ frames ─ ─ lost, repeated, late, reordered ─ ─▶ frames
                      ▲   └── again when no answer comes                                               │
                      └───────────────── acknowledgements ◀── packets in order, each once ◀─────────────┘

A site that dies forgets what it did since its state was kept last. So what it says leaves, and what it got is
acknowledged, only when the state after it is kept: `commit` releases both. What comes again after that is the same, or
was never said.

What is said about plans and migrations goes in a lane of its own, which rows do not hold up: a plan that ships too much
must be left before what it has shipped has arrived. Copies of windows go with the rows, which they are in order with.

State: for each other site and lane the frames that are not acknowledged, the number of the next one, and those that
came early.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from midstream.sites.packet import PARTIALS, ROWS, WINDOW_COPY, Packet

DATA, ACK = "data", "ack"
BULK = frozenset((ROWS, PARTIALS, WINDOW_COPY))
"""The kinds of packets with rows."""
FRAME_BYTES = 16
"""What a frame takes beside its packet: sites and number."""
AT_ONCE = 8
"""Frames that go again together."""
MOST_TRIES = 6
"""So often waiting is doubled."""


@dataclass(frozen=True)
class Frame:
    """What goes over the network: a packet with its number, or how many packets have come."""

    kind: str
    source: str
    target: str
    is_bulk: bool
    """The lane it goes in."""
    number: int
    packet: Packet | None = None

    @property
    def nbytes(self) -> int:
        """Return how many bytes it takes."""
        return FRAME_BYTES + (0 if self.packet is None else self.packet.nbytes)


@dataclass
class Peer:
    """What one site keeps of its traffic with another."""

    next_number: int = 0
    """Of the next packet that goes there."""
    unanswered: deque[tuple[int, Packet]] = field(default_factory=deque)
    """Sent and not acknowledged, in order."""
    expected: int = 0
    """The number of the next packet from there."""
    early: dict[int, Packet] = field(default_factory=dict)
    owes_answer: bool = False
    """Something has come since the last acknowledgement."""
    again_us: int | None = None
    """When the first unanswered frame goes again."""
    tries: int = 0
    """How often it has gone again without an answer: each time it waits twice as long."""
    released: int = 0
    """Packets before this number may leave: the state that said them is kept."""


class Courier:
    """The traffic of one site with all others."""

    def __init__(self, site: str, patience_us: int) -> None:
        self.site = site
        self.patience_us = patience_us
        """How long an answer is waited for."""
        self.peers: dict[tuple[str, bool], Peer] = {}
        """By other site and lane."""

    def _peer(self, name: str, is_bulk: bool) -> Peer:
        return self.peers.setdefault((name, is_bulk), Peer())

    def post(self, target: str, packet: Packet) -> None:
        """Take a packet for another site; it leaves with the next commit."""
        peer = self._peer(target, packet.kind in BULK)
        peer.unanswered.append((peer.next_number, packet))
        peer.next_number += 1

    def commit(self, now_us: int) -> list[Frame]:
        """Return what may leave now that the state of the site is kept: new packets, and acknowledgements."""
        out: list[Frame] = []
        for (name, is_bulk), peer in self.peers.items():
            fresh = [(n, p) for n, p in peer.unanswered if n >= peer.released]
            out += [Frame(DATA, self.site, name, is_bulk, n, p) for n, p in fresh]
            peer.released = peer.next_number
            if fresh and peer.again_us is None:
                peer.again_us = now_us + self.patience_us
            if peer.owes_answer:
                peer.owes_answer = False
                out.append(Frame(ACK, self.site, name, is_bulk, peer.expected))
        return out

    def on_frame(self, frame: Frame, now_us: int) -> list[Packet]:
        """Take a frame from another site; return the packets whose turn has come."""
        peer = self._peer(frame.source, frame.is_bulk)
        if frame.packet is None:
            while peer.unanswered and peer.unanswered[0][0] < frame.number:
                peer.unanswered.popleft()
                peer.again_us, peer.tries = now_us + self.patience_us, 0
            if not peer.unanswered:
                peer.again_us = None
            return []
        peer.owes_answer = True  # also of one that comes again: the answer may have been lost
        if frame.number >= peer.expected:
            peer.early[frame.number] = frame.packet
        found = []
        while peer.expected in peer.early:
            found.append(peer.early.pop(peer.expected))
            peer.expected += 1
        return found

    def on_time(self, now_us: int) -> list[Frame]:
        """Return the frames that go again, since no answer has come."""
        out = []
        for (name, is_bulk), peer in self.peers.items():
            if peer.again_us is not None and peer.again_us <= now_us:
                sent = [(n, p) for n, p in peer.unanswered if n < peer.released][:AT_ONCE]
                out += [Frame(DATA, self.site, name, is_bulk, n, p) for n, p in sent]
                peer.tries = min(peer.tries + 1, MOST_TRIES)
                peer.again_us = now_us + (self.patience_us << peer.tries)
        return out

    def left(self, frame: Frame, at_us: int) -> None:
        """Note when a frame has really left: an answer is waited for from then on."""
        peer = self._peer(frame.target, frame.is_bulk)
        if peer.again_us is not None:
            peer.again_us = max(peer.again_us, at_us + (self.patience_us << peer.tries))

    @property
    def next_us(self) -> int | None:
        """Return when something goes again, or None."""
        return min((p.again_us for p in self.peers.values() if p.again_us is not None), default=None)

    def export(self) -> tuple[list[Any], list[bytes]]:
        """Return the traffic as plain values, and packets as bytes. Packets that came early are asked for again."""
        plain, packets = [], []
        for (name, is_bulk), peer in self.peers.items():
            plain.append([name, is_bulk, peer.next_number, [n for n, _ in peer.unanswered], peer.expected])
            packets += [packet.encode() for _, packet in peer.unanswered]
        return plain, packets

    def load(self, plain: list[Any], packets: list[bytes], now_us: int) -> None:
        """Go on as `export` has said: what was not acknowledged goes again, and all that came is acknowledged."""
        left = iter(packets)
        for name, is_bulk, next_number, numbers, expected in plain:
            peer = Peer(next_number, expected=expected, owes_answer=True, released=next_number)
            peer.unanswered = deque((n, Packet.decode(next(left))) for n in numbers)
            peer.again_us = now_us if numbers else None
            self.peers[name, is_bulk] = peer
