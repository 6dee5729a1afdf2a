"""What a migration would cost: which states match, how large the others are, what each strategy would do about them."""

from collections.abc import Iterable
from dataclasses import dataclass

from midstream.model.statistics import Statistics
from midstream.optimize import general_cost
from midstream.optimize.general_cost import (
    GeneralForecast,
    Work,
    catch_up_s,
    delay_s,
    forecast_general,
    pause_s,
    spike_s,
    work_of,
)
from midstream.optimize.guesses import EVALUATIONS_PER_S
from midstream.optimize.join_cost import JoinCost
from midstream.optimize.migration_work import HYBRID, JUST_IN_TIME, MOVING_STATE, PARALLEL_TRACK, MigrationWork
from midstream.plan.nodes import Node, joins, steps
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
    """What a strategy would do, whether output pauses, when it ends; None is what nobody knows."""

    strategy: str
    at_once: float | None
    """Predicate evaluations before the next result, or in the first micro-batch, beyond those of the new plan."""
    in_all: float | None
    """Predicate evaluations until no old row matters, those of the new plan included."""
    output: str
    ends: str
    entries: float | None = None
    """Entries of missing states that are computed."""
    held: float | None = None
    """Live entries in all states when there are most."""


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
    known = all(a in stats.window_rows for a in target.query.aliases)
    work = MigrationWork(running, target, stats) if known else None
    have = {frozenset(j.aliases) for j in joins(running.layout)} | {frozenset([a]) for a in running.query.aliases}
    cost = JoinCost(target.query.aliases, target.predicates, stats, target.method)
    states = tuple(
        StateForecast(
            n.aliases, frozenset(n.aliases) in have, cost.entries(cost.bits(n.aliases)) if _known(n, stats) else None
        )
        for j in joins(target.layout)
        for n in (j.left, j.right)
    )
    lasts = _lasts(target.query.sources)
    nothing = all(s.matched for s in states)

    def of(strategy: str, output: str, ends: str) -> StrategyForecast:
        if work is None:
            return StrategyForecast(strategy, None, None, output, ends)
        done = work.of(strategy, batch_s)
        return StrategyForecast(strategy, done.at_once, done.evaluations, output, ends, done.entries, done.held)

    strategies = (
        of(MOVING_STATE, "pauses until the states are computed", "at once"),
        of(PARALLEL_TRACK, "the new plan's is held back to the end", lasts),
        of(HYBRID, "steady", "at once" if nothing else lasts),
        of(JUST_IN_TIME, "steady", f"as keys are asked for, or {lasts}"),
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
    delayed_s = delay_s(work, EVALUATIONS_PER_S)
    steady = "steady, of the old plan" + ("" if delayed_s is None else f", about {delayed_s:.2g} s after its row")
    batches = "" if hybrid.batches is None else f"{hybrid.batches:,.0f} micro-batch" + "es" * (hybrid.batches != 1)
    return (
        StrategyForecast(moving.strategy, moving.evaluations, _in_all(moving, work), pauses, "at once"),
        StrategyForecast(track.strategy, 0.0, _in_all(track, work), steady, reach),
        StrategyForecast(
            hybrid.strategy,
            0.0,
            _in_all(hybrid, work),
            steady,
            f"after {batches}{soonest}",
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


def _in_all(forecast: GeneralForecast, work: Work) -> float | None:
    """Return the evaluations of a general strategy until no old row matters, by when others may be over."""
    if forecast.evaluations is None or forecast.lasts_s is None or work.new_per_s is None or work.reach_s is None:
        return None
    return forecast.evaluations + work.new_per_s * max(0.0, work.reach_s - forecast.lasts_s)


def _known(node: Node, stats: Statistics) -> bool:
    return all(a in stats.window_rows for a in node.aliases)


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
