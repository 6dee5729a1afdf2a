"""Nodes without a network: whatever is said arrives in an order that is drawn, in order between any two nodes.

rows of streams, drawn plans ──▶ nodes ⇄ channels, any of which may go on next ──▶ results
"""

import json
import random
from collections import deque

import numpy as np
import pyarrow as pa

from midstream.plan.plan import Plan
from midstream.sites.courier import BULK
from midstream.sites.node import Node
from midstream.sites.node_state import export_node, restore_node
from midstream.sites.operator_set import operator_sets
from midstream.sites.packet import Packet, decode_table, encode_table
from midstream.sites.partials import Part
from midstream.sites.plan import QUERY_NODE, ProbeSequence, SitesPlan
from midstream.sites.query import JoinedQuery
from midstream.sites.results import QueryNode
from oracle.generate import Case

END_US = 2**60


def draw_sites_plan(rnd: random.Random, aliases: tuple[str, ...]) -> SitesPlan:
    """Draw any probe sequences, joins placed anywhere."""
    sequences = []
    for head in aliases:
        order = [a for a in aliases if a != head]
        rnd.shuffle(order)
        sequences.append(ProbeSequence(head, tuple(order), tuple(rnd.randint(0, 1) for _ in order)))
    return SitesPlan(tuple(sequences))


def part_of(case: Case, plan: Plan, alias: str) -> Part:
    """Return the rows of an alias in order of time and offset."""
    table = case.streams[dict(case.sources)[alias]]
    times = table.column("ts").cast(pa.int64()).to_numpy()
    source = plan.query.source(alias)
    columns = {}
    for name in plan.query.columns_of(alias):
        array = table.column(name).combine_chunks()
        columns[name] = array.cast(source.stream.type_of(name))
    part = Part(np.array(times, np.int64), np.arange(len(times), dtype=np.int64), columns)
    return part.take(np.argsort(part.times, kind="stable"))


class Mail:
    """What nodes have said and has not arrived: in order between any two of them, rows apart from other things."""

    def __init__(self) -> None:
        self.channels: dict[tuple[str, str, bool], deque[Packet]] = {}
        self.counts: dict[str, int] = {}

    def send(self, messages: list[Packet]) -> None:
        for message in messages:
            copy = Packet.decode(message.encode())
            self.counts[message.kind] = self.counts.get(message.kind, 0) + 1
            self.channels.setdefault((message.sender, message.to, message.kind in BULK), deque()).append(copy)

    def draw(self, rnd: random.Random) -> Packet | None:
        open_ = [channel for channel in self.channels.values() if channel]
        return rnd.choice(open_).popleft() if open_ else None


class DrawnRun:
    """The nodes of a query, driven in an order that is drawn, with modifications to drawn plans."""

    def __init__(self, rnd: random.Random, case: Case, plan: Plan, modifications: int) -> None:
        self.rnd = rnd
        self.query = JoinedQuery(plan)
        self.plan = draw_sites_plan(rnd, self.query.aliases)
        sets = operator_sets(self.plan)
        self.nodes = {a: Node(self.query, a, sets[a]) for a in self.query.aliases}
        self.results = QueryNode(self.query)
        self.found: list[pa.RecordBatch] = []
        self.mail = Mail()
        self.positions: list[set[int]] = []
        self._open: set[str] = set()
        self._left = modifications
        self._number, self._after_us = 0, -(2**63)
        self._rows = {a: deque(self._cut(part_of(case, plan, a))) for a in self.query.aliases}

    def _cut(self, part: Part) -> list[tuple[Part, int]]:
        """Cut the rows of a stream anywhere, stretches without rows included."""
        top = int(part.times[-1]) + 2 if len(part) else 10
        ends = [*sorted({self.rnd.randrange(top) for _ in range(self.rnd.choice([0, 3, 12]))}), END_US]
        places = [0, *np.searchsorted(part.times, ends).tolist()]
        return [(part.between(a, b), end) for a, b, end in zip(places, places[1:], ends, strict=False)]

    def run(self) -> list[pa.RecordBatch]:
        """Go on until nothing is left to be done."""
        rnd = self.rnd
        while True:
            streams = [a for a, left in self._rows.items() if left]
            kind = rnd.random()
            if kind < 0.05 and not self._open and self._left:
                self._modify()
            elif kind < 0.2 and streams:
                alias = rnd.choice(streams)
                self.mail.send(self.nodes[alias].on_rows(*self._rows[alias].popleft()))
                self._note_finished(alias)
            else:
                message = self.mail.draw(rnd)
                if message is not None:
                    self._deliver(message)
                elif not streams and not (self._left and not self._open):
                    return self.found
            if rnd.random() < 0.05:
                self._restart(rnd.choice(list(self.nodes)))

    def _deliver(self, message: Packet) -> None:
        if message.to == QUERY_NODE:
            self.results.on_message(message)
            results = self.results.release()
            if results is not None:
                self.found.append(results.rows)
        else:
            self.mail.send(self.nodes[message.to].on_message(message))
            self._note_finished(message.to)

    def _note_finished(self, alias: str) -> None:
        for _, position_us in self.nodes[alias].finished:
            self._open.discard(alias)
            self.positions[-1].add(position_us)
            self._after_us = max(self._after_us, position_us)
        self.nodes[alias].finished.clear()

    def _modify(self) -> None:
        """Let the nodes migrate to another plan, once the modification before is over."""
        self._left -= 1
        plan = draw_sites_plan(self.rnd, self.query.aliases)
        if self.rnd.random() < 0.5:  # most sequences stay
            kept = {a for a in self.query.aliases if self.rnd.random() < 0.7}
            plan = SitesPlan(tuple((self.plan if s.head in kept else plan).of(s.head) for s in plan.sequences))
        old, new = operator_sets(self.plan), operator_sets(plan)
        affected = [a for a in self.query.aliases if set(old[a].operators) != set(new[a].operators)]
        self._number, self.plan = self._number + 1, plan
        self._open = set(affected)
        self.positions.append(set())
        for alias in self.rnd.sample(affected, len(affected)):
            self.mail.send(self.nodes[alias].modify(self._number, new[alias], affected, self._after_us))
            self._note_finished(alias)

    def _restart(self, alias: str) -> None:
        """Let a node be made again from what it has exported."""
        plain, tables = export_node(self.nodes[alias])
        tables = [decode_table(encode_table(t)) for t in tables]
        self.nodes[alias] = restore_node(self.query, alias, json.loads(json.dumps(plain)), tables, None)
