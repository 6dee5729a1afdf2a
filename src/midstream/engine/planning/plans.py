"""Plans of hopping queries: from what is asked, in words, and what is known of the rows, to a plan."""

from dataclasses import replace

from midstream.engine.planning.constants import load_constants
from midstream.migrate.request import AUTO, GENERAL_HYBRID, MOVING_STATE, OPTIONS, MigrationRequest
from midstream.model.errors import PlanError
from midstream.model.statistics import Statistics
from midstream.optimize.hopping.choose import choose
from midstream.optimize.hopping.cost import Constants
from midstream.plan.capabilities import refuse
from midstream.plan.modes import TUPLE
from midstream.plan.plan import Plan
from midstream.plan.query import Query
from midstream.plan.spec import SAME, PlanSpec, parse_spec

NOT_SAID: tuple[str, ...] = ()
"""Modes that a migration does not mention."""


def plan_hopping(
    query: Query,
    text: str | None = None,
    statistics: Statistics | None = None,
    constants: Constants | None = None,
) -> Plan:
    """Plan a hopping query as asked, or as cheap as possible."""
    spec: PlanSpec = parse_spec(text)
    if spec.shape == SAME:
        raise PlanError("'same' is the plan that runs; nothing runs yet")
    if spec.hop_us is not None:
        raise PlanError("hop= is for migrations: a query begins with the hop it is written with, after HOP BY")
    return planned(query, spec, statistics, constants)


def planned(
    query: Query, spec: PlanSpec, statistics: Statistics | None = None, constants: Constants | None = None
) -> Plan:
    """Return the plan that a specification asks for, but for its hop."""
    if spec.working == TUPLE:
        query.ask_of_times("tuples between hops of rows")
    known, measured = statistics or Statistics(), constants or load_constants()
    return choose(query, known, measured, spec.shape, spec.modes, spec.working)


def check_hop_request(request: MigrationRequest) -> None:
    """Refuse what is asked of a migration that only those of sliding joins have."""
    if request.strategy not in (AUTO, MOVING_STATE) and not request.general:
        raise refuse("migration of hops", what=f"strategy {request.strategy}")
    plain = MigrationRequest(request.plan)
    for name in OPTIONS:
        able = name == "rows" and request.strategy == GENERAL_HYBRID
        if getattr(request, name) != getattr(plain, name) and not able:
            raise refuse("migration of hops", what=f"option '{name}'")


def migrated(running: Plan, request: MigrationRequest, statistics: Statistics | None = None) -> Plan:
    """Return the plan a migration asks for, from the one that runs."""
    check_hop_request(request)
    kept = PlanSpec(SAME, NOT_SAID, running.working[0] if running.working else "window")
    spec: PlanSpec = parse_spec(request.plan, kept)
    if spec.hop_us is not None:
        running.query.ask_of_times("other hop by rows")
    if request.general:
        running.query.ask_of_times("general migration of hops of rows", strategy=request.strategy)
    if spec.working == TUPLE:
        running.query.ask_of_times("tuples between hops of rows")
    query = running.query if spec.hop_us is None else replace(running.query, hop_us=spec.hop_us)
    if request.general and query.hop_us != running.query.hop_us:
        raise refuse("general migration to another hop", strategy=request.strategy)
    if spec.shape == SAME and spec.modes in (NOT_SAID, running.modes):
        return Plan(query, running.root, running.modes, (spec.working,) * len(running.modes))
    if spec.modes == NOT_SAID:
        spec = replace(spec, modes="auto")
    shape = "as-written" if spec.shape == SAME else spec.shape
    asked = replace(query, root=running.root) if spec.shape == SAME else query
    plan = planned(asked, replace(spec, shape=shape), statistics)
    return Plan(query, plan.root, plan.modes, plan.working)
