"""Migrations as the command line and the engine speak of them: requests, and what is known before anything happens."""

from collections.abc import Sequence

from midstream.local.sources import RecordedStream
from midstream.local.statistics import gather
from midstream.migrate.request import STRATEGIES, MigrationRequest
from midstream.model.statistics import Statistics
from midstream.optimize.migration_cost import MigrationForecast, forecast
from midstream.plan.plan import Plan

__all__ = ["STRATEGIES", "MigrationForecast", "MigrationRequest", "explain_migration"]


def explain_migration(
    plan: Plan, request: MigrationRequest, streams: Sequence[RecordedStream]
) -> tuple[Plan, MigrationForecast]:
    """Say what a migration would find and cost, estimated from recorded streams; return the plan it would go to."""
    target = request.target(plan)
    return target, forecast(plan, target, gather(plan.query, streams) or Statistics(), request.checked(plan).strategy)
