"""Join adviser: from what buckets report of a sliding query, says when another join order pays, and whether it did.

reports of micro-batches ──▶ work per second and row, of the plan that runs
looks at the windows ──▶ statistics ──▶ cost of the plan that runs and of the cheapest ──▶ saved enough? ──▶ a decision
                                                                    a window later: what was measured ──▶ paid or not

An order is taken when what it would have saved since it first looked better is worth a migration and some looks of
work: so differences that come and go cancel, and large ones are seen at once. Costs are in predicate evaluations and
stored results, which follow from the rows; the clock decides nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from midstream.engine.planning.decisions import ADVISED, OPEN, PAID, TAKEN, UNPAID, Decision, Decisions
from midstream.engine.planning.join_looks import JoinsLook, statistics_of_joins
from midstream.engine.planning.optimizing import ADVISE, OTHER_LOOK_US, Optimizing, look_every_us, widest_us
from midstream.migrate.request import AUTO, MigrationRequest
from midstream.model.statistics import Statistics
from midstream.optimize.join_cost import JoinCost
from midstream.optimize.order_joins import cheapest_tree
from midstream.plan.nodes import Join, joins
from midstream.plan.plan import Plan, ordered_plan
from midstream.plan.tree import Tree, parse_tree, tree_text

Report = dict[str, Any]
ROW, LOOK = 25, 25_000
"""What a row takes besides, and what a look and a search of so many splits take, in predicate evaluations."""
REMEMBERED = 16
"""Orders that are compared at each look, those found best of late."""
FORGOTTEN = 0.5
"""What is left of a correction after the time in which a migration was to pay."""
MOST_WRONG = 8.0
"""The largest correction."""


@dataclass
class Work:
    """What was done in some event time."""

    since_us: int | None = None
    rows: int = 0
    evaluations: int = 0
    wall_ms: float = 0.0

    def add(self, reports: Sequence[Report]) -> None:
        """Add a micro-batch, as all buckets report it."""
        self.rows += sum(r["rows_in"] for r in reports)
        self.evaluations += sum(r["predicate_evaluations"] for r in reports)
        self.wall_ms += max(r["wall_ms"] for r in reports)

    @property
    def cost(self) -> float:
        """Return it in predicate evaluations."""
        return self.evaluations + ROW * self.rows


@dataclass
class Correction:
    """How far off the model was of an order."""

    factor: float
    at_us: int


class JoinAdviser:
    """Looks at one version of a sliding query."""

    def __init__(self, plan: Plan, optimizing: Optimizing, decisions: Decisions) -> None:
        self._plan, self._optimizing, self.decisions = plan, optimizing, decisions
        self._window_us = widest_us(plan.query) or OTHER_LOOK_US
        self._every_us = look_every_us(plan.query)
        self._work, self._between = Work(), Work()
        self._spent = 0.0
        """Work since it last searched, in predicate evaluations."""
        self._looked_us: int | None = None
        self._running = ""
        self._saved: dict[str, float] = {}
        """What orders would have saved by now, in predicate evaluations, since they first looked better."""
        self._corrections: dict[str, Correction] = {}
        self._measured: dict[str, float] = {}
        """What the plan that runs was last seen to take; `ratio`: in parts of what the model says."""
        self._quiet_us: int | None = None
        """Until then nothing is decided: what was changed last has not shown yet."""
        self.statistics: Statistics | None = None
        """What was last seen."""

    def on_batch(self, reports: Sequence[Report], running: Plan, now_us: int) -> MigrationRequest | None:
        """Take the reports of a micro-batch that ended at an event time; return the migration to ask for, or None."""
        self._work.add(reports)
        self._between.add(reports)
        if str(running) != self._running:
            self._running = str(running)
            self._saved, self._between = {}, Work()
        looks = [r["statistics"] for r in reports]
        if None in looks:
            return None
        self._spent += self._work.cost
        self._work = Work()
        if self._spent * self._optimizing.share < self._search_cost():
            return None
        self._spent = 0.0
        self.statistics = statistics_of_joins(self._plan, [JoinsLook.of(look) for look in looks])
        if self.statistics.rows_seen < self._optimizing.fewest:
            return None
        return self._look(running, now_us, any(r["migrations"] for r in reports))

    def _search_cost(self) -> float:
        n = len(self._plan.query.aliases)
        return LOOK + 150 * (3**n / 2 if n <= 10 else n**3)

    def _look(self, running: Plan, now_us: int, migrating: bool) -> MigrationRequest | None:
        assert self.statistics is not None
        plan, settings = self._plan, self._optimizing
        cost = JoinCost(plan.query.aliases, plan.predicates, self.statistics, running.method)
        passed_us = self._every_us if self._looked_us is None else now_us - self._looked_us
        self._looked_us = now_us
        if self._quiet_us is not None and (migrating or now_us < self._quiet_us):
            self._between = Work(now_us)
            return None
        mine = cost.of(running.tree).total
        self._measure(cost, running, now_us, mine)
        best = cheapest_tree(cost)
        now = self._corrected(tree_text(running.tree), mine, now_us)
        orders = {tree_text(best): best} | {text: parse_tree(text, plan.query.aliases) for text in self._saved}
        costs = {text: self._corrected(text, cost.of(tree).total, now_us) for text, tree in orders.items()}
        costs.pop(tree_text(running.tree), None)
        # Nor more than what a look is asked to show: a long gap between two looks was seen at its end alone.
        second = min(passed_us, 2 * self._every_us) / 1e6
        saved = {
            text: max(0.0, self._saved.get(text, 0.0) + (settings.gain * now - its) * second)
            for text, its in costs.items()
        }
        kept = sorted(saved, key=lambda text: -saved[text])[:REMEMBERED]
        self._saved = {text: saved[text] for text in kept if saved[text] > 0}
        if not self._saved:
            return None
        chosen = min(self._saved, key=lambda text: costs[text])
        its, migration = costs[chosen], self._migration_cost(cost, running, orders[chosen])
        horizon_s = settings.horizon * self._window_us / 1e6
        enough = max(migration, settings.patience * now * self._every_us / 1e6)
        if its > settings.gain * now or self._saved[chosen] < enough or (now - its) * horizon_s < migration:
            return None
        return self._decide(running, orders[chosen], now, its, migration, horizon_s, now_us)

    def _decide(
        self, running: Plan, tree: Tree, now: float, its: float, migration: float, horizon_s: float, now_us: int
    ) -> MigrationRequest | None:
        text, last = tree_text(tree), self.decisions.last
        advised = self._optimizing.mode == ADVISE
        if advised and last is not None and (last.from_plan, last.to_plan) == (str(running), text):
            return None
        why = (
            f"{text} is expected to take {its:,.0f} predicate evaluations and stored results per second of event time "
            f"and {running} {now:,.0f}; what {horizon_s:g} s save is worth the migration, about {migration:,.0f}"
        )
        predicted = {"before": now, "after": its, "migration": migration, "horizon_s": horizon_s}
        measured, state = dict(self._measured), ADVISED if advised else TAKEN
        self.decisions.add(Decision(now_us, str(running), text, AUTO, why, predicted, measured, state))
        if advised:
            return None
        if last is not None and last.state == TAKEN:
            last.state = OPEN
        self._saved, self._quiet_us = {}, now_us + self._window_us // 2
        return MigrationRequest(text)

    def _measure(self, cost: JoinCost, running: Plan, now_us: int, mine: float) -> None:
        """See what the plan that runs has taken, and whether the last decision has paid."""
        work, self._between = self._between, Work(now_us)
        last = self.decisions.last
        if work.since_us is None or now_us <= work.since_us or not work.rows:
            return
        a_second = work.evaluations * 1e6 / (now_us - work.since_us)
        row, ms = work.evaluations / work.rows, 1000 * work.wall_ms / work.rows
        self._measured = {"before": a_second, "row_before": row, "ms_before": ms, "ratio": a_second / max(mine, 1.0)}
        if last is None or last.state != TAKEN:
            return
        if str(running) != last.to_plan:
            return
        measured = last.measured
        before = cost.of(parse_tree(last.from_plan, self._plan.query.aliases)).total * measured.get("ratio", 1.0)
        measured |= {"after": a_second, "row_after": row, "ms_after": ms, "instead": before}
        last.state = PAID if a_second < before else UNPAID
        expected = last.predicted["after"] / max(last.predicted["before"], 1e-9)
        wrong = (a_second / max(before, 1e-9)) / max(expected, 1e-9)
        if last.state == UNPAID:
            self._corrections[last.to_plan] = Correction(min(max(wrong, 1.0), MOST_WRONG), now_us)

    def _corrected(self, text: str, cost: float, now_us: int) -> float:
        """Return a cost as it was found to be, where it was found to be more than the model says."""
        known = self._corrections.get(text)
        if known is None:
            return cost
        age = (now_us - known.at_us) / (self._optimizing.horizon * self._window_us)
        return cost * max(known.factor * float(FORGOTTEN**age), 1.0)

    def _migration_cost(self, cost: JoinCost, running: Plan, tree: Tree) -> float:
        """Return what computing the states takes that the running plan does not have."""
        have = {frozenset(j.aliases) for j in joins(running.layout)}
        total = self._optimizing.fixed
        for join in joins(ordered_plan(running.query, tree, running.method).layout):
            for side in (join.left, join.right):
                if isinstance(side, Join) and frozenset(side.aliases) not in have:
                    a, b = cost.bits(side.left.aliases), cost.bits(side.right.aliases)
                    total += cost.pairs(a, b) + cost.entries(a | b)
        return total
