"""Hop adviser: from what the buckets of a hopping query report, says when other modes, another plan or another hop pay.

events of all buckets ──▶ work of a hop, statistics of the windows ──▶ is something worth it? ──▶ a decision
                                    └──▶ what the plan that was chosen last has taken since ──▶ did it pay?
"""

from collections.abc import Sequence
from typing import Any

from midstream.engine.planning.adapt import Adaptation, hop_ns
from midstream.engine.planning.constants import load_constants
from midstream.engine.planning.decisions import ADVISED, OPEN, TAKEN, Decision, Decisions
from midstream.engine.planning.optimizing import ADVISE, AUTO
from midstream.engine.planning.payoff import Work, judge, measured_of, see_payoff
from midstream.migrate.request import MOVING_STATE
from midstream.model.statistics import Statistics
from midstream.model.time import format_duration
from midstream.plan.plan import Plan

Event = dict[str, Any]
PAYS_IN = 16
"""Looks in which a decision is to pay."""


class HopAdviser:
    """Looks from time to time. State: hops and work since it last looked, or since the plan was replaced."""

    def __init__(self, adaptation: Adaptation, mode: str = AUTO, decisions: Decisions | None = None) -> None:
        self._adaptation, self._mode = adaptation, mode
        self.decisions = Decisions() if decisions is None else decisions
        self._plan: Plan | None = None
        self._decided: tuple[Plan, Plan] | None = None
        """From which plan to which was gone last."""
        self._hops = 0
        self._work_s = 0.0
        self._work = Work()
        self._since_us: int | None = None
        """When it last looked, or the plan was replaced; None: nobody knows yet."""
        self._looked_s = 0.0
        """The event time between the last two looks."""

    def see(self, plan: Plan, events: Sequence[Event]) -> None:
        """Count the hops and the work of a micro-batch, at the end of which a plan runs."""
        if plan != self._plan:
            self._plan, self._hops, self._work_s, self._work = plan, 0, 0.0, Work()
            self._since_us = events[0]["clock_us"]
            return
        self._hops += events[0]["hops_passed"]
        self._work_s += max(e["wall_ms"] for e in events) / 1000
        self._work.add(events)

    def advice(self, statistics: Statistics, now_us: int = 0) -> Plan | None:
        """Return the plan to go on with, or None; what was decided is noted."""
        plan, hops, work_s, work = self._plan, self._hops, self._work_s, self._work
        if plan is None or hops < self._adaptation.every:
            return None
        self._hops, self._work_s, self._work = 0, 0.0, Work()
        event_s, constants = (plan.query.hop_us or 0) / 1e6, load_constants()
        since_us, self._since_us = self._since_us, now_us
        seconds = 0.0 if since_us is None else (now_us - since_us) / 1e6
        measured = self._measure(plan, work, seconds, hops, statistics)
        other = self._adaptation.other_hop(plan, work_s / hops, event_s)
        if other is not None:
            hop = format_duration(other.query.hop_us or 0)
            why = f"a hop takes {work_s / hops:.3g} s of the {event_s:g} s between two: HOP BY {hop} from here on"
            return self._decide(plan, other, why, {}, measured, now_us)
        found = self._adaptation.weighed(plan, statistics, constants)
        if found is None:
            return None
        a_second = hops / seconds if seconds > 0 else 1.0
        before, after = found.before_ns / 1e3 * a_second, found.after_ns / 1e3 * a_second
        why = (
            f"a hop is expected to take {found.after_ns / 1e6:,.3g} ms and takes {found.before_ns / 1e6:,.3g} ms with "
            f"the plan that runs: no more than {self._adaptation.gain:.0%} of it"
        )
        return self._decide(plan, found.plan, why, {"before": before, "after": after}, measured, now_us)

    def _decide(
        self, plan: Plan, other: Plan, why: str, predicted: dict[str, float], measured: dict[str, float], now_us: int
    ) -> Plan | None:
        """Note a decision; return its plan, if it is to be taken. Costs are in microseconds per second."""
        last = self.decisions.last
        more = {"migration": 0.0, "horizon_s": PAYS_IN * self._looked_s} if predicted else {}
        texts = (_said(plan), _said(other))
        decision = Decision(now_us, *texts, MOVING_STATE, why, predicted | more, measured)
        if self._mode == ADVISE:
            if last is None or last.state != ADVISED or (last.from_plan, last.to_plan) != texts:
                decision.state = ADVISED
                self.decisions.add(decision)
            return None
        if last is not None and last.state == TAKEN:
            judge(last, over=True)
            last.state = OPEN if last.state == TAKEN else last.state
        self.decisions.add(decision)
        self._decided = plan, other
        return other

    def _measure(self, plan: Plan, work: Work, seconds: float, hops: int, statistics: Statistics) -> dict[str, float]:
        """See what the plan that runs has taken, and whether the last decision has paid; return the former."""
        if not work.rows or seconds <= 0:
            return {}
        self._looked_s = seconds
        last, constants, us_a_second = self.decisions.last, load_constants(), hops / seconds / 1e3
        if last is not None and last.state == TAKEN and self._decided is not None and self._decided[1] == plan:
            see_payoff(last, work, seconds, hop_ns(self._decided[0], statistics, constants) * us_a_second)
            judge(last, over=False)
        return measured_of(work, seconds, hop_ns(plan, statistics, constants) * us_a_second)


def _said(plan: Plan) -> str:
    """Return a plan as text, its hop included."""
    hop_us = plan.query.hop_us
    return str(plan) if hop_us is None else f"{plan} hop={format_duration(hop_us).replace(' ', '').lower()}"
