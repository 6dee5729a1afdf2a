"""Rows and plans of the studies of hopping queries: streams of one row a microsecond, keys and values drawn evenly."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from midstream.lang.sql import parse_query
from midstream.local.measure_plans import PlanSeen, measure_plans
from midstream.model.statistics import Statistics
from midstream.model.stream import StreamSchema
from midstream.optimize.hopping.choose import choose, costs
from midstream.optimize.hopping.cost import Constants
from midstream.plan.plan import Plan
from midstream.plan.query import Query

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
SECOND_US = 1_000_000


def streams(names: str, count: int, keys: int, values: int, span_us: int, seed: int) -> dict[str, pa.Table]:
    """Draw rows of streams, as many of each over a stretch of time."""
    made = {}
    for place, name in enumerate(names):
        rng = np.random.default_rng([seed, place])
        stamps = np.sort(rng.integers(0, span_us, count))
        columns = {"k": rng.integers(0, keys, count), "v": rng.integers(0, values, count)}
        made[name] = pa.table({"ts": stamps, **columns})
    return made


def query_of(sql: str, names: str) -> Query:
    """Read a hopping query over streams of these columns."""
    return parse_query(sql, [StreamSchema(name, SCHEMA, "ts") for name in names])


def known(query: Query, rows_per_s: float, keys: float, values: float) -> Statistics:
    """Return what is known of streams that are drawn alike."""
    found = Statistics()
    for alias in query.aliases:
        found.rows_per_s[alias] = rows_per_s
        found.distinct[alias, "k"], found.distinct[alias, "v"] = keys, values
    return found


def modelled_ms(plan: Plan, statistics: Statistics) -> float:
    """Return what a plan costs per hop by our model, with the constants that no machine has changed."""
    return round(sum(cost.total for _, _, cost, _ in costs(plan, statistics, Constants())) / 1e6, 6)


def asked(query: Query, statistics: Statistics, wanted: Mapping[str, tuple[str, str]]) -> dict[str, Plan]:
    """Return plans by name, each by its shape and modes."""
    return {name: choose(query, statistics, Constants(), shape, modes) for name, (shape, modes) in wanted.items()}


def mean_looked_at(seen: PlanSeen) -> float:
    """Return the tuples and pairs a plan has looked at per hop."""
    return round(sum(seen.tested) / len(seen.tested), 3)


__all__ = ["SECOND_US", "asked", "known", "mean_looked_at", "measure_plans", "modelled_ms", "query_of", "streams"]
