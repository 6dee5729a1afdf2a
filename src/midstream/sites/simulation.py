"""Sites on a simulated network: virtual time, links with latency and bandwidth, faults by seed, everything counted.

    rows by virtual time ──▶ sites ──▶ couriers ──▶ links (slow, lossy, out of order) ──▶ couriers ──▶ sites ──▶ results
                               └──▶ kept state ──▶ the site again, when it has died

Deterministic: the same rows, setup and seed give the same messages at the same times. Where no faults are asked for,
nothing is lost and no site dies, but latencies and bandwidths are as declared.
"""

import heapq
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from midstream.model.batch import Results
from midstream.model.errors import MidstreamError
from midstream.sites.courier import Courier, Frame
from midstream.sites.declaration import DEFAULT_LINK, Link
from midstream.sites.node import Node
from midstream.sites.packet import Packet, decode_table, encode_table
from midstream.sites.partials import Part
from midstream.sites.plan import QUERY_NODE
from midstream.sites.record import Modifications
from midstream.sites.results import QueryNode
from midstream.sites.site import Site
from midstream.sites.start import Setup, begin_site, export_site, restore_site

PATIENCE_US = 1_000_000
"""How long an answer is waited for at least; and four round trips."""
KEPT_AFTER_US = 20_000
"""A state that has changed is kept after this long, however little has happened."""
DEATH, SOON_US = 0.1, 50_000
"""How likely a site that has kept its state dies, while some are to die, and how soon after."""
MOST_EVENTS = 5_000_000


@dataclass(frozen=True)
class Faults:
    """What goes wrong, as shares of all frames and as times; drawn by the seed."""

    seed: int = 0
    lost: float = 0.0
    repeated: float = 0.0
    delayed: float = 0.0
    """Frames that wait up to `delay_us` longer, so that others overtake them."""
    delay_us: int = 0
    deaths: int = 0
    """How often a site dies."""
    down_us: int = 0
    """How long a site is dead, at most."""
    keep_every: int = 0
    """A site keeps its state after so many events; 0: it never dies, and keeps nothing."""


