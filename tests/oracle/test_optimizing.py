"""A query that looks after its plan itself gives what recomputing from scratch gives, however often it changes it.

Thresholds are lowered, so that runs of a few rows decide often, and also for the worse.
"""

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from midstream.engine.planning.optimizing import ADVISE, Optimizing
from midstream.engine.results.schema import output_schema
from midstream.local.loop import Loop
from midstream.local.replay import in_process
from midstream.local.report import Report
from midstream.local.sinks import TableSink
from midstream.migrate.record import FINISHED, NO_OP, RUNNING, SUPERSEDED, UNFINISHED
from oracle.migrations import check_output
from oracle.optimized import RESTLESS, draw_optimized
from oracle.recompute import recompute
from seeds import seeds


def run(loop: Loop) -> tuple[pa.Table, Report]:
    sink = TableSink(output_schema(loop.plan))
    report = in_process(loop, sink, None, None)
    return sink.table().drop_columns(["_version"]), report


def check(seed: int) -> int:
    """Run a drawn script; return how many decisions were taken."""
    rnd = random.Random(44_000 + seed)
    case, loop = draw_optimized(rnd)
    told = f"seed {seed}: {case.sql} | {case.tree} {case.join} | {loop.batch_us} {loop.buckets} {loop.framework}"
    got, report = run(loop)
    check_output(case, got, recompute(case), [], told)
    own = [m for m in report.migrations if m["identity"] in {d["identity"] for d in report.decisions}]
    assert {m["state"] for m in own} <= {FINISHED, RUNNING, UNFINISHED, SUPERSEDED, NO_OP}, told
    decisions = report.decisions
    # Nothing may come after the last one.
    assert len(own) <= len(decisions) <= len(own) + 1, told
    times = [d["when"] for d in decisions]
    assert times == sorted(times), told
    assert all(d["why"] and d["predicted"]["before"] >= 0 for d in decisions), told
    again, _ = run(replace(loop, optimizing=Optimizing()))
    assert again == got, told
    return len(decisions)


@pytest.mark.parametrize("seed", seeds(0, 240, quick=2))
def test_optimizing_changes_no_row(seed: int) -> None:
    check(seed)


def test_it_does_change_plans() -> None:
    assert sum(check(1000 + seed) for seed in range(4)) >= 4


def test_advice_changes_nothing() -> None:
    for seed in range(3):
        _, loop = draw_optimized(random.Random(seed))
        loop = replace(loop, schedule=(), optimizing=replace(RESTLESS, mode=ADVISE))
        _, report = run(loop)
        assert not report.migrations
        assert {d["state"] for d in report.decisions} <= {"advised"}
        assert len({b.plan for b in report.batches}) == 1
