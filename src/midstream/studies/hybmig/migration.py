"""A migration of a clique, followed second by second: the case that most studies of HybMig share."""

from typing import Any

import numpy as np

from midstream.model.effort import ENTRY_COST
from midstream.studies.frame.capacity import Floats, Schedule, schedule
from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.follow import Followed, follow
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case
from midstream.studies.hybmig.clique import OLD, PLANS, SECOND_US, Clique

SPEED = 10_000_000.0
"""Evaluations per second of the simulated processor, at full size: the least, in round numbers, with which PT keeps up
at the defaults, as it does in the paper."""
LEAST = 0.2
"""Smaller ones have so few values and rows that luck decides."""
MS, PT, HYBRID, PAPER, BACKGROUND = "MS", "PT", "HybMig (ours)", "HybMig", "HybMig+BSC"
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    MS: ("moving-state", {}),
    PT: ("parallel-track", {}),
    PAPER: ("hybrid", {"region": "pairs"}),
    HYBRID: ("hybrid", {}),
    BACKGROUND: ("hybrid", {"background": True}),
}


def migrate(
    way: str, plan: str, streams: int, minutes: float, rate: float, size: float, sharing: bool = True
) -> Columns:
    """Run a migration one way; return what each second brought, took and left behind."""
    clique = Clique(streams, minutes, rate, size)
    strategy, options = WAYS[way]
    options = dict(options)
    if way == BACKGROUND:
        options["capacity"] = round(SPEED * size)
    if not sharing:
        options["sharing"] = False
    run = Followed(clique.sql, clique.tables(), OLD[streams], "nested-loop", SECOND_US)
    target = PLANS[plan][streams]
    change_us = clique.change_s * SECOND_US
    trace, switch = follow(run, change_us, clique.after_s, lambda: run.migrate(target, strategy, **options))
    run.finish()
    record = run.records[0]
    lasted = -1.0 if record["duration_us"] is None else record["duration_us"] / SECOND_US
    seconds = len(trace)
    known = {
        "switch_cost": cost_at(size, switch.evaluations, switch.entries),
        "lasted_s": lasted,
        "window_s": clique.window_s,
    }
    return {**trace.columns(), **{name: [value] * seconds for name, value in known.items()}}


def case(way: str, plan: str = "right-deep", streams: int = 6, minutes: float = 3.0, rate: float = 1.0,
         size: float = 1.0, **more: Any) -> Case:  # fmt: skip
    """Return the case of a migration, by the paper's defaults where nothing is said."""
    given = {"way": way, "plan": plan, "streams": streams, "minutes": minutes, "rate": rate, "size": size, **more}
    return Case(migrate, given)


def costs(data: Data) -> Floats:
    """Return what each second has cost."""
    return np.asarray(cost_at(data.value("size"), data["evaluations"], data["entries"]), np.float64)


def cost_at(size: float, evaluations: Any, entries: Any) -> Any:
    """Return what work costs at a size: at half of it a second has half the evaluations, but as many entries."""
    return evaluations + ENTRY_COST * size * entries


def at_work(data: Data) -> Schedule:
    """Return how the simulated processor gets through a migration."""
    return schedule(costs(data), speed_of(data), data.value("switch_cost"))


def speed_of(data: Data) -> float:
    """Return the speed of the processor for a migration of some size."""
    return float(SPEED * data.value("size"))


def size_of(scale: Scale) -> float:
    """Return the size of a migration that is looked at second by second."""
    return max(LEAST, scale.factor)


def sweep_size(scale: Scale) -> float:
    """Return the size of migrations of which there are many."""
    return max(LEAST, scale.factor / 4)