@dataclass
class Counts:
    """What went over the network."""

    messages: Counter[str] = field(default_factory=Counter)
    """By kind; those that went again are counted as `again`, answers as `ack`."""
    sent_bytes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By link: from which site to which."""
    kind_bytes: Counter[str] = field(default_factory=Counter)


@dataclass
class Place:
    """A site on the simulated network."""

    site: Site
    courier: Courier
    inputs: dict[str, list[tuple[Part, int]]] = field(default_factory=dict)
    """By stream: rows that have come since the state was kept, to be given again."""
    kept: tuple[Any, ...] | None = None
    events: int = 0
    """Since the state was kept."""
    is_down: bool = False
    waiting: list[tuple[str, Part, int]] = field(default_factory=list)
    """Rows that came while it was down."""
    timer_us: int | None = None


OnResults = Callable[[Results], None]
OnFrame = Callable[[int, Frame], None]
"""Called with the time and what a site has sent; again with what goes again."""


class Simulation:
    """The sites of a query and the network between them. Time goes on as `run_until` says."""

    def __init__(
        self,
        setup: Setup,
        faults: Faults | None = None,
        on_results: OnResults | None = None,
        on_frame: OnFrame | None = None,
    ) -> None:
        self.setup, self.faults = setup, faults or Faults()
        self.now_us = 0
        self.counts = Counts()
        self.modifications = Modifications(setup.first_plan)
        self._rnd = random.Random(self.faults.seed)
        self._on_results = on_results or (lambda results: None)
        self._on_sent = on_frame or (lambda now_us, frame: None)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._busy_us: dict[tuple[str, str, bool], int] = {}
        slowest = max([DEFAULT_LINK.latency_us, *(link.latency_us for link in self._links())])
        self.places = {
            name: Place(begin_site(setup, name), Courier(name, max(PATIENCE_US, 8 * slowest))) for name in setup.names
        }
        self.deaths = 0
        """How many sites have died so far."""
        self._deaths_left = self.faults.deaths if self.faults.keep_every else 0
        if self.faults.keep_every:
            for place in self.places.values():
                self._keep(place)

    def _links(self) -> Iterable[Link]:
        declared = self.setup.declared
        return [*(declared.links or {}).values(), declared.other_links]

    def at(self, time_us: int, event: Callable[[], None]) -> None:
        """Let something happen at a time; what is asked for first happens first."""
        heapq.heappush(self._events, (max(time_us, self.now_us), next(self._order), event))

    def bring(self, alias: str, rows: Part, upto_us: int, at_us: int) -> None:
        """Let rows of a stream arrive at its site, all that are before a time."""
        self.at(at_us, lambda: self._arrive(alias, rows, upto_us))

    def run_until(self, time_us: int | None = None) -> None:
        """Go on to a time; None: until nothing happens any more."""
        done = 0
        while self._events and (time_us is None or self._events[0][0] <= time_us):
            self.now_us, _, event = heapq.heappop(self._events)
            event()
            done += 1
            if done > MOST_EVENTS:
                raise MidstreamError("the simulated sites do not come to rest")
        if time_us is not None:
            self.now_us = max(self.now_us, time_us)

    # Sites.

    def _place_of(self, node: str) -> Place:
        return self.places[self.setup.declared.site_of(node)]

    def _arrive(self, alias: str, rows: Part, upto_us: int) -> None:
        place = self._place_of(alias)
        if place.is_down:
            place.waiting.append((alias, rows, upto_us))
            return
        if self.faults.keep_every:
            place.inputs.setdefault(alias, []).append((rows, upto_us))
        self._after(place, place.site.on_rows(alias, rows, upto_us))

    def _after(self, place: Place, packets: Iterable[Packet]) -> None:
        """Post what a site has said; keep its state when that is due, and let leave what then may."""
        for packet in packets:
            place.courier.post(self.setup.declared.site_of(packet.to), packet)
        place.events += 1
        every = self.faults.keep_every
        if every and place.events < every:
            # Something must be kept some time, or nothing leaves any more.
            self.at(self.now_us + KEPT_AFTER_US, lambda: self._commit_if_due(place))
            return
        self._commit(place)

    def _commit(self, place: Place) -> None:
        if place.is_down:
            return
        self._look(place)
        if self.faults.keep_every:
            self._keep(place)
        place.events = 0
        self._send(place.courier.commit(self.now_us))
        self._set_timer(place)
        if self._deaths_left and self._rnd.random() < DEATH:
            self._deaths_left -= 1
            self.at(self.now_us + self._rnd.randrange(SOON_US), lambda: self._die(place))

    def _commit_if_due(self, place: Place) -> None:
        if place.events:
            self._commit(place)

    def _look(self, place: Place) -> None:
        """Take results, and what is new about modifications: it is kept with the state."""
        for node in place.site.nodes.values():
            if isinstance(node, QueryNode):
                results = node.release()
                if results is not None:
                    self._on_results(results)
            else:
                self._note(node)

    def _note(self, node: Node) -> None:
        if node.planner is not None:
            for triggered in node.planner.triggered:
                self.modifications.trigger(node.name, triggered)
            node.planner.triggered.clear()
        if node.migration is not None:
            self.modifications.begin(node.name, node.migration, self.now_us)
        for number, position_us in node.finished:
            self.modifications.end(node.name, number, position_us, node.epochs.latest.operators, self.now_us)
        node.finished.clear()

    def _keep(self, place: Place) -> None:
        """Write the state of a site down."""
        plain, tables = export_site(place.site)
        traffic, packets = place.courier.export()
        place.kept = (json.dumps(plain), [encode_table(t) for t in tables], json.dumps(traffic), packets)
        place.inputs = {}

    def _die(self, place: Place) -> None:
        if place.is_down or place.kept is None:
            return
        place.is_down = True
        self.deaths += 1
        self.at(self.now_us + self._rnd.randrange(1 + self.faults.down_us), lambda: self._come_back(place))

    def _come_back(self, place: Place) -> None:
        """Make a site again from what was kept; rows that came since are given to it again."""
        assert place.kept is not None
        plain, tables, traffic, packets = place.kept
        name = place.site.name
        read = [table for data in tables if (table := decode_table(data)) is not None]
        place.site = restore_site(self.setup, name, json.loads(plain), read)
        place.courier = Courier(name, place.courier.patience_us)
        place.courier.load(json.loads(traffic), packets, self.now_us)
        place.is_down = False
        again = [(alias, *rows) for alias, given in place.inputs.items() for rows in given]
        place.inputs, place.events = {}, 0
        for alias, rows, upto_us in [*again, *place.waiting]:
            self._arrive(alias, rows, upto_us)
        place.waiting = []
        self._commit(place)

    # The network.

    def _set_timer(self, place: Place) -> None:
        """Wake a site when something is to go again."""
        due_us = place.courier.next_us
        if due_us is None or (place.timer_us is not None and self.now_us < place.timer_us <= due_us):
            return
        place.timer_us = due_us
        self.at(due_us, lambda: self._on_timer(place))

    def _on_timer(self, place: Place) -> None:
        if not place.is_down:
            self._send(place.courier.on_time(self.now_us), again=True)
            place.timer_us = None
            self._set_timer(place)

    def _send(self, frames: Iterable[Frame], again: bool = False) -> None:
        """Put frames on their links: each waits for those before it, then for the latency."""
        rnd, faults = self._rnd, self.faults
        for frame in frames:
            kind = "again" if again else "ack" if frame.packet is None else frame.packet.kind
            ends, size = (frame.source, frame.target), frame.nbytes
            self.counts.messages[kind] += 1
            self._on_sent(self.now_us, frame)
            self.counts.sent_bytes[ends] += size
            self.counts.kind_bytes[kind] += size
            link = self._link(*ends)
            lane = (*ends, frame.is_bulk)  # small messages wait for each other only
            free_us = max(self.now_us, self._busy_us.get(lane, 0)) + int(size / link.bytes_per_s * 1e6)
            self._busy_us[lane] = free_us
            if frame.packet is not None:
                self.places[frame.source].courier.left(frame, free_us)
            arrives_us = free_us + link.latency_us
            if faults.delayed and rnd.random() < faults.delayed:
                arrives_us += rnd.randrange(1 + faults.delay_us)
            if not (faults.lost and rnd.random() < faults.lost):
                self._arrives(frame, arrives_us)
            if faults.repeated and rnd.random() < faults.repeated:
                self._arrives(frame, arrives_us + rnd.randrange(1 + faults.delay_us))

    def _link(self, source: str, target: str) -> Link:
        declared = self.setup.declared
        known = declared.links or {}
        return known.get((source, target)) or known.get((target, source)) or declared.other_links

    def _arrives(self, frame: Frame, at_us: int) -> None:
        self.at(at_us, lambda: self._on_frame(frame))

    def _on_frame(self, frame: Frame) -> None:
        place = self.places[frame.target]
        if place.is_down:
            return
        packets = place.courier.on_frame(frame, self.now_us)
        if frame.packet is None:
            self._set_timer(place)
            return
        said = [out for packet in packets for out in place.site.on_message(packet)]
        self._after(place, said)

    # What is reported.

    @property
    def complete_us(self) -> int:
        """Return the time before which all results have left."""
        node = self._place_of(QUERY_NODE).site.nodes[QUERY_NODE]
        assert isinstance(node, QueryNode)
        return node.released_us
