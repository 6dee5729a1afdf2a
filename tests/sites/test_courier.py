"""Couriers bring every packet once and in order, whatever the network does to frames."""

import json
import random

import pytest

from midstream.sites.courier import Courier, Frame
from midstream.sites.packet import ROWS, Packet
from seeds import seeds


def exchange(rnd: random.Random, restarts: bool) -> tuple[list[int], list[int]]:
    """Send packets over a network that loses, repeats and reorders; return what was sent and what came."""
    here, there = Courier("a", 100), Courier("b", 100)
    sent, came, flying, now = list[int](), list[int](), list[Frame](), 0
    while len(came) < 40 and now < 1_000_000:
        now += 10
        if len(sent) < 40 and rnd.random() < 0.5:
            here.post("b", Packet(ROWS, "x", "y", {"n": len(sent)}))
            sent.append(len(sent))
        flying += [*here.commit(now), *there.commit(now), *here.on_time(now), *there.on_time(now)]
        if restarts and rnd.random() < 0.1:
            kept = here.export()
            here = Courier("a", 100)
            here.load(json.loads(json.dumps(kept[0])), kept[1], now)
        rnd.shuffle(flying)
        for _ in range(min(len(flying), rnd.randrange(3))):
            frame = flying.pop()
            if rnd.random() < 0.2:
                flying.append(frame)
            if rnd.random() < 0.8:
                to = there if frame.target == "b" else here
                came += [packet.plain["n"] for packet in to.on_frame(frame, now)]
    return sent, came


@pytest.mark.parametrize("seed", seeds(0, 40, quick=5))
def test_packets_come_once_and_in_order(seed: int) -> None:
    rnd = random.Random(seed)
    sent, came = exchange(rnd, restarts=seed % 2 == 1)
    assert came == sent == list(range(40))
