"""What a general strategy costs: the rows that a black box takes in before it answers, how long that takes, what for.

With n old rows, r rows per second, a reach of w seconds, and T evaluations for a row (HybMig, section 4.4):

    moving state      n rows at once: n T(new), while output pauses; the rows that come meanwhile are a spike
    parallel track    r w rows in w seconds: r w (T(old) + T(new)), the new plan from empty states; w ends earlier where
                      windows of time hold results, and few of these have an old row
    hybrid            as many as it is let: d1 until the old rows are through, d2 until those that came meanwhile are

State: none.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, exp, prod

from midstream.model.statistics import Statistics
from midstream.optimize.join_cost import JoinCost
from midstream.plan.nodes import joins
from midstream.plan.plan import Plan
from midstream.plan.query import RESULTS
from midstream.plan.window import RangeWindow, RowsWindow, Window

MOVING_STATE, PARALLEL_TRACK, HYBRID = "general-moving-state", "general-parallel-track", "general-hybrid"


STEPS = 100
"""Parts of the windows above the joins that are added up."""


@dataclass(frozen=True)
class Work:
    """What two plans do: evaluations, where they are known."""

    rows_per_s: float
    """Rows of all inputs."""
    old_rows: float
    """Rows that matter at any time."""
    reach_s: float | None
    """After how long no old row is expected to matter; None: nobody can say."""
    early_s: float
    """By how much that is before all windows together are over."""
    fill: float | None
    """Evaluations of the new plan for the old rows, from empty states."""
    old_per_s: float | None
    """Evaluations of the old plan in a second."""
    new_per_s: float | None
    """Evaluations of the new plan in a second, once its states are full."""


@dataclass(frozen=True)
class GeneralForecast:
    """What one strategy would take."""

    strategy: str
    rows: float | None
    """Rows that the new plan takes in before it answers."""
    evaluations: float | None
    """Of both plans, until then."""
    lasts_s: float | None
    """In event time."""
    batches: float | None = None
    """In micro-batches, where they matter."""

    @property
    def counts(self) -> dict[str, float]:
        """Return what can be compared with what is counted afterwards."""
        lasts_us = None if self.lasts_s is None else round(self.lasts_s * 1e6)
        found = {"rows": self.rows, "predicate_evaluations": self.evaluations, "duration_us": lasts_us}
        return {name: value for name, value in (found | {"batches": self.batches}).items() if value is not None}


def work_of(running: Plan, target: Plan, stats: Statistics) -> Work:
    """Say what two plans of a query do, by what is known of the rows."""
    query = target.query
    windows = {s.alias: s.window for s in query.sources}
    rates = {alias: stats.rows_per_s.get(alias, 0.0) for alias in windows}
    extra_s = query.timed_us / 1e6
    held = sum(stats.window_rows.get(alias, 0.0) + rates[alias] * extra_s for alias in windows)
    reaches = [_reach_s(window, rates[alias]) for alias, window in windows.items()]
    fill = old = new = found = None
    if query.emit == RESULTS and all(a in stats.window_rows for a in windows):
        old, new = (_per_s(plan, stats) for plan in (running, target))
        fill = _pairs(target, stats) + new * extra_s
        cost = JoinCost(query.aliases, target.predicates, stats, target.method)
        found = cost.rate(cost.bits(query.aliases))
    known = [r for r in reaches if r is not None]
    reach_s = over_s(known, extra_s, sum(rates.values()), found) if len(known) == len(reaches) else None
    early_s = 0.0 if reach_s is None else max(known, default=0.0) + extra_s - reach_s
    return Work(sum(rates.values()), held, reach_s, early_s, fill, old, new)


def over_s(reaches_s: Sequence[float], extra_s: float, rows_per_s: float, found_per_s: float | None) -> float:
    """Return after how long no old row matters: when it is in no joined window, and no result with one in those above.

    Of n windows of w seconds a result found after t seconds has only new rows with a chance of (t/w)^(n-1). Windows of
    time above the joins hold the last one that has not for `extra_s`: where few are found, that was a while before w.

    >>> over_s([10.0, 10.0], 5.0, 2.0, None), over_s([10.0, 10.0], 5.0, 2.0, 0.0)
    (15.0, 10.0)
    >>> [round(over_s([10.0, 10.0], 5.0, 1000.0, found), 1) for found in (0.1, 1.0, 10.0, 1000.0)]
    [10.2, 11.5, 13.8, 14.9]
    """
    last_s = max(reaches_s, default=0.0)
    if found_per_s is None or not extra_s:
        return last_s + extra_s
    # One row may find many results: what counts is when there are any.
    moments_per_s = rows_per_s * (1 - exp(-found_per_s / rows_per_s)) if rows_per_s else 0.0
    step_s = extra_s / STEPS
    later = lasts_s = 0.0
    for k in range(STEPS):
        at_s = last_s - (k + 0.5) * step_s
        new = prod(min(1.0, max(0.0, at_s) / w) if w else 1.0 for w in reaches_s) ** (1 - 1 / len(reaches_s))
        later += moments_per_s * (1 - new) * step_s
        lasts_s += (1 - exp(-later)) * step_s
    return last_s + lasts_s


def forecast_general(strategy: str, work: Work, rows_a_batch: int, batch_s: float | None = None) -> GeneralForecast:
    """Say what a strategy would take; `rows_a_batch` is what hybrid takes beyond the rows that come."""
    if strategy == MOVING_STATE:
        return GeneralForecast(strategy, work.old_rows, work.fill, 0.0)
    if strategy == PARALLEL_TRACK:
        lasts_s = work.reach_s
        rows = None if lasts_s is None else work.rows_per_s * lasts_s
        return GeneralForecast(strategy, rows, _both(work, lasts_s), lasts_s)
    batches = max(1, ceil(work.old_rows / rows_a_batch))
    # It begins somewhere in a micro-batch, and ends with one.
    lasts_s = None if batch_s is None else (batches - 0.5) * batch_s
    rows = None if lasts_s is None else work.old_rows + work.rows_per_s * lasts_s
    evaluations = None
    if lasts_s is not None and work.fill is not None and work.old_per_s is not None and work.new_per_s is not None:
        evaluations = work.fill + (work.old_per_s + work.new_per_s) * lasts_s
    return GeneralForecast(strategy, rows, evaluations, lasts_s, batches)


def times_ms(strategy: str, work: Work, speed: float) -> dict[str, float]:
    """Return what a strategy takes on the clock at so many evaluations in a second, where that is known.

    Of moving state: how long output pauses, and the spike after that; of the others: the work of both plans. And how
    long after its row a result leaves at worst (moving state: a row of the pause), or on average.
    """
    if strategy == MOVING_STATE:
        paused_s = pause_s(work, speed)
        found = {"start_ms": paused_s, "spike_ms": spike_s(work, speed), "work_ms": paused_s, "delay_ms": paused_s}
    elif strategy == PARALLEL_TRACK:
        both = _both(work, work.reach_s)
        found = {"work_ms": None if both is None else both / speed, "delay_ms": delay_s(work, speed)}
    else:
        found = {"work_ms": catch_up_s(work, speed), "delay_ms": delay_s(work, speed)}
    return {name: seconds * 1000 for name, seconds in found.items() if seconds is not None}


def pause_s(work: Work, speed: float) -> float | None:
    """Return how long moving state stops output at so many evaluations in a second."""
    return None if work.fill is None else work.fill / speed


def spike_s(work: Work, speed: float) -> float | None:
    """Return how long it takes then until the rows that came meanwhile are through; None: for ever, or not known."""
    paused_s = pause_s(work, speed)
    if paused_s is None or work.new_per_s is None or work.new_per_s >= speed:
        return None
    return paused_s * (work.new_per_s / speed) / (1 - work.new_per_s / speed)


def delay_s(work: Work, speed: float) -> float | None:
    """Return how long the old plan is at work on a row, which is how long a result waits while that plan answers."""
    return None if work.old_per_s is None or not work.rows_per_s else work.old_per_s / work.rows_per_s / speed


def catch_up_s(work: Work, speed: float) -> float | None:
    """Return how long hybrid lasts with all the time that is left at so many evaluations in a second: d1 + d2."""
    if work.fill is None or work.old_per_s is None or work.new_per_s is None:
        return None
    old, new = work.old_per_s / speed, work.new_per_s / speed
    if old + new >= 1:
        return None
    first_s = work.fill / speed / (1 - old)
    return first_s + new * first_s / (1 - new - old)


def _both(work: Work, lasts_s: float | None) -> float | None:
    """Return the evaluations of both plans over a time, the new one from empty states."""
    if lasts_s is None or work.fill is None or work.old_per_s is None or work.new_per_s is None:
        return None
    # From empty states to full ones takes as much as the old rows would.
    return work.fill - work.new_per_s * work.early_s + work.old_per_s * lasts_s


def _reach_s(window: Window | None, rows_per_s: float) -> float | None:
    if isinstance(window, RangeWindow):
        return window.width_us / 1e6
    if isinstance(window, RowsWindow) and not window.partition_by and rows_per_s:
        return window.count / rows_per_s
    return None


def _costs(plan: Plan, stats: Statistics) -> Iterable[tuple[JoinCost, int, int]]:
    cost = JoinCost(plan.query.aliases, plan.predicates, stats, plan.method)
    return [(cost, cost.bits(j.left.aliases), cost.bits(j.right.aliases)) for j in joins(plan.layout)]


def _pairs(plan: Plan, stats: Statistics) -> float:
    return sum(cost.pairs(a, b) for cost, a, b in _costs(plan, stats))


def _per_s(plan: Plan, stats: Statistics) -> float:
    return sum(cost.evaluations(a, b) for cost, a, b in _costs(plan, stats))
