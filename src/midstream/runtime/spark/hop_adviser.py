"""Hop adviser: looks at what the buckets of a live hopping query tell, and says when other modes or another hop pay.

events of all buckets ──▶ statistics of the windows ──▶ is something worth it? ──▶ a migration, asked for like any other
"""

from collections.abc import Sequence
from typing import Any

from midstream.model.errors import PlanError
from midstream.optimize.hopping.statistics import HopStatistics
from midstream.plan.hopping import HopPlan
from midstream.runtime.hop_adapt import PLAN, Adaptation
from midstream.runtime.hop_constants import load_constants

Event = dict[str, Any]


def check_live(adaptation: Adaptation | None) -> None:
    """Refuse what a live query cannot adapt by itself: a tree is not said in words."""
    if adaptation is not None and PLAN in adaptation.kinds:
        raise PlanError("on Spark a hopping query adapts its modes and its hop by itself; migrate it to another tree")


class HopAdviser:
    """Says what to migrate to, micro-batch by micro-batch. State: what was told since it last looked."""

    def __init__(self, adaptation: Adaptation) -> None:
        self._adaptation = adaptation
        self._hops = 0
        self._work_s = 0.0
        self._came: dict[str, int] = {}
        self._asked: list[str] | None = None
        """What the plan had been asked for with when something was last advised."""

    def see(self, plan: HopPlan, events: Sequence[Event]) -> str | None:
        """Take the events of a micro-batch; return what to migrate to, in words, or None."""
        if not events:
            return None
        self._hops += events[0]["passed"]
        self._work_s += max(e["wall_ms"] for e in events) / 1000
        if self._asked == events[0]["asked"]:
            return None  # what was advised has not taken effect
        if self._hops < self._adaptation.every:
            return None
        advice = self._advice(plan, events)
        self._hops, self._work_s, self._came = 0, 0.0, _summed(events, 0)
        self._asked = list(events[0]["asked"]) if advice is not None else None
        return advice

    def _advice(self, plan: HopPlan, events: Sequence[Event]) -> str | None:
        event_s = plan.query.hop_us / 1e6
        other = self._adaptation.other_hop(plan, self._work_s / self._hops, event_s)
        if other is not None:
            return f"same hop={other.query.hop_us}us"
        better = self._adaptation.better(plan, self._statistics(plan, events), load_constants())
        return None if better is None else f"same modes={','.join(better.modes)}"

    def _statistics(self, plan: HopPlan, events: Sequence[Event]) -> HopStatistics:
        found = HopStatistics()
        span_s = self._hops * plan.query.hop_us / 1e6
        held = _summed(events, 1)
        for alias, came in _summed(events, 0).items():
            # After a crash a bucket counts anew.
            found.rows_per_s[alias] = max(came - self._came.get(alias, 0), 0) / span_s or held[alias] / span_s
            found.window_rows[alias] = float(held[alias])
            for name in events[0]["windows"][alias][2]:
                values = sum(e["windows"][alias][2][name] for e in events)
                found.distinct[alias, name] = float(max(values, 1))
        return found


def _summed(events: Sequence[Event], place: int) -> dict[str, int]:
    """Return a figure of each window, over all buckets: rows that have come (0), rows held (1)."""
    return {alias: sum(e["windows"][alias][place] for e in events) for alias in events[0]["windows"]}
