"""Adapt a running hopping query: other modes, another plan or another hop when what it sees asks for it.

    after a hop ──▶ statistics of the windows ──▶ cheapest modes or plan ──▶ is it worth it? ──▶ migrate

A migration between two hops is exact, so that adapting never changes an answer; another hop changes when there are any.
"""

from dataclasses import dataclass, replace

from midstream.model.errors import PlanError
from midstream.model.statistics import Statistics
from midstream.model.time import format_duration, parse_duration
from midstream.optimize.hopping.choose import choose, costs
from midstream.optimize.hopping.cost import Constants
from midstream.plan.capabilities import refuse
from midstream.plan.plan import Plan

MODES, PLAN, HOP = "modes", "plan", "hop"
KINDS = {
    MODES: "the modes of the operators",
    PLAN: "the whole plan, modes included",
    HOP: "how far apart answers are: farther when the work of a hop takes long, closer when it does not",
}
BUSY, IDLE = 0.5, 0.1
"""Parts of the time between two hops that the work for one may take before the next one is farther, or closer."""


@dataclass(frozen=True)
class Weighed:
    """A plan, and what a hop is expected to take with the one that runs and with it, in nanoseconds."""

    plan: Plan
    before_ns: float
    after_ns: float


def hop_ns(plan: Plan, statistics: Statistics, constants: Constants) -> float:
    """Return what a hop is expected to take, in nanoseconds."""
    return sum(cost.total for _, _, cost, _ in costs(plan, statistics, constants))


@dataclass(frozen=True)
class Adaptation:
    """What may be adapted, when it is worth it, and how far hops may be apart."""

    kinds: frozenset[str]
    gain: float = 0.8
    """Another plan is taken when it costs no more than this part of the one that runs."""
    every: int = 4
    """Hops between two looks."""
    least_us: int = 0
    most_us: int = 2**60

    def better(self, plan: Plan, statistics: Statistics, constants: Constants) -> Plan | None:
        """Return a plan that is worth going on with, or None."""
        found = self.weighed(plan, statistics, constants)
        return None if found is None else found.plan

    def weighed(self, plan: Plan, statistics: Statistics, constants: Constants) -> "Weighed | None":
        """Return a plan that is worth going on with, and what speaks for it; or None."""
        if not self.kinds & {MODES, PLAN}:
            return None
        asked = plan.query if PLAN in self.kinds else replace(plan.query, root=plan.root)
        shape = "optimal" if PLAN in self.kinds else "as-written"
        found = choose(asked, statistics, constants, shape, working=plan.working[0])
        best = Plan(plan.query, found.root, found.modes, found.working)
        before, after = (hop_ns(p, statistics, constants) for p in (plan, best))
        return Weighed(best, before, after) if best != plan and after <= self.gain * before else None

    def other_hop(self, plan: Plan, work_s: float, event_s: float) -> Plan | None:
        """Return the plan with another hop, when the work of a hop asks for one; both times are between two hops."""
        if HOP not in self.kinds or event_s <= 0:
            return None
        hop_us = plan.query.every_us
        if work_s > BUSY * event_s:
            hop_us = min(2 * hop_us, max(self.most_us, hop_us))
        elif work_s < IDLE * event_s and hop_us % 2 == 0:
            hop_us = max(hop_us // 2, min(self.least_us, hop_us))
        if hop_us == plan.query.every_us:
            return None
        return replace(plan, query=replace(plan.query, hop_us=hop_us))


def adaptation_of(text: str | None, plan: Plan) -> Adaptation | None:
    """Return what a plan's query may adapt; refuse what it cannot."""
    found = parse_adaptation(text)
    if found is None:
        return None
    if HOP in found.kinds:
        plan.query.ask_of_times("other hop by rows")
    if not plan.query.joint:
        raise refuse("adaptation")
    if HOP in found.kinds and not found.least_us <= plan.query.every_us <= found.most_us:
        raise PlanError(
            f"the query begins with HOP BY {format_duration(plan.query.every_us)}, outside the bounds of its hop"
        )
    return found


def parse_adaptation(text: str | None) -> Adaptation | None:
    """Read what may be adapted: `modes`, `plan`, `hop=1s..10s`, or several of them.

    >>> sorted(parse_adaptation("modes hop=1s..8s").kinds)
    ['hop', 'modes']
    """
    if not text or text == "nothing":
        return None
    if not isinstance(text, str):
        raise PlanError(f"what may be adapted is text such as 'plan hop=1s..10s', not {text!r}")
    found = Adaptation(frozenset())
    for word in text.replace(",", " ").split():
        name, _, bounds = word.partition("=")
        if name not in KINDS or (bounds and name != HOP):
            raise PlanError(f"'{word}' cannot be adapted; what can is {', '.join(KINDS)}, as in 'plan hop=1s..10s'")
        if name == HOP:
            least, _, most = bounds.partition("..")
            if not least or not most:
                raise PlanError("an adapted hop needs its bounds, as in hop=1s..10s")
            found = replace(found, least_us=parse_duration(least), most_us=parse_duration(most))
            if not 0 < found.least_us <= found.most_us:
                raise PlanError(f"the bounds of a hop go from the least to the most, not {bounds}")
        found = replace(found, kinds=found.kinds | {name})
    return found
