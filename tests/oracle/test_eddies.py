"""An eddy answers as a join tree does: any query, any policy, any route, changed at any moment."""

import random

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.direct import DirectRun
from midstream.engine.rows import numbering
from midstream.engine.snapshot.form import put_together, take_apart
from midstream.model.errors import PlanError
from midstream.operators.expression import codes
from midstream.operators.sliding import eddy
from midstream.operators.sliding.build_eddy import build_eddy
from oracle.generate import Case, draw_case
from oracle.recompute import plain, recompute
from oracle.test_long_runs import draw_long_case
from oracle.test_moved_states import plan_of, rows_between
from seeds import seeds

POLICIES = ("plan", "selectivity", "ticket")
MOST_RESULTS = 3000


def run_with_eddies(case: Case, rnd: random.Random, policy: str, bounds: list[int], buckets: int) -> pa.Table:
    """Run a case with an eddy in every bucket; change the route, and move the states, at some of the bounds."""
    plan = plan_of(case)
    runtime = DirectRun(plan, buckets)
    for pipeline in runtime.pipelines:
        pipeline.execution = build_eddy(plan, pipeline.sources, policy)
    order = list(plan.query.aliases)
    found, reroutes = [], 0
    for rows in rows_between(case, runtime, bounds):
        found += [r.rows for r in runtime.on_rows(rows)]
        if rnd.random() < 0.5:
            rnd.shuffle(order)
            reroutes += 1
            for pipeline in runtime.pipelines:
                pipeline.execution.reroute(order)
        if rnd.random() < 0.3:
            for pipeline in runtime.pipelines:
                description, arrays = take_apart((pipeline.sources, pipeline.execution))
                assert all(a.dtype != object for a in arrays)
                pipeline.sources, pipeline.execution = put_together(description, [a.copy() for a in arrays])
    assert all(p.execution.reroutes == reroutes for p in runtime.pipelines)
    runtime.size()
    schema = plan.query.schema.append(pa.field("_time", pa.int64()))
    return pa.Table.from_batches(found, schema)


def check(case: Case, expected: pa.Table, rnd: random.Random, policy: str, cuts: int) -> None:
    bounds = [*sorted(rnd.randrange(rnd.choice([20, 60]) * 1_000_000) for _ in range(cuts)), 2**60]
    got = run_with_eddies(case, rnd, policy, bounds, rnd.choice([1, 1, 2]))
    assert plain(got, got.schema) == plain(expected, got.schema), f"{case.sql} | {case.tree} | {policy} | {bounds}"


def draw_small_case(rnd: random.Random) -> tuple[Case, pa.Table]:
    """Draw a case with few enough results, mostly some."""
    while True:
        case = draw_case(rnd)
        expected = recompute(case)
        if 0 < expected.num_rows <= MOST_RESULTS or (expected.num_rows == 0 and rnd.random() < 0.1):
            return case, expected


