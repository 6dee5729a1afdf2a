"""Migrations of nodes: how many messages they take, where they take effect, what is copied."""

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.model.time import NEVER
from midstream.sites.node import Node
from midstream.sites.operator_set import operator_sets
from midstream.sites.packet import GLOBAL_READY, LOCAL_READY, WINDOW_COPY, WINDOW_REQUEST, Packet
from midstream.sites.partials import Part
from midstream.sites.plan import QUERY_NODE, ProbeSequence, SitesPlan
from midstream.sites.query import JoinedQuery
from midstream.sites.results import QueryNode


class Nodes:
    """Nodes that hear each other at once."""

    def __init__(self, count: int, placement: int) -> None:
        engine = ms.Engine()
        names = [f"s{k}" for k in range(count)]
        empty = pa.table({"ts": pa.array([], pa.int64()), "k": pa.array([], pa.int64())})
        for name in names:
            engine.stream(name, empty, time="ts")
        same = " AND ".join(f"s0.k = {n}.k" for n in names[1:])
        sources = ", ".join(f"{n} [RANGE 1 SECOND] {n}" for n in names)
        self.query = JoinedQuery(engine.query(f"SELECT s0.k FROM {sources} WHERE {same}").plan)
        self.sets = operator_sets(self.plan(placement))
        self.nodes = {n: Node(self.query, n, self.sets[n]) for n in names}
        self.results = QueryNode(self.query)
        self.said: list[Packet] = []

    def plan(self, placement: int) -> SitesPlan:
        names = self.query.aliases
        others = {n: tuple(m for m in names if m != n) for n in names}
        return SitesPlan(tuple(ProbeSequence(n, others[n], (placement,) * len(others[n])) for n in names))

    def deliver(self, packets: list[Packet]) -> None:
        while packets:
            packet, *packets = packets
            self.said.append(packet)
            node = self.results if packet.to == QUERY_NODE else self.nodes[packet.to]
            packets = [*packets, *node.on_message(packet)]

    def rows(self, name: str, times: list[int], upto_us: int) -> None:
        part = Part(np.array(times, np.int64), np.array(times, np.int64), {"k": pa.array([1] * len(times), pa.int64())})
        self.deliver(self.nodes[name].on_rows(part, upto_us))

    def migrate(self, number: int, placement: int) -> None:
        new = operator_sets(self.plan(placement))
        affected = list(new)
        self.said.clear()
        for name, node in self.nodes.items():
            self.deliver(node.modify(number, new[name], affected, NEVER))

    def count(self, *kinds: str) -> int:
        return sum(packet.kind in kinds for packet in self.said)


@pytest.mark.parametrize(("count", "messages"), [(3, 12), (4, 24), (8, 112)])
def test_all_nodes_synchronize_in_two_phases(count: int, messages: int) -> None:
    nodes = Nodes(count, 1)
    nodes.migrate(1, 0)
    assert nodes.count(LOCAL_READY, GLOBAL_READY) == messages == 2 * count * (count - 1)
    assert nodes.count(WINDOW_REQUEST) == nodes.count(WINDOW_COPY) == count * (count - 1), "windows of all others"
    assert {tuple(n.finished) for n in nodes.nodes.values()} == {((1, NEVER),)}


def test_nodes_agree_on_the_latest_position() -> None:
    nodes = Nodes(3, 1)
    for name, upto_us in (("s0", 500_000), ("s1", 900_000), ("s2", 100_000)):
        nodes.rows(name, [upto_us - 1], upto_us)
    nodes.migrate(1, 0)
    assert {tuple(n.finished) for n in nodes.nodes.values()} == {((1, 900_000),)}


def test_only_what_is_missing_is_copied() -> None:
    nodes = Nodes(2, 0)
    nodes.rows("s0", [100, 200, 300], 400)
    nodes.rows("s1", [], 400)
    nodes.migrate(1, 1)
    nodes.rows("s0", [500], 600)
    nodes.rows("s1", [], 600)
    nodes.migrate(2, 0)
    copied = {p.sender: p.table.num_rows for p in nodes.said if p.kind == WINDOW_COPY and p.table is not None}
    assert copied["s0"] == 1, "node s1 has the first three rows from before"
