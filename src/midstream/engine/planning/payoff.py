"""Payoff: what the plan that runs takes, as it was counted, and whether the last decision was worth it.

reports of micro-batches ──▶ work per second of event time and per row ──▶ beside what the old plan would have taken
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from midstream.engine.planning.decisions import PAID, TAKEN, UNPAID, Decision

Report = dict[str, Any]
MOST_WRONG = 8.0
"""The largest correction of a cost."""


@dataclass
class Work:
    """What was done since a time, over all buckets."""

    since_us: int | None = None
    rows: int = 0
    evaluations: int = 0
    stored: int = 0
    """Results of joins that were stored, to be joined further."""
    wall_ms: float = 0.0

    def add(self, reports: Sequence[Report]) -> None:
        """Add a micro-batch, as all buckets report it."""
        rows = sum(r["rows_in"] for r in reports)
        self.rows += rows
        self.evaluations += sum(r["predicate_evaluations"] for r in reports)
        self.stored += max(sum(r["entries_kept"] for r in reports) - rows, 0)
        self.wall_ms += max(r["wall_ms"] for r in reports)

    @property
    def cost(self) -> int:
        """Return what the cost model counts."""
        return self.evaluations + self.stored


def measured_of(work: Work, seconds: float, expected: float) -> dict[str, float]:
    """Return what a plan takes, and how far that is from what the model expects in a second."""
    a_second = work.cost / seconds
    return {
        "before": a_second,
        "row_before": work.cost / work.rows,
        "ms_before": 1000 * work.wall_ms / work.rows,
        "ratio": a_second / max(expected, 1.0),
    }


def see_payoff(decision: Decision, work: Work, seconds: float, expected: float) -> None:
    """Note what the new plan has taken, while the model expects so much of the old one in a second."""
    measured = decision.measured
    passed = measured.get("seconds", 0.0)
    instead = expected * measured.get("ratio", 1.0)
    measured["seconds"] = passed + seconds
    for name, value in (
        ("after", work.cost / seconds),
        ("instead", instead),
        ("row_after", work.cost / work.rows),
        ("ms_after", 1000 * work.wall_ms / work.rows),
    ):
        measured[name] = (measured.get(name, 0.0) * passed + value * seconds) / (passed + seconds)
    measured["saved"] = measured.get("saved", 0.0) + instead * seconds - work.cost


def judge(decision: Decision, over: bool, least_s: float = 0.0) -> float | None:
    """Say whether a decision has paid, if that is known by now: it is `over`, or makes things worse for `least_s`.

    Return how far off the model was: in what part more the new plan has taken of the old one than was expected.
    """
    measured, predicted = decision.measured, decision.predicted
    if decision.state != TAKEN or "seconds" not in measured or not predicted:
        return None
    known_s = least_s if measured["saved"] < 0 else predicted["horizon_s"]
    if not over and measured["seconds"] < known_s:
        return None
    decision.state = PAID if measured["saved"] > predicted["migration"] else UNPAID
    expected = predicted["after"] / max(predicted["before"], 1e-9)
    found = measured["after"] / max(measured["instead"], 1e-9)
    return min(max(found / max(expected, 1e-9), 1.0), MOST_WRONG)