def cut_small(rnd: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make slices, pieces and buffers small enough to be cut, filled and outgrown, mostly."""
    monkeypatch.setattr(numbering, "SLICE_ROWS", rnd.choice([5, 64, 1000, 1 << 14]))
    monkeypatch.setattr(eddy, "PIECE_ROWS", rnd.choice([3, 50, 1 << 12]))
    monkeypatch.setattr(eddy, "FIRST_ROWS", rnd.choice([1, 10, 1 << 10]))
    monkeypatch.setattr(eddy, "KEPT_WORDS", rnd.choice([0, 1 << 21]))


@pytest.mark.parametrize("seed", seeds(0, 60, quick=1))
def test_an_eddy_equals_recomputing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(seed)
    case, expected = draw_small_case(rnd)
    cut_small(rnd, monkeypatch)
    check(case, expected, rnd, POLICIES[seed % 3], cuts=6)


@pytest.mark.parametrize("seed", seeds(300, 18, quick=1))
def test_a_long_run_of_an_eddy_equals_recomputing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(seed)
    case = draw_long_case(rnd)
    cut_small(rnd, monkeypatch)
    check(case, recompute(case), rnd, POLICIES[seed % 3], cuts=8)


@pytest.mark.parametrize("seed", seeds(2000, 300))
def test_many_eddies_equal_recomputing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    test_an_eddy_equals_recomputing(seed, monkeypatch)


def keyed_case(rows: int, keys: dict[str, int], window: tuple[str, int, list[str]], tree: str) -> Case:
    """Join streams of uniform keys, as many different ones as given, on those keys."""
    rng = np.random.default_rng(7)
    times = {name: np.arange(rows) * 1000 + place for place, name in enumerate(keys)}
    streams = {name: pa.table({"ts": times[name], "k": rng.integers(0, n, rows)}) for name, n in keys.items()}
    first, *others = keys
    conditions = [f"q{first}.k = q{other}.k" for other in others]
    sources = [(f"q{name}", name) for name in keys]
    return Case(streams, sources, {a: window for a, _ in sources}, conditions, [("k", f"q{first}.k")], tree)


def pairs_tested(case: Case, policy: str) -> int:
    plan = plan_of(case)
    runtime = DirectRun(plan)
    runtime.pipelines[0].execution = build_eddy(plan, runtime.pipelines[0].sources, policy)
    for rows in rows_between(case, runtime, [*range(0, 3_000_000, 100_000), 2**60]):
        for _ in runtime.on_rows(rows):
            pass
    return runtime.predicate_evaluations


@pytest.mark.parametrize("policy", POLICIES)
def test_texts_with_the_same_code_are_told_apart(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "hash_bytes", lambda offsets, data, seed: np.zeros(len(offsets) - 1, np.int64))
    case = keyed_case(80, {"a": 4, "b": 6, "c": 5}, ("rows", 12, []), "((qa qb) qc)")
    case.streams = {name: t.set_column(1, "k", t["k"].cast(pa.string())) for name, t in case.streams.items()}
    expected = recompute(case)
    assert expected.num_rows > 100
    check(case, expected, random.Random(1), policy, cuts=3)


def test_rows_go_first_where_most_drop_out() -> None:
    """Keys of c are rarely those of a and b, which meet each other often: the plan goes to c last."""
    case = keyed_case(3000, {"a": 20, "b": 20, "c": 20_000}, ("rows", 100, []), "((qa qb) qc)")
    plan, selectivity, ticket = (pairs_tested(case, policy) for policy in POLICIES)
    assert 3 * selectivity < plan
    assert ticket < plan


@pytest.mark.parametrize("window", [("range", 50_000, []), ("rows", 50, []), ("rows", 2, ["k"])])
def test_rows_leave_the_stems_with_their_windows(
    window: tuple[str, int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbering, "SLICE_ROWS", 100)
    case = keyed_case(6000, {"a": 25, "b": 25}, window, "(qa qb)")
    plan = plan_of(case)
    runtime = DirectRun(plan)
    runtime.pipelines[0].execution = build_eddy(plan, runtime.pipelines[0].sources)
    most = 0
    for rows in rows_between(case, runtime, [*range(0, 6_000_000, 200_000), 2**60]):
        for _ in runtime.on_rows(rows):
            most = max(most, runtime.size().tuples)
    assert most <= 2 * 2 * (50 + 100)


def test_a_route_names_every_alias_once() -> None:
    case = keyed_case(1, {"a": 1, "b": 1}, ("rows", 1, []), "(qa qb)")
    plan = plan_of(case)
    pipeline = DirectRun(plan).pipelines[0]
    running = build_eddy(plan, pipeline.sources)
    for order in (["qa"], ["qa", "qa"], ["qa", "qb", "qc"]):
        with pytest.raises(PlanError, match="each alias of the query once"):
            running.reroute(order)
    assert running.reroutes == 0
    with pytest.raises(PlanError, match="no routing policy 'random', only: plan, selectivity, ticket"):
        build_eddy(plan, pipeline.sources, "random")
