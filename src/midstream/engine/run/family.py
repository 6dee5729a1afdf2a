"""Families of queries: which kind of run answers a plan. The only place of the engine that asks."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from midstream.engine.rows.rows import Rows
from midstream.engine.run.contract import VersionRun
from midstream.engine.run.hopping import HoppingRun, Planner
from midstream.engine.run.sliding import Framework, SlidingRun
from midstream.migrate.warm import load_kernels
from midstream.model.time import FOREVER
from midstream.plan.plan import Plan
from midstream.plan.query import HOP


@dataclass(frozen=True)
class RunSpec:
    """How the runs of all versions work."""

    ordered: bool = False
    """Results say where they stand among those of other buckets."""
    framework: Framework = field(default_factory=Framework)
    looks: int = FOREVER
    """Hops between two looks at what the windows hold."""
    planner: Planner | None = None
    """Makes the plans of hopping queries' migrations; None: they are made where buckets meet, and sent."""


def start_run(version: int, plan: Plan, spec: RunSpec) -> VersionRun:
    """Return a run with empty states."""
    return rebuild_run(version, plan, spec, {}, {}, (), 0)


def adopt_run(version: int, plan: Plan, spec: RunSpec, exported: Any, remembered: dict[str, Any]) -> VersionRun:
    """Go on with operators as they were exported."""
    if plan.query.when == HOP:
        return HoppingRun(version, exported, remembered, spec.looks, spec.planner)
    return SlidingRun.adopt(version, exported, remembered)


def rebuild_run(
    version: int,
    plan: Plan,
    spec: RunSpec,
    remembered: dict[str, Any],
    rows: dict[str, Rows],
    stages: Iterable[tuple[int, pa.Table, dict[str, int]]],
    released_us: int,
) -> VersionRun:
    """Return a run whose states come from the window rows."""
    if plan.query.when == HOP:
        return HoppingRun.rebuild(version, plan, remembered, spec.looks, rows, spec.planner)
    return SlidingRun.rebuild(version, plan, spec.ordered, spec.framework, remembered, rows, stages, released_us)


def load_kernels_of(plan: Plan) -> None:
    """Load what migrations of a plan will need, before one is asked for; once per process."""
    if plan.query.when != HOP:
        load_kernels(plan)
