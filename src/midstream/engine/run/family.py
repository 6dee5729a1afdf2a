"""Families of queries: which kind of run answers a plan, by when its query answers, or by the framework it runs in."""

from midstream.engine.run.contract import Framework, VersionRun
from midstream.engine.run.counted_hops import CountedHopsRun
from midstream.engine.run.hopping import HoppingRun
from midstream.engine.run.sites import SitesRun
from midstream.engine.run.sliding import SlidingRun
from midstream.operators.build import SITES
from midstream.plan.plan import Plan
from midstream.plan.query import Pace

FAMILY: dict[Pace, type[VersionRun]] = {
    "row": SlidingRun, "close": SlidingRun, "hop": HoppingRun, "count": CountedHopsRun,
}  # fmt: skip
FRAMEWORK: dict[str, type[VersionRun]] = {SITES: SitesRun}
"""Frameworks whose runs are of a kind of their own."""


def family_of(plan: Plan) -> type[VersionRun]:
    """Return the kind of run that answers a plan, where no framework says otherwise."""
    return FAMILY[plan.query.pace]


def run_of(plan: Plan, framework: Framework) -> type[VersionRun]:
    """Return the kind of run that answers a plan in a framework."""
    return FRAMEWORK.get(framework.name) or family_of(plan)
