"""Which classes a snapshot may hold: values, which never change, and the states of operators; no others are made.

The name of a class in a description is that of its module and its own.
"""

from midstream.migrate import (
    background,
    characteristics,
    class_entries,
    completion,
    decompose,
    gap,
    hybrid,
    just_in_time,
    match,
    migrator,
    parallel_track,
    record,
    request,
    task_run,
)
from midstream.model import batch, coverage, row_sets, stream
from midstream.operators.aggregate import (
    fold,
    functions,
    held_sums,
    instances,
    partitioned_instances,
    set_store,
    stage,
    stage_rows,
)
from midstream.operators.contract import ends as contract_ends
from midstream.operators.contract import pipeline as contract_pipeline
from midstream.operators.difference import chain, execution
from midstream.operators.difference import pipeline as difference_pipeline
from midstream.operators.hopping import (
    anti,
    bag,
    build,
    build_execution,
    coding,
    convert,
    difference,
    emission,
    group,
    held_values,
    kept_groups,
    node,
    numbered,
    rows,
    totals,
    tuples,
)
from midstream.operators.hopping import (
    ends as hopping_ends,
)
from midstream.operators.hopping import (
    join as hopping_join,
)
from midstream.operators.hopping import (
    window as hopping_window,
)
from midstream.operators.sliding import (
    backlog,
    check,
    eddy,
    feed,
    join_state,
    key_index,
    key_run,
    key_set,
    lookup,
    stem,
)
from midstream.operators.sliding import (
    join as sliding_join,
)
from midstream.operators.sliding import (
    pipeline as sliding_pipeline,
)
from midstream.operators.sliding import (
    tree as sliding_tree,
)
from midstream.operators.source import (
    column_store,
    row_store,
    scan,
    sources,
    tape,
    value_table,
)
from midstream.operators.source import (
    window as source_window,
)
from midstream.plan import (
    aggregates,
    algebra,
    expr,
    nodes,
    partition,
    parts,
    plan,
    predicates,
    query,
    source,
)
from midstream.plan import (
    tree as plan_tree,
)
from midstream.plan import (
    window as plan_window,
)
from midstream.sites import window as sites_window


def _by_name(*classes: type) -> dict[str, type]:
    return {f"{c.__module__.removeprefix('midstream.')}.{c.__qualname__}": c for c in classes}


VALUES = _by_name(
    request.MigrationRequest,
    stream.StreamSchema,
    fold.Partial,
    functions.AggregateSpec,
    stage.StageSpec,
    build.Fields,
    totals.Argument,
    rows.Layout,
    stem.Code, stem.Condition, stem.StemSpec,
    scan.Leaf, scan.ScanSpec,
    aggregates.Aggregate, aggregates.UserAggregate,
    algebra.Anti, algebra.Distinct, algebra.Except, algebra.Group, algebra.Join, algebra.Project, algebra.Scan,
    algebra.Select, algebra.Union, algebra.Windowed,
    expr.Call, expr.Case, expr.Cast, expr.Column, expr.Literal, expr.Shown,
    nodes.Difference, nodes.Join, nodes.JoinKey, nodes.Scan,
    partition.Partitioning,
    parts.Block, parts.Output, parts.Parts, parts.Stage,
    plan.Plan,
    predicates.Comparison, predicates.EqualityClass, predicates.Predicates,
    query.Query,
    source.Source,
    plan_tree.Pair,
    plan_window.PredicateWindow, plan_window.RangeInstances, plan_window.RangeWindow, plan_window.RowsInstances,
    plan_window.RowsWindow,
)  # fmt: skip
"""Plans, and what operators are told once: frozen, all the way down."""

STATES = _by_name(
    background.BackgroundState,
    characteristics.CharacteristicsTable, characteristics.Region,
    class_entries.ClassEntries,
    completion.StateCompletion,
    decompose.Task,
    gap.Gap, gap.KeyCount,
    hybrid.Hybrid,
    just_in_time.JustInTime,
    match.Matching, match.Moment,
    migrator.Migrator,
    parallel_track.ParallelTrack,
    record.MigrationRecord,
    task_run.TaskRun,
    batch.Lineage, batch.Results,
    coverage.Coverage,
    row_sets.RowSets,
    fold.Fold,
    held_sums.HeldSums,
    instances.PredicateInstancesState, instances.RangeInstancesState, instances.RowsInstancesState,
    partitioned_instances.PartitionedInstancesState,
    set_store.SetStore,
    stage.WindowStage,
    stage_rows.StageRows,
    contract_ends.Ends,
    contract_pipeline.Drain,
    chain.DifferenceChain, chain.Reordering,
    execution.DifferenceExecution,
    difference_pipeline.DifferencePipeline,
    anti.AntiTuples,
    bag.Bag,
    build.Tree,
    build_execution.HopExecution,
    coding.Coding,
    convert.Compare,
    difference.CountValues,
    emission.Emission,
    hopping_ends.Ends,
    group.GroupBy, group.GroupSpec, group.GroupTuples,
    held_values.BestValues, held_values.DifferentValues,
    hopping_join.JoinSpec, hopping_join.JoinTuples, hopping_join.UnionTuples,
    kept_groups.KeptGroups,
    totals.Totals,
    node.Account, node.Leaf, node.Node, node.Shaped,
    numbered.Numbered,
    rows.Condition, rows.ProjectRows, rows.SelectRows,
    tuples.Tuples,
    hopping_window.HopWindow,
    backlog.Backlog, backlog.FormerIndex,
    check.SameText, check.TrueOf,
    eddy.Eddy, eddy.Policy, eddy.SelectivityPolicy, eddy.TicketPolicy,
    feed.Feed, feed.StoredCode,
    sliding_join.Buffer, sliding_join.Join, sliding_join.JoinSpec,
    join_state.Bookmark, join_state.JoinInputState,
    key_index.Elder, key_index.KeyIndex,
    key_run.KeyRun,
    key_set.KeySet,
    lookup.Lookup,
    sliding_pipeline.JoinPipeline,
    stem.Stem, stem.Visit,
    sliding_tree.Input, sliding_tree.JoinTree, sliding_tree.Step,
    column_store.ColumnStore,
    row_store.RowStore,
    scan.Scan,
    sources.Position, sources.Sources,
    tape.Tape,
    value_table.ValueTable,
    sites_window.NodeWindow,
    source_window.EvictionTable, source_window.PartitionedRowsWindowState, source_window.RowsWindowState,
)  # fmt: skip
"""Operators, their states, and migrations under way."""

NAMES = {cls: name for name, cls in (VALUES | STATES).items()}
