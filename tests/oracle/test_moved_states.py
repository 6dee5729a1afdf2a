"""State that is exported and loaded elsewhere goes on as if nothing had happened, in the middle of any run."""

import random

import pyarrow as pa
import pytest

import midstream as ms
from benchmarks.direct import DirectRun
from midstream.engine.rows.rows import Rows
from midstream.engine.snapshot.form import put_together, take_apart
from midstream.local.arrivals import StreamReader
from midstream.local.sources import recorded_table
from oracle.generate import Case, draw_case
from oracle.recompute import plain, recompute
from oracle.test_long_runs import draw_long_case
from seeds import seeds


def rows_between(case: Case, runtime: DirectRun, bounds: list[int]) -> list[dict[str, Rows]]:
    """Cut the streams of a case at the given event times."""
    query = runtime.plan.query
    readers = {}
    for name in {s.stream.name for s in query.sources}:
        stream = recorded_table(name, case.streams[name], "ts")
        used = {c for s in query.sources if s.stream.name == name for c in query.columns_of(s.alias)}
        readers[name] = StreamReader(stream, [c for c in stream.schema.columns.names if c in used])
    return [{name: reader.until(bound) for name, reader in readers.items()} for bound in bounds]


def plan_of(case: Case) -> "ms.plan.plan.Plan":
    engine = ms.Engine()
    for name, table in case.streams.items():
        engine.stream(name, table, time="ts")
    return engine.query(case.sql, plan=case.tree, join=case.join).plan


def run_with_moves(case: Case, bounds: list[int], buckets: int) -> pa.Table:
    plan = plan_of(case)
    runtime = DirectRun(plan, buckets)
    found = []
    for rows in rows_between(case, runtime, bounds):
        found += [r.rows for r in runtime.on_rows(rows)]
        fresh = DirectRun(plan, buckets)
        fresh.next_seq = runtime.next_seq
        description, arrays = take_apart(runtime.migrators)
        assert all(a.dtype != object for a in arrays)
        fresh.migrators = put_together(description, [a.copy() for a in arrays])
        runtime = fresh
    schema = plan.query.schema.append(pa.field("_time", pa.int64()))
    return pa.Table.from_batches(found, schema)


def check(case: Case, rnd: random.Random, cuts: int) -> None:
    bounds = [*sorted(rnd.randrange(60_000_000) for _ in range(cuts)), 2**60]
    expected = recompute(case)
    got = run_with_moves(case, bounds, rnd.choice([1, 1, 2]))
    assert plain(got, got.schema) == plain(expected, got.schema), f"{case.sql} | {case.tree} | {bounds}"


@pytest.mark.parametrize("seed", seeds(0, 30, quick=2))
def test_a_small_run_survives_its_states_being_moved(seed: int) -> None:
    rnd = random.Random(seed)
    check(draw_case(rnd, most_streams=4), rnd, cuts=6)


@pytest.mark.parametrize("seed", seeds(200, 8, quick=1))
def test_a_long_run_survives_its_states_being_moved(seed: int) -> None:
    rnd = random.Random(seed)
    check(draw_long_case(rnd), rnd, cuts=5)
