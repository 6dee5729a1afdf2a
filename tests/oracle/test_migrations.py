"""Whatever plan a query is migrated to, when, how and how often: its output is that of recomputing from scratch."""

import random

import pytest
from migrate.test_background import BLOCK

from midstream.migrate import completion
from midstream.migrate.hybrid import Hybrid
from midstream.migrate.request import MigrationRequest
from midstream.operators.sliding import backlog, key_index, key_run
from midstream.operators.source import scan
from oracle.generate import draw_case, draw_tree
from oracle.migrations import (
    STRATEGIES,
    check_output,
    draw_case_of_keys,
    draw_dense_case,
    draw_requests,
    plan_of,
    run_with_migrations,
    span_us,
    with_times,
)
from oracle.recompute import recompute
from oracle.test_long_runs import draw_long_case
from seeds import seeds


def check(seed: int, strategies: list[str], kind: str, framework: str = "tree") -> None:
    rnd = random.Random(seed)
    draw = {"long": draw_long_case, "small": draw_case, "dense": draw_dense_case, "keys": draw_case_of_keys}[kind]
    case = with_times(draw(rnd))
    long = kind == "long"
    requests = draw_requests(rnd, case, plan_of(case), strategies)
    step = rnd.choice([1000, 100_000, 1_000_000, 60_000_000])
    span = 61_000_000
    bounds = list(range(step, span, step)) if step >= 100_000 and not long else sorted(
        rnd.randrange(span) for _ in range(rnd.randint(0, 30)))  # fmt: skip
    buckets = rnd.choice([1, 1, 2, 3])
    move = rnd.random() < 0.3
    told = f"seed {seed}: {case.sql} | {case.tree} {case.join} | {requests} | {buckets} {bounds[:9]} {move}"
    got, _ = run_with_migrations(case, [*bounds, 2**60], buckets, requests, move, framework)
    check_output(case, got, recompute(case), requests, told)


@pytest.mark.parametrize("seed", seeds(1000, 60, quick=1))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_strategy(seed: int, strategy: str) -> None:
    check(seed * 10 + STRATEGIES.index(strategy), [strategy], "small" if seed % 2 else "dense")


@pytest.mark.parametrize("seed", seeds(2000, 80, quick=1))
def test_strategies_mixed(seed: int) -> None:
    check(seed, STRATEGIES, "small" if seed % 2 else "dense")


@pytest.mark.parametrize("seed", seeds(3000, 40, quick=1))
def test_long_runs(seed: int) -> None:
    check(seed, STRATEGIES, "long")


@pytest.mark.parametrize("seed", seeds(4000, 30, quick=1))
@pytest.mark.parametrize("framework", ["cacq", "stairs"])
def test_eddies(seed: int, framework: str) -> None:
    check(seed, STRATEGIES, "dense" if seed % 2 else "small", framework)


def cut_small(rnd: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have blocks of a few entries."""
    monkeypatch.setattr(key_index, "ADOPTED", rnd.choice([1, 8, 64]))
    monkeypatch.setattr(completion, "COUNTED", rnd.choice([1, 4, 16]))
    monkeypatch.setattr(completion, "FORGOTTEN", rnd.choice([0, 3]))
    monkeypatch.setattr(scan, "BLOCK", 3)
    monkeypatch.setattr(backlog, "PART", rnd.choice([1, 3, 10]))
    monkeypatch.setattr(key_run, "BUCKET_BITS", rnd.choice([0, 3]))


@pytest.mark.parametrize("seed", seeds(6000, 80, quick=1))
def test_what_is_done_bit_by_bit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are taken over, counted and forgotten over many micro-batches."""
    rnd = random.Random(seed)
    cut_small(rnd, monkeypatch)
    strategies = rnd.choice(
        [["just-in-time"], ["just-in-time", "moving-state"], ["just-in-time", "hybrid"], STRATEGIES]
    )
    check(seed, strategies, rnd.choice(["small", "dense", "dense", "long"]), rnd.choice(["tree", "tree", "stairs"]))


@pytest.mark.parametrize("seed", seeds(7000, 160, quick=1))
def test_states_that_are_asked_by_another_key(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first keys of a backlog are taken at once, the others over many micro-batches, through further migrations."""
    rnd = random.Random(seed)
    cut_small(rnd, monkeypatch)
    one = ["just-in-time"]
    strategies = rnd.choice([one, one, ["just-in-time", "moving-state"], ["just-in-time", "hybrid"], ["auto"]])
    check(seed, strategies, "keys")


@pytest.mark.parametrize("seed", seeds(8000, 16, quick=1))
def test_a_state_that_was_completed_by_another_key(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """(q0 q1) is missing at first, then completed for some keys of q2, then asked by keys of q3."""
    rnd = random.Random(seed)
    cut_small(rnd, monkeypatch)
    while True:
        case = with_times(draw_case_of_keys(rnd))
        if len(case.sources) == 4:
            break
    case.conditions = ["q0.k = q1.k", "q1.j = q2.j", "q0.j = q3.k"]
    case.tree = "((q1 q2) (q0 q3))"
    case.windows = {alias: ("range", 15_000_000, []) for alias in case.windows}
    first = rnd.randrange(4_000_000, 10_000_000)
    times = [first, first + rnd.randrange(500_000, 4_000_000)]
    plans = ["(((q0 q1) q2) q3)", "(((q0 q1) q3) q2)"]
    requests = [
        MigrationRequest.of(plan, "just-in-time", {}, at_us=at_us, identity=plan)
        for plan, at_us in zip(plans, times, strict=True)
    ]
    bounds = [*range(200_000, 21_000_000, 200_000), 2**60]
    got, _ = run_with_migrations(case, bounds, 1, requests, rnd.random() < 0.3)
    check_output(case, got, recompute(case), requests, f"seed {seed}: {case.sql} | {times}")


def keep_to_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail when a step of background computation goes beyond its budget by more than a block."""
    plain = Hybrid.work

    def work(self: Hybrid, now_us: int, seq: int) -> None:
        sources = self.tasks[0].sources
        spent, tuples = sources.predicate_evaluations, self.size().tuples
        plain(self, now_us, seq)
        assert sources.predicate_evaluations - spent <= self.budget + BLOCK
        assert self.size().tuples - tuples <= self.budget + BLOCK

    monkeypatch.setattr(Hybrid, "work", work)


@pytest.mark.parametrize("seed", seeds(5000, 60, quick=1))
def test_background_states_that_take_their_time(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small budgets and small micro-batches: rows arrive between the completion of one state and the next."""
    rnd = random.Random(seed)
    while True:
        case = with_times(draw_dense_case(rnd))
        if len(case.sources) >= 4:
            break
    span = span_us(case)
    options = {"background": True, "budget": rnd.choice([10, 30, 60, 120, 250]), "sharing": rnd.random() < 0.5}
    tree = draw_tree(rnd, [alias for alias, _ in case.sources])
    at_us = rnd.randrange(span // 4, span * 2 // 3)
    request = MigrationRequest.of(tree, "hybrid", options, at_us=at_us, identity="1")
    bounds = [*range(50_000, 21_000_000, 50_000), 2**60]
    keep_to_the_budget(monkeypatch)
    got, _ = run_with_migrations(case, bounds, 1, [request], False)
    check_output(case, got, recompute(case), [request], f"seed {seed}: {case.sql} | {case.tree} | {request}")
