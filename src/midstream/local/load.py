"""Load over recorded streams: how far a machine of a given capacity would be behind, and what gives then.

    micro-batch ──▶ machine: work and lag ──▶ watch ──▶ an event, a decision, a change to the lighter query or back

Nothing here depends on the clock: the same rows give the same changes at the same positions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from midstream.change.repository import check_change
from midstream.change.request import ChangeRequest
from midstream.engine.control.load import LoadNews, LoadWatch, Machine
from midstream.engine.control.load_policy import LoadPolicy, load_policy
from midstream.engine.planning.decisions import OPEN, Decision
from midstream.model.errors import MidstreamError
from midstream.plan.plan import Plan

REFUSED = "refused"
FULL = "the full query"


@dataclass(frozen=True)
class Load:
    """What may give of a query, planned and checked."""

    policy: LoadPolicy
    full: Plan
    lighter: Plan

    def request(self, lighter: bool, number: int) -> tuple[ChangeRequest, Plan]:
        """Return the change to one of both queries, and its plan."""
        plan = self.lighter if lighter else self.full
        sql = " ".join(str(plan.query).split())
        return ChangeRequest(sql, self.policy.method, identity=f"load-{number}"), plan


def plan_load(
    asked: Mapping[str, Any], text: str, full: Plan, planned: Callable[[str], Plan], versions: Sequence[str] = ()
) -> Load:
    """Read what may give of a query, plan the lighter one, and refuse what could not be changed to or back from."""
    policy = load_policy(asked, text, versions)
    if policy.capacity is None:
        raise MidstreamError(
            "load over recorded streams needs capacity = ...: predicate evaluations in a second of event time"
        )
    try:
        load = Load(policy, full, planned(policy.sql))
        for lighter in (True, False):
            check_change(*((full, load.lighter) if lighter else (load.lighter, full)), load.request(lighter, 1)[0])
    except MidstreamError as error:
        raise MidstreamError(f"load: {policy.said}: {error}") from error
    return load


class LoadKeeper:
    """The load of one run: its machine, its watch, and what has been said and done.

    Invariant: every change it asks for is in `events` and, as a decision, in the report.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        assert load.policy.capacity is not None, "plan_load asks for it"
        self._machine, self._watch = Machine(load.policy.capacity), LoadWatch(load.policy.when_behind_us)
        self._end_us: int | None = None
        self._asked = 0
        self._version = 1
        """The version that runs, as far as it was started with or asked for here."""
        self._gives = True
        """Nobody else has changed the query."""
        self.events: list[dict[str, Any]] = []

    @property
    def lag_us(self) -> int:
        """Return how far behind the machine is."""
        return self._watch.lag_us

    def on_batch(self, first_us: int, end_us: int, evaluations: int, rows_in: int, rows_out: int) -> LoadNews | None:
        """Take a micro-batch with rows from `first_us` on; return what there is to say."""
        start_us = first_us if self._end_us is None else self._end_us
        self._end_us = end_us
        lag_us, busy = self._machine.on_batch(start_us, end_us, evaluations, rows_in + rows_out)
        rate = rows_in * 1e6 / max(end_us - start_us, 1)
        news = self._watch.on_batch(end_us, lag_us, rate, busy)
        if news is not None:
            self.events.append({"when": end_us, **news.to_dict()})
        return news

    def ask(
        self, news: LoadNews, end_us: int, version: int, change: Callable[[ChangeRequest, Plan], None]
    ) -> Decision | None:
        """Go on with the other query, if the news says so; return the decision. `version` is the one that runs."""
        if news.lighter is None or not self._gives:
            return None
        names = (FULL, self._load.policy.said) if news.lighter else (self._load.policy.said, FULL)
        decision = Decision(end_us, *names, self._load.policy.method, news.why, {}, {"lag_s": news.lag_us / 1e6}, OPEN)
        try:
            if version != self._version:
                raise MidstreamError(f"version {version} runs, which somebody has changed to: nothing gives any more")
            self._asked += 1
            decision.identity = f"load-{self._asked}"
            change(*self._load.request(news.lighter, self._asked))
            self._version += 1
        except MidstreamError as error:
            self._gives, decision.state, decision.why = False, REFUSED, f"{decision.why}; {error}"
        self.events.append({"when": end_us, "what": f"to {names[1]}", "state": decision.state, "why": decision.why})
        return decision

    def to_plain(self) -> dict[str, Any]:
        """Return what a restart has to know."""
        known = {"end_us": self._end_us, "asked": self._asked, "version": self._version, "gives": self._gives}
        return {"machine": asdict(self._machine), "watch": self._watch.to_plain(), "events": self.events, **known}

    def load(self, plain: Mapping[str, Any]) -> None:
        """Know what was known before a restart."""
        self._machine, self._watch = Machine(**plain["machine"]), LoadWatch.of(plain["watch"])
        self._end_us, self._asked, self._version = plain["end_us"], plain["asked"], plain["version"]
        self._gives, self.events = plain["gives"], list(plain["events"])
