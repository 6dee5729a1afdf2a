"""The expected cost of a join order, for people to read."""

from collections.abc import Sequence

from midstream.local.sources import RecordedStream
from midstream.local.statistics import gather
from midstream.optimize.join_cost import Cost, JoinCost
from midstream.optimize.order_joins import written_order
from midstream.optimize.search import MOST_PARTS
from midstream.plan.plan import Plan
from midstream.plan.tree import tree_text


def explain_cost(plan: Plan, streams: Sequence[RecordedStream]) -> list[str]:
    """Return what the joins of a plan are expected to do in a second of event time, beside those in written order."""
    query = plan.query
    statistics = gather(query, streams) if plan.predicates.relates_streams else None
    if statistics is None or not statistics.rows_seen:
        return []
    cost = JoinCost(query.aliases, plan.predicates, statistics, plan.method)
    written = written_order(query, plan.predicates)
    lines = ["Expected per second of event time", f"  {_said(cost.of(plan.tree))}"]
    if written != plan.tree:
        lines.append(f"  in the written order {tree_text(written)}: {_said(cost.of(written))}")
    if len(query.aliases) > MOST_PARTS:
        lines.append(
            f"  orders of {len(query.aliases)} streams are not all compared: two at a time are joined, those with the "
            f"fewest results first; all orders of up to {MOST_PARTS} streams are"
        )
    return lines


def _said(cost: Cost) -> str:
    return f"{cost.evaluations:,.0f} predicate evaluations, {cost.intermediate:,.0f} intermediate results"
