"""Join adviser: from what buckets report of a sliding query, says when another join order pays, and whether it did.

looks at the windows ──▶ statistics ──▶ cost of the plan that runs and of the cheapest ──▶ saved enough? ──▶ a decision
reports of micro-batches ──▶ what the plan that runs has taken ──▶ did the last decision pay? ──▶ costs are corrected

An order is taken when what it would have saved since it first looked better is worth a migration and some looks' work:
differences that come and go cancel, and large ones are seen at once. After a decision that did not pay twice as much
has to be saved. Costs are predicate evaluations and stored results, which follow from the rows, not from the clock.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from midstream.engine.planning.decisions import ADVISED, OPEN, PAID, TAKEN, UNPAID, Decision, Decisions
from midstream.engine.planning.join_looks import JoinsLook, statistics_of_joins
from midstream.engine.planning.optimizing import ADVISE, OTHER_LOOK_US, Optimizing, look_every_us, widest_us
from midstream.engine.planning.payoff import Report, Work, judge, measured_of, see_payoff
from midstream.migrate.request import HYBRID, JUST_IN_TIME, MOVING_STATE, MigrationRequest
from midstream.model.statistics import Statistics
from midstream.optimize.cheapest_strategy import Wishes, cheapest_strategy
from midstream.optimize.join_cost import JoinCost
from midstream.optimize.order_joins import cheapest_tree
from midstream.optimize.search import MOST_PARTS
from midstream.plan.plan import Plan, ordered_plan
from midstream.plan.tree import Tree, parse_tree, tree_text

ABLE = (JUST_IN_TIME, MOVING_STATE, HYBRID)
"""Strategies a decision may take: those whose output does not notice."""
PAUSE_S = 0.5
"""How long output may pause for a decision."""
ROW, LOOK, SPLIT = 25.0, 50_000.0, 20.0
"""What a row takes besides, what a look takes, and a split that is searched, in predicate evaluations."""
MOST_LOOKS = 32
"""How many times as long as usual it may be until the next look."""
REMEMBERED = 16
"""Orders that are compared at each look, those found best of late."""
FORGOTTEN = 0.5
"""What is left of a correction after the time in which a migration was to pay."""
MOST_RELUCTANT = 64.0


@dataclass
class Correction:
    """How far off the model was of an order, and when that was found."""

    factor: float
    at_us: int


class JoinAdviser:
    """Looks at one version of a sliding query."""

    def __init__(self, plan: Plan, optimizing: Optimizing, decisions: Decisions) -> None:
        self._plan, self._optimizing, self._decisions = plan, optimizing, decisions
        self._window_us = widest_us(plan.query) or OTHER_LOOK_US
        self._every_us = look_every_us(plan.query)
        self._work = Work()
        """What was done since the plan that runs was last measured."""
        self._spent = 0.0
        """Work since it last searched."""
        self._now_us: int | None = None
        """The event time of the last micro-batch."""
        self._a_second = 0.0
        """Work per second of event time in the last micro-batch."""
        self._looked_us: int | None = None
        self._running = ""
        self._saved: dict[str, float] = {}
        """What orders would have saved by now, since they first looked better."""
        self._expected: dict[str, float] = {}
        """What the orders that are compared were expected to take at the last look, and before."""
        self._corrections: dict[str, Correction] = {}
        self._reluctance = 1.0
        """How many times as much as usual has to be saved: it grows with decisions that did not pay."""
        self._measured: dict[str, float] = {}
        """What the plan that runs was last seen to take."""
        self._quiet_us: int | None = None
        """Until then nothing is decided: what was changed last has not shown yet."""
        self.statistics: Statistics | None = None
        """What was last seen."""

    def on_batch(
        self, reports: Sequence[Report], running: Plan, look: Callable[[], list[Report] | None] | None = None
    ) -> MigrationRequest | None:
        """Take the reports of a micro-batch; return the migration to ask for, or None.

        `look` looks at the windows, where buckets do not do so themselves.
        """
        now_us = max(r["clock_us"] for r in reports)
        self._count(reports, now_us)
        if self._unsettled(reports, running, now_us):
            self._work = Work(now_us)
            return None
        if self._spent * self._optimizing.share < self._search_cost():
            return None
        looks = [r["statistics"] for r in reports] if look is None else look()
        if looks is None or None in looks:
            return None
        self._spent = 0.0
        self.statistics = statistics_of_joins(self._plan, [JoinsLook.of(look) for look in looks])
        if self.statistics.rows_seen < self._optimizing.fewest:
            return None
        return self._look(running, now_us)

    def _count(self, reports: Sequence[Report], now_us: int) -> None:
        """Count what a micro-batch has taken."""
        work, before_us = Work(), self._now_us
        work.add(reports)
        self._work.add(reports)
        spent = work.cost + ROW * work.rows
        self._spent += spent
        if before_us is not None and now_us > before_us:
            self._a_second = spent * 1e6 / (now_us - before_us)
        self._now_us = now_us

    @property
    def look_us(self) -> int:
        """Return the event time until another look is worth it, going by the work of the last micro-batch."""
        due_s = self._search_cost() / self._optimizing.share / max(self._a_second, 1.0)
        return self._every_us * min(max(ceil(due_s * 1e6 / self._every_us), 1), MOST_LOOKS)

    def _unsettled(self, reports: Sequence[Report], running: Plan, now_us: int) -> bool:
        """Return whether what is counted now is not what the plan that runs takes."""
        before, self._running = self._running, str(running)
        changed = before != self._running
        if changed:
            self._saved, self._expected, self._measured = {}, {}, {}
            last = self._decisions.last
            if last is None or last.to_plan != self._running:  # it begins, or somebody else has decided
                windows = self._optimizing.quiet if before else 2 * self._optimizing.quiet
                self._quiet_us = now_us + int(windows * self._window_us)
        return bool(self._optimizing.quiet) and (changed or any(r["migrations"] for r in reports))

    def _search_cost(self) -> float:
        n = len(self._plan.query.aliases)
        return LOOK + SPLIT * (3**n / 2 if n <= MOST_PARTS else 10 * n**3)

    def _look(self, running: Plan, now_us: int) -> MigrationRequest | None:
        assert self.statistics is not None
        settings, aliases = self._optimizing, self._plan.query.aliases
        cost = JoinCost(aliases, self._plan.predicates, self.statistics, running.method)
        since_us, self._looked_us = self._looked_us, now_us
        mine, best = cost.of(running.tree).total, cheapest_tree(cost)
        self._measure(cost, now_us, mine)
        own = tree_text(running.tree)
        # What is expected of the plan that runs, and what it takes, must both say that it is dear.
        now = min(self._corrected(own, mine, now_us), self._measured.get("before", mine))
        orders = {tree_text(best): best} | {text: parse_tree(text, aliases) for text in self._saved}
        orders.pop(own, None)
        fresh = {text: self._corrected(text, cost.of(tree).total, now_us) for text, tree in orders.items()}
        costs = {text: (its + self._expected.get(text, its)) / 2 for text, its in fresh.items()}
        seen, self._expected = self._expected.keys(), costs
        # What came between two looks that are far apart was seen at its end alone.
        passed_us = self._every_us if since_us is None else min(now_us - since_us, 2 * self._every_us)
        for text, its in costs.items():
            self._saved[text] = self._saved.get(text, 0.0) + (settings.gain * now - its) * passed_us / 1e6
        kept = sorted((text for text in costs if self._saved[text] > 0), key=lambda text: -self._saved[text])
        self._saved = {text: self._saved[text] for text in kept[:REMEMBERED]}
        if not self._saved or (self._quiet_us is not None and now_us < self._quiet_us):
            return None
        chosen = min(self._saved, key=lambda text: costs[text])
        # One look may be wrong of an order, and the cheapest of all is that which it is most wrong of.
        if costs[chosen] > (settings.gain if chosen in seen else settings.gain * settings.at_once) * now:
            return None
        return self._weigh(running, orders[chosen], now, costs[chosen], now_us)

    def _weigh(self, running: Plan, tree: Tree, now: float, its: float, now_us: int) -> MigrationRequest | None:
        """Decide for an order that has looked better for a while, if it is worth the migration."""
        settings, text = self._optimizing, tree_text(tree)
        worth = self._reluctance * settings.patience * now * self._every_us / 1e6
        horizon_s = settings.horizon * self._window_us / 1e6
        if self._saved[text] < worth or (now - its) * horizon_s < settings.fixed:
            return None
        assert self.statistics is not None
        target = ordered_plan(running.query, tree, running.method)
        choice = cheapest_strategy(running, target, self.statistics, ABLE, Wishes(latency_s=PAUSE_S))
        if choice is None:
            return None
        migration = settings.fixed + max(choice.extra + choice.predicted.entries, 0.0)
        if (now - its) * horizon_s < migration or self._saved[text] < settings.patience * migration:
            return None
        why = (
            f"{text} is expected to take {its:,.0f} predicate evaluations and stored results per second of event time "
            f"and {running} {now:,.0f}: in {horizon_s:g} s that saves {(now - its) * horizon_s:,.0f}, and the "
            f"migration takes about {migration:,.0f} ({choice.reasons[0]})"
        )
        predicted = {"before": now, "after": its, "migration": migration, "horizon_s": horizon_s}
        return self._decide(Decision(now_us, str(running), text, choice.strategy, why, predicted, dict(self._measured)))

    def _decide(self, decision: Decision) -> MigrationRequest | None:
        last = self._decisions.last
        if self._optimizing.mode == ADVISE:
            said = (decision.from_plan, decision.to_plan)
            if last is None or last.state != ADVISED or said != (last.from_plan, last.to_plan):
                decision.state = ADVISED
                self._decisions.add(decision)
            return None
        if last is not None and last.state == TAKEN:
            self._judge(last, decision.when, over=True)
            last.state = OPEN if last.state == TAKEN else last.state
        self._decisions.add(decision)
        self._saved, self._quiet_us = {}, decision.when + int(self._optimizing.quiet * self._window_us)
        return MigrationRequest(decision.to_plan, decision.strategy)

    def _measure(self, cost: JoinCost, now_us: int, mine: float) -> None:
        """See what the plan that runs has taken, and whether the last decision has paid."""
        work, self._work, last = self._work, Work(now_us), self._decisions.last
        if work.since_us is None or now_us <= work.since_us or not work.rows:
            return
        seconds = (now_us - work.since_us) / 1e6
        self._measured = measured_of(work, seconds, mine)
        if last is not None and last.state == TAKEN and last.to_plan == self._running:
            before = parse_tree(last.from_plan, self._plan.query.aliases)
            see_payoff(last, work, seconds, cost.of(before).total)
            self._judge(last, now_us)

    def _judge(self, decision: Decision, now_us: int, over: bool = False) -> None:
        wrong = judge(decision, over, self._window_us / 1e6)
        if wrong is not None and decision.state == UNPAID:
            self._corrections[decision.to_plan] = Correction(wrong, now_us)
            self._reluctance = min(2 * self._reluctance, MOST_RELUCTANT)
        elif decision.state == PAID:
            self._reluctance = max(self._reluctance / 2, 1.0)

    def _corrected(self, text: str, cost: float, now_us: int) -> float:
        """Return a cost as it was found to be, where it was found to be more than the model says."""
        known = self._corrections.get(text)
        if known is None:
            return cost
        age = (now_us - known.at_us) / (self._optimizing.horizon * self._window_us)
        return cost * max(known.factor * float(FORGOTTEN**age), 1.0)

    def to_plain(self) -> dict[str, Any]:
        """Return what a restart has to know, as plain values."""
        corrections = {text: asdict(known) for text, known in self._corrections.items()}
        return {
            "looked_us": self._looked_us, "running": self._running, "saved": self._saved, "spent": self._spent,
            "corrections": corrections, "reluctance": self._reluctance, "quiet_us": self._quiet_us,
            "expected": self._expected, "measured": self._measured, "work": asdict(self._work),
            "now_us": self._now_us, "a_second": self._a_second,
        }  # fmt: skip

    def load(self, plain: Mapping[str, Any]) -> None:
        """Know what was known before a restart."""
        self._looked_us, self._running, self._quiet_us = plain["looked_us"], plain["running"], plain["quiet_us"]
        self._saved, self._spent = dict(plain["saved"]), plain["spent"]
        self._corrections = {text: Correction(**known) for text, known in plain["corrections"].items()}
        self._reluctance, self._now_us, self._a_second = plain["reluctance"], plain["now_us"], plain["a_second"]
        self._expected, self._measured = dict(plain["expected"]), dict(plain["measured"])
        self._work = Work(**plain["work"])
