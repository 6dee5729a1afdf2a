"""Which strategy is taken when nobody names one, and when it begins."""

import random
from dataclasses import replace

import pytest
from migrate.test_papers import SECOND, case_of, migrate, plan_of, running

from benchmarks.direct import DirectRun
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import PlanError
from oracle.generate import draw_case
from oracle.migrations import draw_dense_case, draw_requests, run_with_migrations
from oracle.migrations import plan_of as plan_of_case
from seeds import seeds


def test_a_second_migration_nobody_chose_a_strategy_for_begins_like_a_chosen_one() -> None:
    for strategy in (None, "just-in-time"):
        runtime = running(case_of("abcd", keys=20), 3 * SECOND, "(((a b) c) d)")
        migrate(runtime, "(((b c) a) d)", strategy, 3 * SECOND)
        migrate(runtime, "(((b c) d) a)", strategy, 3 * SECOND)
        assert [(r.strategy, r.state) for r in runtime.records()] == [
            ("just-in-time", "superseded"),
            ("just-in-time", "running"),
        ]


def test_states_that_are_incomplete_stay_so_when_nobody_chose_a_strategy() -> None:
    """The second plan has all states of the first, but moving them would complete them at once."""
    runtime = running(case_of("abcd", keys=20), 3 * SECOND, "(((a b) c) d)")
    migrate(runtime, "((b c) (a d))", None, 3 * SECOND)
    migrate(runtime, "((a d) (b c))", None, 3 * SECOND)
    assert [r.strategy for r in runtime.records()] == ["just-in-time", "just-in-time"]
    assert runtime.records()[1].entries_completed == 0


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, "just-in-time"),
        ({"background": False}, "just-in-time"),
        ({"background": True}, "hybrid"),
        ({"budget": 7}, "hybrid"),
        ({"sharing": False}, "hybrid"),
        ({"ordering": "serialized"}, "hybrid"),
        ({"output": "merged"}, "parallel-track"),
        ({"join": "hash"}, "just-in-time"),
    ],
)
def test_options_choose_the_strategy_they_are_for(options: dict[str, object], chosen: str) -> None:
    plan = plan_of(case_of("abc"), "((a b) c)")
    assert MigrationRequest.of("(a (b c))", None, options).checked(plan).strategy == chosen


def test_options_that_no_strategy_has_together_are_refused() -> None:
    plan = plan_of(case_of("abc"), "((a b) c)")
    with pytest.raises(PlanError, match="no strategy has both 'background' and 'output'"):
        MigrationRequest.of("(a (b c))", None, {"background": True, "output": "merged"}).checked(plan)


def test_parallel_track_need_not_wait_after_a_moving_state_that_is_over() -> None:
    runtime = running(case_of("abc"), 3 * SECOND, "((a b) c)")
    migrate(runtime, "(a (b c))", "moving-state", 3 * SECOND)
    migrate(runtime, "((a c) b)", "parallel-track", 3 * SECOND)
    assert [r.state for r in runtime.records()] == ["finished", "running"]


@pytest.mark.parametrize("seed", seeds(7000, 60, quick=2))
def test_a_strategy_nobody_chose_begins_and_ends_as_if_it_had_been_chosen(seed: int) -> None:
    """Drawn: what is recorded of a run with `auto` is what is recorded when the same strategies are named."""
    rnd = random.Random(seed)
    case = (draw_case if seed % 2 else draw_dense_case)(rnd)
    strategies = ["auto", "auto", "just-in-time", "moving-state", "hybrid"]
    requests = draw_requests(rnd, case, plan_of_case(case), strategies)
    bounds = [*sorted(rnd.randrange(20_000_000) for _ in range(rnd.randint(0, 20))), 2**60]
    buckets = rnd.choice([1, 2])
    first = run_with_migrations(case, bounds, buckets, requests, False)[1]
    chosen = {r.identity: r.strategy for r in first.records() if r.strategy != "auto"}
    named = [replace(r, strategy=chosen.get(r.identity, r.strategy)) for r in requests]
    second = run_with_migrations(case, bounds, buckets, named, False)[1]
    assert _recorded(first) == _recorded(second), f"seed {seed}: {case.sql} | {case.tree} | {requests}"


def _recorded(runtime: DirectRun) -> list[tuple[object, ...]]:
    return [
        (r.identity, r.plan, r.state, r.position_us, r.ended_us, r.entries_completed, r.predicate_evaluations)
        for r in runtime.records()
    ]
