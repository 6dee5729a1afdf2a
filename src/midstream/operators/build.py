"""Build the pipeline of a plan: its sources, its execution and its windows over results, with empty states."""

from collections.abc import Callable

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.operators.aggregate.build import build_stages
from midstream.operators.contract.pipeline import Pipeline
from midstream.operators.difference.build import build_difference
from midstream.operators.expression.evaluate import truth
from midstream.operators.sliding.build import build_sources, build_tree
from midstream.operators.sliding.build_eddy import build_eddy
from midstream.operators.sliding.pipeline import JoinPipeline
from midstream.operators.source.memory import keep_freed_memory
from midstream.plan.capabilities import refuse
from midstream.plan.expr import Column
from midstream.plan.plan import Plan
from midstream.plan.query import CHANGES, CLOSE, COMPLETE, DELTA, HOP, RESULTS, ROW, Emit, When

TREE, STAIRS, CACQ, SITES = "tree", "stairs", "cacq", "sites"
"""The execution frameworks: of join trees, by either name, of eddies, and of streams joined where they arrive."""

__all__ = ["CACQ", "SITES", "STAIRS", "TREE", "build", "build_sources", "build_tree", "check_framework"]


def build(
    plan: Plan,
    one_of_many: bool = False,
    framework: str = TREE,
    routing: str = "selectivity",
    watched: bool = False,
) -> Pipeline:
    """Make the operators of a plan, with empty states; `one_of_many` when other buckets' results are merged in.

    `watched`: rows keep what statistics of them are made of.
    """
    check_framework(plan, framework)
    keep_freed_memory()
    if plan.query.signed:
        return build_difference(plan, build_sources(plan, False), one_of_many)
    sources = build_sources(plan, True, watched)
    execution = build_eddy(plan, sources, routing) if framework == CACQ else build_tree(plan, sources)
    no_column: Callable[[Column], pa.Array] = lambda column: pa.nulls(1)  # noqa: E731
    never = not all(truth(c, 1, no_column).all() for c in plan.predicates.constants)
    outputs = [(o.name, o.expr) for o in plan.query.parts.first.outputs]
    stages = build_stages(plan.query.parts.stages, plan.query.parts.first.schema)
    return JoinPipeline(sources, execution, outputs, never, one_of_many, stages)


def check_framework(plan: Plan, framework: str) -> None:
    """Refuse a framework that is none, and to run a difference, or a hopping query, in one that has sliding joins."""
    if framework not in (TREE, CACQ, STAIRS, SITES):
        raise PlanError(f"framework is {framework!r}; it can be {TREE}, {CACQ}, {STAIRS}, {SITES}")
    limit = _ONLY_TREE[plan.query.emit]
    if limit is not None and framework != TREE:
        raise refuse(limit, framework=framework)
    if framework == SITES:
        limit = _NOT_OVER_SITES[plan.query.when]
        if limit is not None:
            raise refuse(limit)
        if len(plan.query.sources) < 2:
            raise refuse("one stream at sites")


_ONLY_TREE: dict[Emit, str | None] = {
    RESULTS: None,
    CHANGES: "framework of a difference",
    COMPLETE: "framework of hops",
    DELTA: "framework of hops",
}
"""The limit by which what emits this runs as a tree only."""

_NOT_OVER_SITES: dict[When, str | None] = {ROW: None, CLOSE: "windows over results at sites", HOP: "framework of hops"}
"""The limit by which what answers then is not joined over sites."""
