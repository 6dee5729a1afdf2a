"""Hop adviser: from what the buckets of a hopping query report, says when other modes, another plan or another hop pay.

events of all buckets ──▶ work of a hop, statistics of the windows ──▶ is something worth it? ──▶ the plan to go on with
"""

from collections.abc import Sequence
from typing import Any

from midstream.engine.planning.adapt import Adaptation
from midstream.engine.planning.constants import load_constants
from midstream.model.statistics import Statistics
from midstream.plan.plan import Plan

Event = dict[str, Any]


class HopAdviser:
    """Looks from time to time. State: hops and work since it last looked, or since the plan was replaced."""

    def __init__(self, adaptation: Adaptation) -> None:
        self._adaptation = adaptation
        self._plan: Plan | None = None
        self._hops = 0
        self._work_s = 0.0

    def see(self, plan: Plan, events: Sequence[Event]) -> None:
        """Count the hops and the work of a micro-batch, at the end of which a plan runs."""
        if plan != self._plan:
            self._plan, self._hops, self._work_s = plan, 0, 0.0
            return
        self._hops += events[0]["hops_passed"]
        self._work_s += max(e["wall_ms"] for e in events) / 1000

    def advice(self, statistics: Statistics) -> Plan | None:
        """Return the plan to go on with, or None."""
        plan, hops, work_s = self._plan, self._hops, self._work_s
        if plan is None or hops < self._adaptation.every:
            return None
        self._hops, self._work_s = 0, 0.0
        other = self._adaptation.other_hop(plan, work_s / hops, (plan.query.hop_us or 0) / 1e6)
        return other or self._adaptation.better(plan, statistics, load_constants())
