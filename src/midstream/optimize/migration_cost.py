"""What a migration would cost: which states match, how large the others are, what each strategy would do about them."""

from collections.abc import Iterable
from dataclasses import dataclass

from midstream.model.statistics import Statistics
from midstream.optimize import general_cost
from midstream.optimize.general_cost import catch_up_s, forecast_general, pause_s, spike_s, work_of
from midstream.optimize.guesses import EVALUATIONS_PER_S
from midstream.optimize.join_cost import JoinCost
from midstream.plan.nodes import Join, Node, joins, steps
from midstream.plan.plan import Plan
from midstream.plan.source import Source
from midstream.plan.window import RangeWindow, RowsWindow


@dataclass(frozen=True)
class StateForecast:
    """A state of the new plan: whether the running plan has it, and about how many entries it holds."""

    parts: tuple[str, ...]
    matched: bool
    entries: float | None


@dataclass(frozen=True)
class StrategyForecast:
    """What a strategy would do: extra predicate evaluations at once and in all, whether output pauses, when it ends."""

    strategy: str
    at_once: float | None
    in_all: float | None
    output: str
    ends: str


@dataclass(frozen=True)
class MigrationForecast:
    """What is known of a migration before anything happens."""

    states: tuple[StateForecast, ...]
    strategies: tuple[StrategyForecast, ...]
    chosen: str

    def __str__(self) -> str:
        lines = [f"({' '.join(s.parts)}): {'moved' if s.matched else 'incomplete'}" for s in self.states]
        return "\n".join([*lines, f"strategy: {self.chosen}"])

    @property
    def missing(self) -> tuple[StateForecast, ...]:
        """Return the states the running plan does not have."""
        return tuple(s for s in self.states if not s.matched)


def forecast(
    running: Plan, target: Plan, stats: Statistics, chosen: str, rows: int, batch_s: float | None = None
) -> MigrationForecast:
    """Say what a migration would find and cost; `rows` is what general-hybrid may take in a micro-batch."""
    general = forecast_black_boxes(running, target, stats, rows, batch_s)
    if target.query.takes_back:
        return _forecast_difference(running, target, stats, chosen, general)
    size = _Sizes(target, stats)
    have = {frozenset(j.aliases) for j in joins(running.layout)} | {frozenset([a]) for a in running.query.aliases}
    nodes: list[Node] = [c for j in joins(target.layout) for c in (j.left, j.right)]
    states = tuple(StateForecast(n.aliases, frozenset(n.aliases) in have, size.entries(n)) for n in nodes)
    missing = [n for n in nodes if isinstance(n, Join) and frozenset(n.aliases) not in have]
    computed = _sum(size.cost(n) for n in missing)
    filled = _sum(size.entries(n) for n in missing)
    old = _Sizes(running, stats)
    old_window = _sum(old.per_window(n) for n in joins(running.layout))
    lasts = _lasts(target.query.sources)
    nothing = not missing
    strategies = (
        StrategyForecast("moving-state", computed, computed, "pauses until the states are computed", "at once"),
        StrategyForecast("parallel-track", 0.0, old_window, "the new plan's is held back to the end", lasts),
        StrategyForecast("hybrid", 0.0, 0.0 if nothing else old_window, "steady", "at once" if nothing else lasts),
        StrategyForecast("just-in-time", 0.0, filled, "steady", f"as keys are asked for, or {lasts}"),
        *general,
    )
    return MigrationForecast(states, strategies, chosen)


def forecast_black_boxes(
    running: Plan, target: Plan, stats: Statistics, rows: int, batch_s: float | None = None
) -> tuple[StrategyForecast, ...]:
    """Say what the general strategies would do, whatever the query."""
    work = work_of(running, target, stats)
    moving, track, hybrid = (
        forecast_general(s, work, rows, batch_s)
        for s in (general_cost.MOVING_STATE, general_cost.PARALLEL_TRACK, general_cost.HYBRID)
    )
    paused_s, after_s = pause_s(work, EVALUATIONS_PER_S), spike_s(work, EVALUATIONS_PER_S)
    pauses = f"pauses while {work.old_rows:,.0f} old rows are taken in"
    if paused_s is not None and after_s is not None:
        pauses += f", about {paused_s:.2g} s, and {after_s:.2g} s to catch up"
    caught_up_s = catch_up_s(work, EVALUATIONS_PER_S)
    soonest = "" if caught_up_s is None else f", {caught_up_s:.2g} s with all the time that is left"
    reach = "when no old row matters" if track.lasts_s is None else f"after {track.lasts_s:.4g} s of event time"
    return (
        StrategyForecast(moving.strategy, moving.evaluations, moving.evaluations, pauses, "at once"),
        StrategyForecast(track.strategy, 0.0, track.evaluations, "steady, of the old plan", reach),
        StrategyForecast(
            hybrid.strategy,
            0.0,
            hybrid.evaluations,
            "steady, of the old plan",
            f"after {hybrid.batches:,.0f} micro-batches{soonest}",
        ),
    )


def _forecast_difference(
    running: Plan, target: Plan, stats: Statistics, chosen: str, general: tuple[StrategyForecast, ...]
) -> MigrationForecast:
    """Say the same of a difference: no state holds more values than the window of its first stream has rows."""
    most = stats.window_rows.get(target.query.aliases[0])
    have = {frozenset(step.aliases) for step in steps(running.layout)}
    states = tuple(StateForecast(s.aliases, frozenset(s.aliases) in have, most) for s in steps(target.layout))
    filled = _sum(s.entries for s in states if not s.matched)
    ends = f"as values come and go, or {_lasts(target.query.sources[:1])}"
    own = StrategyForecast("just-in-time", 0.0, filled, "steady", ends)
    return MigrationForecast(states, (own, *general), chosen)


def _lasts(sources: Iterable[Source]) -> str:
    """Say after how long no old row is left."""
    windows = [s.window for s in sources]
    widths = [w.width_us for w in windows if isinstance(w, RangeWindow)]
    parts = [f"after {max(widths) / 1e6:g} s of event time"] if widths else []
    counted = [w for w in windows if isinstance(w, RowsWindow)]
    if any(w.partition_by for w in counted):
        parts.append("when every partition has turned over, which may be never")
    elif counted:
        parts.append(f"when {max(w.count for w in counted):,} rows have followed")
    return " and ".join(parts) or "at once"


def _sum(values: Iterable[float | None]) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


class _Sizes:
    """Sizes of a plan's states, and what computing them takes."""

    def __init__(self, plan: Plan, stats: Statistics) -> None:
        self._known = stats.window_rows
        self._cost = JoinCost(plan.query.aliases, plan.predicates, stats, plan.method)

    def entries(self, node: Node) -> float | None:
        """Estimate how many entries a state holds."""
        return self._cost.entries(self._cost.bits(node.aliases)) if self._all_known(node) else None

    def cost(self, node: Join) -> float | None:
        """Estimate the predicate evaluations it takes to compute a state from those below it."""
        if not self._all_known(node):
            return None
        return self._cost.pairs(self._cost.bits(node.left.aliases), self._cost.bits(node.right.aliases))

    def per_window(self, node: Join) -> float | None:
        """Estimate the predicate evaluations of a join over one window: what arrives on each side meets the other."""
        cost = self.cost(node)
        return None if cost is None else 2 * cost

    def _all_known(self, node: Node) -> bool:
        return all(a in self._known for a in node.aliases)
