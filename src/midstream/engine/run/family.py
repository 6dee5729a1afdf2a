"""Families of queries: which kind of run answers a plan, by when its query answers."""

from typing import Any

from midstream.engine.run.contract import Kept, RunSpec, VersionRun
from midstream.engine.run.hopping import HoppingRun
from midstream.engine.run.sliding import SlidingRun
from midstream.plan.plan import Plan
from midstream.plan.query import CLOSE, HOP, ROW, When

FAMILY: dict[When, type[VersionRun]] = {ROW: SlidingRun, CLOSE: SlidingRun, HOP: HoppingRun}


def start_run(version: int, plan: Plan, spec: RunSpec) -> VersionRun:
    """Return a run with empty states."""
    return rebuild_run(version, plan, spec, Kept())


def adopt_run(version: int, plan: Plan, spec: RunSpec, exported: Any, remembered: dict[str, Any]) -> VersionRun:
    """Go on with operators as they were exported."""
    return FAMILY[plan.query.when].adopt(version, spec, exported, remembered)


def rebuild_run(version: int, plan: Plan, spec: RunSpec, kept: Kept) -> VersionRun:
    """Return a run whose states come from the window rows."""
    return FAMILY[plan.query.when].rebuild(version, plan, spec, kept)


def load_kernels_of(plan: Plan) -> None:
    """Load what migrations of a plan will need, before one is asked for; once per process."""
    FAMILY[plan.query.when].load_kernels(plan)
