"""Families of queries: which kind of run answers a plan, by when its query answers."""

from midstream.engine.run.contract import VersionRun
from midstream.engine.run.hopping import HoppingRun
from midstream.engine.run.sliding import SlidingRun
from midstream.plan.plan import Plan
from midstream.plan.query import CLOSE, HOP, ROW, When

FAMILY: dict[When, type[VersionRun]] = {ROW: SlidingRun, CLOSE: SlidingRun, HOP: HoppingRun}


def family_of(plan: Plan) -> type[VersionRun]:
    """Return the kind of run that answers a plan."""
    return FAMILY[plan.query.when]
