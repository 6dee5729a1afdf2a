"""Build the stages of a query."""

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.operators.aggregate.functions import AggregateSpec
from midstream.operators.aggregate.instances import (
    InstancesState,
    PredicateInstancesState,
    RangeInstancesState,
    RowsInstancesState,
)
from midstream.operators.aggregate.partitioned_instances import PartitionedInstancesState
from midstream.operators.aggregate.stage import StageSpec, WindowStage
from midstream.plan.aggregates import Aggregate
from midstream.plan.expr import Expr
from midstream.plan.parts import Stage
from midstream.plan.window import Instances, PredicateWindow, RangeInstances


def build_stages(stages: tuple[Stage, ...], selected: pa.Schema) -> list[WindowStage]:
    """Make the operators of stages, the lowest first, over results with the selected columns; with empty states."""
    built = []
    for stage in stages:
        for c in stage.reads():
            if c.name != "_time" and (c.name not in selected.names or selected.field(c.name).type != c.type):
                raise PlanError(f"{c} is not a column of type {c.type} of what the stage reads")
        built.append(WindowStage(_spec(stage), _window(stage.window)))
        built[-1].timed = isinstance(stage.window, RangeInstances) or any(below.timed for below in built[:-1])
        selected = stage.schema
    return built


def _spec(stage: Stage) -> StageSpec:
    names: dict[Expr, str] = {}
    aggregates = []
    for key in stage.keys:
        names.setdefault(key, f"value{len(names)}")
    for a in stage.aggregates:
        name = None if a.argument is None else names.setdefault(a.argument, f"value{len(names)}")
        aggregates.append(aggregate_spec(a, name))
    return StageSpec(
        stage.conjuncts,
        {name: e for e, name in names.items()},
        tuple(names[key] for key in stage.keys),
        tuple(aggregates),
        stage.having,
        tuple((o.name, o.expr) for o in stage.outputs),
    )


def aggregate_spec(asked: Aggregate, argument: str | None) -> AggregateSpec:
    """Return what computes an aggregate of the column that holds its argument."""
    user = None if asked.user is None else asked.user.function
    return AggregateSpec(asked.function, argument, asked.type, asked.distinct, user)


def _window(window: Instances) -> InstancesState:
    if isinstance(window, RangeInstances):
        return RangeInstancesState(window)
    if isinstance(window, PredicateWindow):
        return PredicateInstancesState(window)
    return PartitionedInstancesState(window) if window.partition_by else RowsInstancesState(window)
