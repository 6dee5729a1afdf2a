"""Advisers: who looks after the plans of a query's versions by itself, on whatever host, and what was decided.

reports of a micro-batch ──▶ the adviser of the version that runs ──▶ a decision ──▶ a control row, as a user would send

Control rows are durable, and a micro-batch that is run again sends the same one. What advisers know is plain values.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from midstream.engine.control.controls import MIGRATE, ControlSink
from midstream.engine.planning.decisions import TAKEN, Decision, Decisions
from midstream.engine.planning.join_adviser import JoinAdviser
from midstream.engine.planning.optimizing import Optimizing, look_every_us
from midstream.migrate.request import MigrationRequest
from midstream.model.time import FOREVER
from midstream.plan.nodes import MethodChoice
from midstream.plan.plan import Plan, ordered_plan
from midstream.plan.tree import parse_tree

Report = dict[str, Any]
Keep = Callable[[dict[str, Any]], None]
Look = Callable[[], list[Report] | None]
OWN = "-decision"
"""How control rows that follow from decisions end."""


class Advisers:
    """The advisers of a query's versions whose plans are join orders."""

    def __init__(
        self, optimizing: Optimizing, log: ControlSink, plan_of: Callable[[int], Plan], keep: Keep | None = None
    ) -> None:
        """`keep` writes down what a restart has to know, before anything is asked for because of it."""
        self.decisions = Decisions()
        self._optimizing, self._log, self._plan_of, self._keep = optimizing, log, plan_of, keep
        self._advisers: dict[int, JoinAdviser | None] = {}
        self._remembered: dict[str, dict[str, Any]] = {}
        """What is known of versions that have no adviser yet."""
        self._seen = -1
        """The last micro-batch."""
        self._last: tuple[tuple[int, str, str], Plan] | None = None
        """The plan of the last micro-batch, and what its reports called it."""
        self._version = 0
        """The version that was last looked at."""
        self._sent = ""
        """The last decision that is known to have been asked for."""

    def on_batch(self, reports: Sequence[Report], settled: bool = True, look: Look | None = None) -> None:
        """Take the reports of a micro-batch, and ask for what pays. `settled`: the query does not change.

        One that was seen before is not seen again. `look` looks at the windows, where buckets do not do so themselves.
        """
        first = reports[0]
        number, batch = first["version"], first["batches"]
        if not self._optimizing.looks or not number or batch <= self._seen:
            return
        self._seen, self._version = batch, number
        self.decisions.see(first["migrations"])
        adviser = self._adviser(number)
        if adviser is None:  # decisions of queries that hop are noted where these are planned
            self._note(first)
            return
        if not settled:
            return
        request = adviser.on_batch(reports, self._running(number, first["plan"], first["join"]), look)
        last = self.decisions.last
        if request is not None and last is not None:
            last.identity = f"{batch:08d}{OWN}"
        self._note(first)
        if request is not None and last is not None:
            self._send(last, number)

    def _running(self, number: int, text: str, join: str) -> Plan:
        """Return the plan that a report names."""
        if self._last is None or self._last[0] != (number, text, join):
            query = self._plan_of(number).query
            plan = ordered_plan(query, parse_tree(text, query.aliases), cast(MethodChoice, join))
            self._last = (number, text, join), plan
        return self._last[1]

    def look_us(self, number: int) -> int:
        """Return the event time until the windows of a version are worth another look; FOREVER: nobody looks."""
        adviser = self._adviser(number) if self._optimizing.looks else None
        return FOREVER if adviser is None else adviser.look_us

    def _note(self, first: Report) -> None:
        """Write down what a restart has to know, when somebody has looked."""
        if self._keep is not None and first["statistics"] is not None:
            self._keep(self.to_plain())

    def _send(self, decision: Decision, version: int) -> None:
        """Ask for what was decided; once, whoever asks again."""
        request = MigrationRequest(decision.to_plan, decision.strategy)
        self._log.send(MIGRATE, identity=decision.identity, migration=request.to_dict(), version=version)
        self._sent = decision.identity

    def _adviser(self, number: int) -> JoinAdviser | None:
        """Return who looks after a version; None: its plans are no join orders, or there is no choice."""
        if number not in self._advisers:
            plan, adviser = self._plan_of(number), None
            if look_every_us(plan.query) < FOREVER:
                adviser = JoinAdviser(plan, self._optimizing, self.decisions)
                if str(number) in self._remembered:
                    adviser.load(self._remembered.pop(str(number)))
            self._advisers[number] = adviser
        return self._advisers[number]

    def to_plain(self) -> dict[str, Any]:
        """Return what a restart has to know, as plain values."""
        known = {str(n): adviser.to_plain() for n, adviser in self._advisers.items() if adviser is not None}
        decided = {"decisions": self.decisions.to_plain(), "version": self._version, "sent": self._sent}
        return {"seen": self._seen, "advisers": self._remembered | known, **decided}

    def load(self, plain: dict[str, Any]) -> None:
        """Know what was known before a restart."""
        self._seen, self._remembered = plain["seen"], dict(plain["advisers"])
        self.decisions.load(plain["decisions"])
        last, number = self.decisions.last, plain["version"]
        own = last is not None and last.identity.endswith(OWN)
        if own and last is not None and last.state == TAKEN and plain["sent"] != last.identity:
            self._send(last, number)  # it was written down, and perhaps not asked for
