"""Sites run: a site in its bucket, which sends the rows and messages of its nodes to other sites as mail.

    released rows ──▶ nodes of the site ◀──▶ mail ◀──▶ nodes of other sites
                          └──▶ query node: results in max order, at the site that results go to

State: that of the nodes, as plain values and tables. It is written down in every micro-batch and read again in the
next, so nothing but the store and the mailbox has a say in what a micro-batch does. Windows are read only where the
memory of the machine does not have them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from midstream.engine.results.output import Leaving
from midstream.engine.rows.mail import Message as Mail
from midstream.engine.rows.rows import Rows
from midstream.engine.run.contract import Expiry, Kept, RunSpec, VersionRun
from midstream.migrate.record import MigrationRecord
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import PlanError
from midstream.model.failpoint import reach
from midstream.model.statistics import Statistics
from midstream.model.time import FOREVER, NEVER
from midstream.operators.contract.execution import StateSize
from midstream.plan.plan import Plan
from midstream.sites.node import Node
from midstream.sites.packet import Packet
from midstream.sites.partials import Part
from midstream.sites.plan import QUERY_NODE
from midstream.sites.query import JoinedQuery
from midstream.sites.results import QueryNode
from midstream.sites.site import Site
from midstream.sites.start import Setup, begin_site, export_site, restore_site
from midstream.sites.statistics import stream_statistics

PLACE_BYTES, COLUMN_BYTES = 16, 8
"""What a row takes, and each of its columns, before there is one."""
STEADY, MIGRATING = "steady", "migrating (distributed track)"
REFUSED = "a query over sites changes its plan by itself, as the rates of its streams change"


def setup_of(plan: Plan, spec: RunSpec) -> Setup:
    """Return what all sites of a query agree on; where nothing is known of its streams, they are guessed."""
    assert spec.framework.sites is not None, "the framework says where streams arrive"
    query = JoinedQuery(plan)
    if spec.framework.streams is not None:
        return Setup(query, spec.framework.sites, spec.framework.streams)
    sizes = {alias: PLACE_BYTES + COLUMN_BYTES * len(query.types[alias]) for alias in query.aliases}
    streams = stream_statistics(plan.query, plan.predicates, Statistics(), sizes)
    return Setup(query, spec.framework.sites, streams)


class SitesRun(VersionRun):
    """The nodes of one site."""

    keeps_rows = sends_mail = True

    def __init__(self, version: int, plan: Plan, spec: RunSpec, site: Site, upto_us: int = NEVER) -> None:
        self.version = version
        self.site = site
        self._plan, self._spec = plan, spec
        self._upto_us = upto_us
        """All rows before this time have come."""
        self._sent: list[Mail] = []
        self._counts, self._bytes = Counter[str](), Counter[str]()
        """What was sent since the query began: messages by kind, bytes by the site they went to."""
        self._sites = plan.partitioning.sites
        at = dict(plan.partitioning.at) | {QUERY_NODE: plan.partitioning.results_at}
        self._place_of = {node: self._sites.index(site) for node, site in at.items()}
        self.begin_batch()

    @classmethod
    def adopt(cls, version: int, spec: RunSpec, exported: Any, remembered: dict[str, Any]) -> "SitesRun":
        """Refuse: the nodes of a site are read from its tables, be their windows at hand."""
        raise AssertionError(REFUSED)

    @classmethod
    def rebuild(cls, version: int, plan: Plan, spec: RunSpec, kept: Kept) -> "SitesRun":
        """Return the site of a bucket as it was kept, or as it begins."""
        setup, name = setup_of(plan, spec), plan.partitioning.sites[spec.place]
        if kept.remembered:
            for window in (w for node in (kept.exported or {}).values() for w in node.values()):
                window.attach(setup.query)
            site = restore_site(setup, name, kept.remembered["nodes"], kept.tables, kept.exported)
            run = SitesRun(version, plan, spec, site, kept.remembered["upto_us"])
            run._counts.update(kept.remembered["messages"])
            run._bytes.update(kept.remembered["bytes"])
            return run
        return SitesRun(version, plan, spec, begin_site(setup, name))

    @classmethod
    def migrated(cls, running: Plan, request: MigrationRequest) -> Plan:
        """Refuse: it plans itself."""
        raise PlanError(REFUSED)

    def target(self, request: MigrationRequest, written: Any | None = None) -> Plan:
        """Refuse: it plans itself."""
        raise PlanError(REFUSED)

    def begin_batch(self) -> None:
        """Start counting for a micro-batch."""
        super().begin_batch()
        self._phase = self.phase_now
        self._migrated: list[dict[str, Any]] = []
        self._exported: tuple[dict[str, Any], list[pa.RecordBatch]] | None = None

    @property
    def plan(self) -> Plan:
        """Return the plan it was started with: how joins are placed is for the nodes."""
        return self._plan

    @property
    def migrating(self) -> bool:
        """Return whether a node of this site is on the way to another operator set."""
        return self.phase_now != STEADY

    @property
    def phase(self) -> str:
        """Return what has been going on in this micro-batch."""
        return self._phase

    @property
    def phase_now(self) -> str:
        """Return what is going on now."""
        return MIGRATING if any(node.migration is not None for node in self._nodes) else STEADY

    @property
    def _nodes(self) -> list[Node]:
        return [node for node in self.site.nodes.values() if isinstance(node, Node)]

    def receive(self, mail: Sequence[Mail]) -> None:
        """Let nodes have what those of other sites have said."""
        for letter in mail:
            self._post(self.site.on_message(Packet.decode(letter.body)))
            reach(f"{letter.kind} read")
        self._leave()

    def take(self, rows: dict[str, Rows], upto_us: int, clock_us: int) -> None:
        """Let nodes have the rows of their streams; those of other sites have gone there."""
        for node in self._nodes:
            mine = rows.get(node.name)
            if mine is not None or upto_us > self._upto_us:
                part = self._nothing(node) if mine is None else Part(mine.times, mine.offsets, mine.columns)
                self._post(self.site.on_rows(node.name, part, upto_us))
        self._upto_us = max(self._upto_us, upto_us)
        self._leave()
        self._phase = self.phase_now if self._phase == STEADY else self._phase

    def _nothing(self, node: Node) -> Part:
        types = node.query.types[node.name]
        none = pa.array([], pa.int64()).to_numpy()
        return Part(none, none, {name: pa.array([], kind) for name, kind in types.items()})

    def _post(self, packets: Sequence[Packet]) -> None:
        """Send messages of nodes to the buckets of the sites they are for."""
        for packet in packets:
            to = self._place_of[packet.to]
            self._counts[packet.kind] += 1
            self._bytes[self._sites[to]] += packet.nbytes
            reach(f"{packet.kind} sent")
            self._sent.append(Mail(to, packet.kind, packet.encode(), self._spec.place))

    def work(self) -> None:
        """Note which nodes have gone over to another operator set."""
        for node in self._nodes:
            sets = {epoch.number: str(epoch.operators) for epoch, _ in node.epochs}
            over = [
                {"number": n, "position_us": at_us, "node": node.name, "operators": sets.get(n, "")}
                for n, at_us in node.finished
            ]
            self._migrated += over
            node.finished = []
            for _ in over:
                reach("node migrated")

    def take_mail(self) -> list[Mail]:
        """Return, once, what is to be sent to other sites."""
        sent, self._sent = self._sent, []
        return sent

    def _leave(self) -> None:
        node = self.site.nodes.get(QUERY_NODE)
        results = node.release() if isinstance(node, QueryNode) else None
        if results is not None and len(results):
            self.leaving.append(Leaving(self.version, results))

    def trace(self, on: bool) -> None:
        """Do nothing: versions do not change."""

    @property
    def drain_us(self) -> int | None:
        """Return None: versions do not change."""
        return None

    def drain(self, position_us: int, goes_on: bool = False) -> None:
        """Refuse: versions do not change."""
        raise PlanError(REFUSED)

    def drained(self) -> tuple[int, int] | None:
        """Return None: versions do not change."""
        return None

    @property
    def not_drained_us(self) -> int:
        """Return the time before all rows: versions do not change."""
        return NEVER

    @property
    def oldest_us(self) -> int:
        """Return the time before all rows: versions do not change."""
        return NEVER

    def holds_before(self, position_us: int) -> bool:
        """Return true: nothing takes its place."""
        return True

    def succeed(self, before: VersionRun, row: str = "") -> None:
        """Refuse: nothing takes its place."""
        raise PlanError(REFUSED)

    def migrate(self, request: MigrationRequest, plan: Any | None = None, row: str = "") -> None:
        """Refuse: it plans itself."""
        raise PlanError(REFUSED)

    def records(self) -> list[MigrationRecord]:
        """Return none: modifications are in the report."""
        return []

    @property
    def predicate_evaluations(self) -> int:
        """Return how many pairs the nodes have tested."""
        return sum(node.pairs_tested for node in self._nodes)

    def size(self) -> StateSize:
        """Return what the windows hold."""
        windows = [window for node in self._nodes for window in node.windows.values()]
        return StateSize(sum(w.rows for w in windows), sum(w.nbytes for w in windows))

    def expiry(self, released_us: int) -> Expiry | None:
        """Return that nobody else needs to keep rows."""
        return Expiry(None, FOREVER)

    def export(self) -> Any:
        """Return the windows of each node: all else is small, and in the tables and what is remembered."""
        return {node.name: {a: w.detached() for a, w in node.windows.items()} for node in self._nodes}

    def take_tables(self) -> list[pa.RecordBatch]:
        """Return the rows of the windows, and those on their way; `remember` says what they are."""
        return self._kept[1]

    def remember(self) -> dict[str, Any]:
        """Return the nodes but for their rows."""
        sent = {"messages": dict(self._counts), "bytes": dict(self._bytes)}
        return {"upto_us": self._upto_us, "nodes": self._kept[0], **sent}

    @property
    def _kept(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        if self._exported is None:
            self._exported = export_site(self.site)
        return self._exported

    def report(self) -> dict[str, Any]:
        """Return what users see of a site: operator sets, rows in windows, what was sent since the query began."""
        return {
            "site": self.site.name,
            "operators": [str(node.epochs.latest.operators) for node in self._nodes],
            "windows": {node.name: {a: w.rows for a, w in node.windows.items()} for node in self._nodes},
            "modification": max((node.epochs.latest.number for node in self._nodes), default=0),
            "migrated": self._migrated,
            "phase": self.phase,
            "messages": dict(self._counts),
            "bytes": dict(self._bytes),
        }
