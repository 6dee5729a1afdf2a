"""Hop planner: plans the migrations of a hopping query once, on the driver; the buckets are sent the plan itself.

    words in a control row ──▶ buckets report them ──▶ planned here ──▶ a control row with the plan ──▶ buckets
    what the buckets report of their windows ──▶ does another plan pay? ─────────┘

The control log keeps every plan that was sent, so that whoever starts the query again finds it there.
"""

from collections.abc import Sequence
from typing import Any

from midstream.engine.control.controls import MIGRATE, ControlSink
from midstream.engine.planning.adapt import Adaptation
from midstream.engine.planning.adviser import HopAdviser
from midstream.engine.planning.decisions import Decisions
from midstream.engine.planning.optimizing import AUTO
from midstream.engine.planning.plans import migrated
from midstream.engine.planning.sizes import SeenSizes
from midstream.engine.planning.statistics import BucketStatistics, statistics_of
from midstream.migrate.record import REFUSED, MigrationRecord
from midstream.migrate.request import MOVING_STATE, MigrationRequest
from midstream.model.errors import MidstreamError
from midstream.model.statistics import Statistics
from midstream.plan.json import own_aggregates, read_plan, write_plan
from midstream.plan.plan import Plan

Event = dict[str, Any]
SELDOM = 16
"""Hops between two looks when nothing adapts: for whoever asks, and for migrations in words."""


def looks_of(adaptation: Adaptation | None) -> int:
    """Return how many hops there are between two looks at what the windows hold."""
    return SELDOM if adaptation is None else adaptation.every


class Planner:
    """What runs, what is on its way to the buckets, and what is known of the rows."""

    def __init__(
        self,
        first: Plan,
        log: ControlSink,
        adaptation: Adaptation | None = None,
        version: int = 1,
        mode: str = AUTO,
        decisions: Decisions | None = None,
    ) -> None:
        self._first = first
        self._log = log
        self._adviser = None if adaptation is None else HopAdviser(adaptation, mode, decisions)
        self._version = version
        self._plans = {"": first}
        """Plans by the control row that has them; that of the query has none."""
        self._coming = log.last_plan(version)
        """The control row of the last plan that was sent: when everything has taken effect, that runs."""
        self._unread: set[str] = set()
        """Control rows that no bucket has reported."""
        self._sizes = SeenSizes()
        self.statistics: Statistics | None = None
        """What the buckets have last reported of their windows."""

    def plan_of(self, row: str) -> Plan:
        """Return the plan that a control row has."""
        if row not in self._plans:
            found = self._log.read(row)
            if found is None:
                raise MidstreamError(f"the control log does not have the plan that runs: there is no row {row}")
            self._plans[row] = read_plan(found["plan"], own_aggregates(self._first.query.root))
        return self._plans[row]

    def planned(self, request: MigrationRequest) -> Plan:
        """Return the plan that a migration asks for, from the one that runs when all those before it are over."""
        return migrated(self.plan_of(self._coming), request, self.statistics)

    def on_batch(self, events: Sequence[Event], running: Plan | None = None) -> None:
        """Take the events of a micro-batch; plan what was asked for, and what pays. Records of refusals are added.

        `running` is the plan that runs, where buckets plan by themselves what is asked for; else the row names it.
        """
        first = events[0]
        mine = first["version"] == self._version  # one that is over, or begins in this micro-batch, is another's
        if mine and first["statistics"] is not None:
            looks = [BucketStatistics.of(e["statistics"]) for e in events]
            self.statistics = statistics_of(running or self.plan_of(first["row"]), looks, self._sizes)
        for control in first["controls"]:
            self._unread.discard(control["id"])
            if control["do"] == MIGRATE and "plan" not in control and running is None:
                first["migrations"].append(self._answer(control).to_dict())
        if mine:
            self._advise(events, running or self.plan_of(first["row"]))

    def _answer(self, control: dict[str, Any]) -> MigrationRecord:
        """Send the plan that a control row asks for in words."""
        words = dict(control.get("migration") or {})
        try:
            request = MigrationRequest(**{**words, "identity": control["id"]})
        except (MidstreamError, TypeError) as error:
            plan = str(words.get("plan"))
            return MigrationRecord(control["id"], plan, MOVING_STATE, state=REFUSED, reason=str(error))
        # A micro-batch that is run again sends the same row, whatever it would plan now.
        row = f"{control['id']}-plan"
        if self._log.read(row) is not None:
            self._note(row)
            return MigrationRecord.of(request, request.strategy if request.general else MOVING_STATE)
        return self.ask(request, row)

    def ask(self, request: MigrationRequest, row: str | None = None) -> MigrationRecord:
        """Plan a migration and send it, or refuse to; return its record so far."""
        record = MigrationRecord.of(request, request.strategy if request.general else MOVING_STATE)
        try:
            self._send(request, self.planned(request), row)
        except MidstreamError as error:
            record.state, record.reason = REFUSED, str(error)
        return record

    def _advise(self, events: Sequence[Event], running: Plan) -> None:
        if self._adviser is None:
            return
        self._adviser.see(running, events)
        waiting = self._unread or events[0]["due"]
        if waiting or events[0]["statistics"] is None or self.statistics is None:
            return
        plan = self._adviser.advice(self.statistics, events[0]["clock_us"])
        if plan is not None:
            self._send(MigrationRequest(str(plan)), plan, once=f"advice-{events[0]['batches']:08d}")
            last = self._adviser.decisions.last
            assert last is not None, "it was noted"
            last.identity = self._coming

    def _send(self, request: MigrationRequest, plan: Plan, row: str | None = None, once: str | None = None) -> None:
        """Send a plan to all buckets."""
        of = {"of": request.identity} if request.identity else {}
        sent = {"migration": request.to_dict(), "plan": write_plan(plan), "version": self._version, **of}
        self._note(self._log.send(MIGRATE, identity=row, once=once, **sent))

    def _note(self, row: str) -> None:
        """Note that a plan is on its way; the row has it, be it one that was sent before a crash."""
        self._coming = row
        self._unread.add(row)
