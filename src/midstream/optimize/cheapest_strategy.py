"""Choose how to migrate by what each strategy is predicted to take, and say why.

    what each does (`migration_work.py`) ──▶ too long a pause, too many entries, no time for it? ──▶ the cheapest left

Results are the same by all of them: what differs is the work, when it is done, and what states hold meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from midstream.model.statistics import Statistics
from midstream.optimize.guesses import EVALUATIONS_PER_S
from midstream.optimize.migration_work import Done, MigrationWork
from midstream.plan.nodes import joins
from midstream.plan.plan import Plan


@dataclass(frozen=True)
class Wishes:
    """What a migration may take, as far as anybody has said."""

    latency_s: float | None = None
    """How long output may pause."""
    spare_per_s: float | None = None
    """Evaluations in a second of event time for which there is time beyond those of the new plan."""
    most_entries: float | None = None
    """Entries that states may hold."""
    speed: float = EVALUATIONS_PER_S
    """Evaluations in a second, on the clock."""


@dataclass(frozen=True)
class StrategyChoice:
    """A strategy, the reasons for it and against the others, and what is predicted of it."""

    strategy: str
    reasons: tuple[str, ...]
    predicted: Done
    extra: float
    """Predicate evaluations beyond those of the new plan, in all."""
    pause_s: float
    """How long output pauses, on the clock."""
    lasts_s: float
    """After how much event time no old row matters, and all of it is over at the latest."""

    @property
    def counts(self) -> dict[str, float]:
        """Return what can be compared with what is counted afterwards."""
        entries = {"entries_completed": self.predicted.entries}
        return entries | {"predicate_evaluations": self.predicted.evaluations, "extra_evaluations": self.extra}


def cheapest_strategy(
    running: Plan,
    target: Plan,
    statistics: Statistics,
    able: Sequence[str],
    wishes: Wishes | None = None,
    batch_s: float | None = None,
) -> StrategyChoice | None:
    """Return the cheapest of the strategies that are able to, within the wishes; None: too little is known.

    Where no strategy is within the wishes it is the one that pauses output the least. Work is the predicate evaluations
    beyond those of the new plan and the entries that are computed.
    """
    known = statistics.window_rows
    if not joins(target.layout) or not able or any(known.get(a) is None for a in target.query.aliases):
        return None
    work, asked = MigrationWork(running, target, statistics), wishes or Wishes()
    candidates = [_candidate(work, name, asked, batch_s) for name in able]
    if not work.missing:
        simplest = candidates[0]
        return _chosen(simplest, work, [f"{simplest.strategy}: the running plan has all states; they are only moved"])
    within = [c for c in candidates if not c.against]
    best = min(within, key=lambda c: (c.total, c.pause_s)) if within else min(candidates, key=lambda c: c.pause_s)
    why = "the least work" if within else "the shortest pause, since none is within what was asked for"
    others = [f"{c.strategy}: {c.said}" + (f", {c.against}" if c.against else "") for c in candidates if c is not best]
    return _chosen(best, work, [f"{best.strategy}: {best.said}; {why}", *others])


@dataclass(frozen=True)
class _Candidate:
    """A strategy, what it takes, and what speaks against it."""

    strategy: str
    done: Done
    extra: float
    pause_s: float
    against: str

    @property
    def total(self) -> float:
        return self.extra + self.done.entries

    @property
    def said(self) -> str:
        """Say what it takes."""
        more = f"{abs(self.extra):,.0f} evaluations {'more' if self.extra >= 0 else 'fewer'} than the new plan"
        entries = f", {self.done.entries:,.0f} entries computed" if self.done.entries >= 1 else ""
        return f"{more}{entries}, a pause of {self.pause_s * 1000:,.2g} ms"


def _candidate(work: MigrationWork, strategy: str, wishes: Wishes, batch_s: float | None) -> _Candidate:
    done = work.of(strategy, batch_s)
    extra, pause_s = done.evaluations - work.new_alone, done.at_once / wishes.speed
    later_per_s = (extra - done.at_once) / work.lasts_s
    against = ""
    if wishes.latency_s is not None and pause_s > wishes.latency_s:
        against = f"longer than the {wishes.latency_s:g} s that output may pause"
    elif wishes.most_entries is not None and done.held > wishes.most_entries:
        against = f"{done.held:,.0f} entries where {wishes.most_entries:,.0f} may be held"
    elif wishes.spare_per_s is not None and later_per_s > wishes.spare_per_s:
        against = f"{later_per_s:,.0f} evaluations a second where there is time for {wishes.spare_per_s:,.0f}"
    return _Candidate(strategy, done, extra, pause_s, against)


def _chosen(best: _Candidate, work: MigrationWork, reasons: Sequence[str]) -> StrategyChoice:
    return StrategyChoice(best.strategy, tuple(reasons), best.done, best.extra, best.pause_s, work.lasts_s)
