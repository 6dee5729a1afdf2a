"""A node: the stream that arrives at it, the windows it keeps, and its share of the work.

    rows of its own stream ──▶ window ──▶ ships, heads ──┐
    rows of other streams  ──▶ windows ──▶ heads ────────┼──▶ wait for windows ──▶ probe ──▶ ships
    partial results        ──────────────────────────────┘
    requests, local-ready, global-ready ──▶ migration ──▶ a new epoch

A node is a deterministic state machine: it has no clock, knows no transport, and what it says depends on nothing but
what it was given, in that order. How a host drives it:

- `Site` (site.py) holds the nodes of one site, and what they say to each other stays there. `site.on_rows(alias, rows,
  upto_us)` brings the next rows of a stream, all that are before a time; `site.on_message(message)` brings what a node
  of another site has said. Both return messages for other sites, in the order in which they are to arrive.
- Each message must come once, and those from one site to another in order; those with rows and the others may overtake
  each other (`courier.BULK`). On a network that loses, repeats and reorders them `courier.py` sees to that. On Spark, a
  bucket is a site: once per micro-batch it is given its new rows, then the messages that were addressed to it in the
  micro-batch before, and returns messages for the next one; delivery is exactly-once and in order, so nothing else is
  needed. Any order among senders, any batching of rows and any delay give the same results.
- `begin_site`, `export_site` and `restore_site` (start.py) make a site, return it as plain values (JSON) and tables of
  rows (Arrow), and make it again: from the rows of the windows and what waits, and nothing that is derived from them.
- The node of the query site is a `QueryNode` (results.py): it returns results in max order.

Every stretch of a flow says from which event time to which its heads are, also when there are none: so each node knows
how far a flow has come, and the query site what is complete.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from midstream.model.errors import StateError
from midstream.model.time import FOREVER, NEVER
from midstream.sites.epochs import Epoch, first_epoch
from midstream.sites.operator_set import OperatorSet
from midstream.sites.packet import (
    ABOUT_PLANS,
    GLOBAL_READY,
    LOCAL_READY,
    PARTIALS,
    ROWS,
    WINDOW_COPY,
    WINDOW_REQUEST,
    Packet,
)
from midstream.sites.partials import NO_ROWS, Part, Partials
from midstream.sites.plan import Flow
from midstream.sites.planner import Planner
from midstream.sites.query import JoinedQuery
from midstream.sites.two_phase import TwoPhase
from midstream.sites.window import NodeWindow, heads_of, shipped


@dataclass
class Piece:
    """A stretch of a flow that waits: its heads from one time on and before another."""

    low_us: int
    high_us: int
    partials: Partials


class Node:
    """The node of one stream, at which that stream arrives.

    Invariant: every head is worked on once, by the operator set of its epoch, when all rows it can meet are here.
    """

    def __init__(self, query: JoinedQuery, name: str, operators: OperatorSet, planner: Planner | None = None) -> None:
        self.query = query
        self.planner = planner
        """Says what is to be said about plans; None: the plan stays."""
        self.name = name
        self.epochs = first_epoch(operators)
        self.windows = {alias: NodeWindow(query, alias) for alias in dict.fromkeys((name, *operators.windows))}
        """By stream. That of its own stream is always kept: others get copies from it."""
        self.waiting: dict[Flow, list[Piece]] = {}
        self.arrived: list[tuple[Part, int]] = []
        """Rows of its own stream that wait for a position."""
        self.seen_us = NEVER
        """Every head it has worked on, or that was none of its work, is before this time."""
        self.prepared: dict[int, list[str]] = {}
        """By modification: nodes that have got a copy of the window, and get further rows until their epoch begins."""
        self.migration: TwoPhase | None = None
        self.queued: list[TwoPhase] = []
        """Migrations that begin when the one under way is over."""
        self.finished: list[tuple[int, int]] = []
        """Migrations that are over here, each with its position, for who drives the node to take."""
        self.early: list[Packet] = []
        """What was said of migrations that have not begun here."""
        self.pairs_tested = 0
        self._moved = False
        """Something has come further since it was last looked for what is needed no more."""
        self._out: list[Packet] = []

    # What a host calls.

    def on_rows(self, rows: Part, upto_us: int) -> list[Packet]:
        """Take the next rows of the own stream, in order; all rows before a time have come then."""
        self.arrived.append((rows, upto_us))
        return self._go()

    def on_message(self, message: Packet) -> list[Packet]:
        """Take what another node has said."""
        if message.kind in ABOUT_PLANS:
            assert self.planner is not None, "nobody speaks of plans that stay"
            self._out += self.planner.on_packet(message)
        else:
            _MEANING[message.kind](self, message)
        return self._go()

    def modify(self, number: int, operators: OperatorSet, affected: list[str], after_us: int) -> list[Packet]:
        """Migrate to another operator set together with the other affected nodes, after what is under way."""
        others = tuple(n for n in affected if n != self.name)
        self.queued.append(TwoPhase(number, operators, others, after_us))
        return self._go()

    # Rows and partial results.

    def _go(self) -> list[Packet]:
        """Do all that can be done now."""
        while self._plan() or self._begin_migration() or self._take_rows() or self._work() or self._go_on_migrating():
            pass
        self._forget()
        out, self._out = self._out, []
        return out

    @property
    def _limit_us(self) -> int:
        """Return the time from which on heads wait for a position."""
        held = None if self.migration is None else self.migration.worked_us
        return FOREVER if held is None else held

    def _take_rows(self) -> bool:
        """Let rows of the own stream into its window, and ship them; return whether there were any."""
        if not self.arrived or self._limit_us != FOREVER:
            return False
        part, upto_us = self.arrived.pop(0)
        window, flow = self.windows[self.name], Flow(self.name, self.name)
        low_us = window.covered_us
        if upto_us <= low_us:
            return True
        window.add(part, upto_us)
        self._moved = True
        for epoch, low, high in self.epochs.spans(low_us, upto_us):
            piece = shipped(self.query, self.name, _span(part, low, high))
            prepared = [to for number, nodes in self.prepared.items() if number > epoch.number for to in nodes]
            for to in dict.fromkeys([*epoch.ships(flow), *prepared]):
                self._say(ROWS, to, {"low": low, "high": high}, piece.to_batch() if len(piece) else None)
        heads = heads_of(self.query, self.name, part)
        self._arrive(flow, low_us, upto_us, heads)
        if self.planner is not None:
            self._out += self.planner.on_rows(part, heads, window, upto_us)
        return True

    def _on_rows_of_others(self, message: Packet) -> None:
        """Put rows that were shipped here into the window of their stream, and let them be heads."""
        alias, low, high = message.sender, message.plain["low"], message.plain["high"]
        part = NO_ROWS if message.table is None else Part.of_batch(message.table)
        window = self.windows.get(alias)
        if window is not None and low <= window.covered_us < high and self._keeps(alias):
            window.add(_span(part, window.covered_us, high), high)
        self._arrive(Flow(alias, alias), low, high, heads_of(self.query, alias, part))

    def _keeps(self, alias: str) -> bool:
        """Tell whether a stream's window is wanted: by an epoch, or by the one to come."""
        sets = [epoch.operators for epoch, _ in self.epochs]
        if self.migration is not None:
            sets.append(self.migration.operators)
        return any(alias in operators.windows for operators in sets)

    def _on_partials(self, message: Packet) -> None:
        path, width = tuple(message.plain["path"]), 1 + self.query.codes
        none = message.table is None
        partials = Partials.none(path, width) if none else Partials.of_batch(message.table, path, width)
        self._arrive(Flow(path[0], path[-1]), message.plain["low"], message.plain["high"], partials)

    def _arrive(self, flow: Flow, low_us: int, high_us: int, partials: Partials) -> None:
        """Let a stretch of a flow wait for its turn."""
        self.waiting.setdefault(flow, []).append(Piece(low_us, high_us, partials))

    def _work(self) -> bool:
        """Work on what waits; return whether something has come out of it."""
        return any(self._work_on(flow) for flow in list(self.waiting))

    def _work_on(self, flow: Flow) -> bool:
        """Work on the stretches of a flow in their order, as far as windows have come."""
        pieces, worked = self.waiting[flow], False
        pieces.sort(key=lambda p: p.low_us)
        while pieces:
            piece = pieces[0]
            next_us = self.epochs.next_us(flow)
            stop_us = min(piece.high_us, self._limit_us)
            if next_us is None or next_us >= stop_us:
                if piece.high_us > self._limit_us:
                    break  # whose work it is, the position will say
                self._pass_over(flow, piece)
            elif piece.low_us > next_us or not self._work_on_span(flow, piece, next_us, stop_us):
                break
            worked = True
            if piece.low_us >= piece.high_us:
                pieces.pop(0)
        if not pieces:
            del self.waiting[flow]
        return worked

    def _pass_over(self, flow: Flow, piece: Piece) -> None:
        """Drop rows of a stream that no operator here takes as heads: they are for its window, or for other nodes."""
        if flow.head != flow.last:
            raise StateError(f"node '{self.name}' was sent rows of {flow}, which it does nothing with")
        self.seen_us = max(self.seen_us, piece.high_us)
        piece.low_us = piece.high_us

    def _work_on_span(self, flow: Flow, piece: Piece, low_us: int, stop_us: int) -> bool:
        """Work on the part of a stretch that is of one epoch; return whether its windows are there."""
        epoch, low, high = next(self.epochs.spans(low_us, stop_us))
        run = epoch.run(flow)
        if any(self.windows[join.stream].covered_us < high for join in run):
            return False
        partials = piece.partials.span(low, high)
        epoch.reached[flow] = high
        for join in run:
            if len(partials):
                partials, tested = self.windows[join.stream].probe(partials)
                self.pairs_tested += tested
            else:
                partials = Partials.none((*partials.path, join.stream), partials.codes.shape[1])
            flow = Flow(flow.head, join.stream)
            epoch.reached[flow] = high
        for to in epoch.ships(flow):
            self._ship(partials, to, low, high)
        piece.low_us = high
        self.seen_us = max(self.seen_us, high)
        self._moved = True
        return True

    def _ship(self, partials: Partials, to: str, low_us: int, high_us: int) -> None:
        """Send partial results on, without what nobody reads any more."""
        done = partials.path
        table = None
        if len(partials):
            columns = {alias: self.query.carried(alias, done) for alias in done}
            table = partials.to_batch(self.query.compared(done), columns)
        self._say(PARTIALS, to, {"path": list(done), "low": low_us, "high": high_us}, table)

    def _say(self, kind: str, to: str, plain: Mapping[str, Any], table: pa.RecordBatch | None = None) -> None:
        self._out.append(Packet(kind, self.name, to, dict(plain), table))

    # Migrations.

    def _plan(self) -> bool:
        """Take up the operator set that the planner has for this node, if there is a new one."""
        migration = None if self.planner is None else self.planner.begin()
        if migration is None or self.planner is None:
            return False
        others = tuple(n for n in migration.affected if n != self.name)
        self.queued.append(TwoPhase(migration.modification, migration.after, others, self.planner.after_us))
        return True

    def _begin_migration(self) -> bool:
        """Begin the next migration, if none is under way: ask for the windows that it lacks."""
        if self.migration is not None or not self.queued:
            return False
        self.migration = migration = self.queued.pop(0)
        kept = {*self.epochs.latest.operators.windows, self.name}
        for alias in migration.operators.windows:
            if alias not in kept:
                window = self.windows.get(alias)
                held_us = None if window is None else window.covered_us
                migration.missing.add(alias)
                self._say(WINDOW_REQUEST, alias, {"number": migration.number, "held": held_us})
        early, self.early = self.early, []
        for message in early:
            self._on_ready(message)
        return True

    def _on_window_request(self, message: Packet) -> None:
        """Send the part of the own window that another node lacks, and let it have all further rows."""
        number, held_us, window = message.plain["number"], message.plain["held"], self.windows[self.name]
        live = window.live(window.covered_us, NEVER if held_us is None else held_us)
        rows = shipped(self.query, self.name, live)
        self.prepared.setdefault(number, []).append(message.sender)
        plain = {"number": number, "held": held_us, "upto": window.covered_us}
        self._say(WINDOW_COPY, message.sender, plain, rows.to_batch())

    def _on_window_copy(self, message: Packet) -> None:
        """Put what was lacking into a window."""
        assert message.table is not None
        alias, upto_us, part = message.sender, message.plain["upto"], Part.of_batch(message.table)
        if message.plain["held"] is None:
            self.windows[alias] = NodeWindow(self.query, alias, upto_us)
        window = self.windows[alias]
        if message.plain["held"] is None:
            window.add(part, upto_us)
        elif upto_us > window.covered_us:
            window.add(_span(part, window.covered_us, upto_us), upto_us)
            window.complete_us = max(window.complete_us, upto_us)
        if self.migration is not None and self.migration.number == message.plain["number"]:
            self.migration.missing.discard(alias)

    def _on_ready(self, message: Packet) -> None:
        """Note that another affected node is ready."""
        migration = self.migration
        if migration is None or message.plain["number"] != migration.number:
            self.early.append(message)
        elif message.kind == LOCAL_READY:
            migration.local.add(message.sender)
        else:
            migration.positions[message.sender] = message.plain["worked"]

    def _go_on_migrating(self) -> bool:
        """Take the next step of the two phases, if it can be taken; return whether it was."""
        migration = self.migration
        if migration is None:
            return False
        if not migration.is_local_ready:
            if migration.missing:
                return False
            migration.is_local_ready = True
            for other in migration.others:
                self._say(LOCAL_READY, other, {"number": migration.number})
            return True
        if migration.worked_us is None:
            if len(migration.local) < len(migration.others):
                return False
            migration.worked_us = self._worked_us(migration)
            for other in migration.others:
                self._say(GLOBAL_READY, other, {"number": migration.number, "worked": migration.worked_us})
            return True
        position_us = migration.agreed_us
        if position_us is None:
            return False
        self.epochs.begin(Epoch(migration.number, position_us, migration.operators))
        self.migration, self._moved = None, True
        self.finished.append((migration.number, position_us))
        if self.planner is not None:
            self._out += self.planner.migrated(position_us)
        return True

    def _worked_us(self, migration: TwoPhase) -> int:
        """Return the time from which on this node can work by the new operator set, and has not by the old one."""
        complete = [self.windows[alias].complete_us for alias in migration.operators.windows]
        own_us = self.windows[self.name].covered_us
        return max([self.seen_us, own_us, migration.after_us, self.epochs.latest.start_us, *complete])

    # What is needed no more.

    def _forget(self) -> None:
        """Forget epochs that are over, and rows that no head can meet any more."""
        if self.migration is not None or not self._moved:
            return
        self._moved = False
        own_us = self.windows[self.name].covered_us
        self.epochs.forget_done(own_us)
        oldest = next(iter(self.epochs))[0].number
        self.prepared = {n: nodes for n, nodes in self.prepared.items() if n > oldest}
        floors = dict(self._floors())
        lowest_us = min([own_us, *floors.values()])
        for alias, window in self.windows.items():
            window.expire(min(floors.get(alias, lowest_us), window.covered_us))

    def _floors(self) -> Iterator[tuple[str, int]]:
        """Yield for each window that is probed the time from which on heads may come to it."""
        found: dict[str, int] = {}
        for epoch, end_us in self.epochs:
            for join in epoch.joins:
                if epoch.reached_us(join.flow) < end_us:
                    found[join.stream] = min(found.get(join.stream, FOREVER), epoch.reached_us(join.flow))
        return iter(found.items())


_MEANING: dict[str, Callable[[Node, Packet], None]] = {
    ROWS: Node._on_rows_of_others,
    PARTIALS: Node._on_partials,
    WINDOW_REQUEST: Node._on_window_request,
    WINDOW_COPY: Node._on_window_copy,
    LOCAL_READY: Node._on_ready,
    GLOBAL_READY: Node._on_ready,
}


def _span(part: Part, low_us: int, high_us: int) -> Part:
    """Return the rows from a time on and before another."""
    start, stop = part.times.searchsorted([low_us, high_us])
    return part if stop - start == len(part) else part.between(int(start), int(stop))
