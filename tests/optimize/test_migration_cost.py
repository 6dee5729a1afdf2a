"""What a migration takes, by strategy: predictions are near what is counted, and put strategies in the right order."""

from itertools import combinations

import pytest
from optimize.drawn_migrations import Drawn, Measured, draw_migration

from midstream.migrate.request import HYBRID, JUST_IN_TIME, MOVING_STATE, OF_JOINS
from midstream.optimize.cheapest_strategy import Wishes, cheapest_strategy
from midstream.optimize.migration_cost import forecast
from seeds import numbers

NEAR = 1.5
"""Factor within which a count is to be of its prediction."""
NEAR_EVALUATIONS, NEAR_ENTRIES, RANKED = 0.9, 0.7, 0.95
"""The part of all counts that are to be near, and of pairs of strategies, 20 % or more apart, in the right order."""
APART = 1.2
FEW = 200
"""So many more or fewer are nothing: chance decides."""


def near(predicted: float, counted: float) -> bool:
    return 1 / NEAR < (predicted + FEW) / (counted + FEW) < NEAR


def in_order(one: Measured, other: Measured) -> bool | None:
    """Tell whether two strategies are in the right order; None: they take about the same."""
    low, high = sorted((one.evaluations + FEW, other.evaluations + FEW))
    if high < APART * low:
        return None
    return (one.predicted.evaluations < other.predicted.evaluations) == (one.evaluations < other.evaluations)


def check(measured: list[list[Measured]]) -> None:
    every = [m for each in measured for m in each]
    evaluations = [near(m.predicted.evaluations, m.evaluations) for m in every]
    entries = [near(m.predicted.entries, m.entries) for m in every if m.entries or m.predicted.entries]
    orders = [o for each in measured for pair in combinations(each, 2) if (o := in_order(*pair)) is not None]
    said = f"{sum(evaluations)} of {len(evaluations)}, {sum(entries)} of {len(entries)}, {sum(orders)} of {len(orders)}"
    assert sum(evaluations) >= NEAR_EVALUATIONS * len(evaluations), said
    assert sum(entries) >= NEAR_ENTRIES * len(entries), said
    assert sum(orders) >= RANKED * len(orders), said


def test_a_few_migrations_take_about_what_was_predicted() -> None:
    check([draw_migration(seed).measured() for seed in (1, 2, 5)])


@pytest.mark.slow
def test_migrations_take_about_what_was_predicted() -> None:
    check([draw_migration(seed).measured() for seed in numbers(0, 200)])


def drawn_with(missing: bool) -> Drawn:
    return next(d for seed in range(1, 50) if bool((d := draw_migration(seed)).work.missing) is missing)


def test_hybrid_takes_less_than_parallel_track() -> None:
    """The old plan does only what lies in a region, the new one what it can: neither of them all of its work."""
    for seed in range(4):
        work = draw_migration(seed).work
        assert work.of(HYBRID).evaluations <= 1.001 * (work.old_alone + work.new_alone)
        if not work.missing:
            assert work.of(HYBRID).evaluations == pytest.approx(work.new_alone)
            assert work.of(JUST_IN_TIME).entries == work.of(MOVING_STATE).at_once == 0


def test_the_choice_says_why_and_keeps_to_wishes() -> None:
    drawn = drawn_with(missing=True)
    statistics = drawn.statistics
    able = tuple(OF_JOINS)

    def chosen(wishes: Wishes) -> tuple[str, tuple[str, ...]]:
        found = cheapest_strategy(drawn.running, drawn.target, statistics, able, wishes)
        assert found is not None
        assert found.predicted == drawn.work.of(found.strategy)
        assert found.reasons[0].startswith(f"{found.strategy}: ")
        assert sorted(r.split(":")[0] for r in found.reasons) == sorted(able)
        return found.strategy, found.reasons

    strategy, reasons = chosen(Wishes())
    costs = {s: drawn.work.of(s).evaluations + drawn.work.of(s).entries for s in able}
    assert strategy == min(costs, key=lambda s: costs[s])
    assert "least work" in reasons[0]
    strategy, reasons = chosen(Wishes(latency_s=0.0))
    assert drawn.work.of(strategy).at_once == 0
    assert any("that output may pause" in r for r in reasons if r.startswith(MOVING_STATE))
    held = sorted({round(drawn.work.of(s).held, 3) for s in able})
    if len(held) > 1:
        strategy, reasons = chosen(Wishes(most_entries=held[0]))
        assert drawn.work.of(strategy).held <= held[0] + 0.001
    # Nothing is possible: what pauses the least, and it says so.
    strategy, reasons = chosen(Wishes(most_entries=0))
    assert drawn.work.of(strategy).at_once == 0
    assert "none is within" in reasons[0]
    strategy, reasons = chosen(Wishes(spare_per_s=1.0))
    for reason in reasons[1:]:
        done = drawn.work.of(reason.split(":")[0])
        assert ("there is time for" in reason) == (
            done.evaluations - done.at_once - drawn.work.new_alone > drawn.work.lasts_s
        )


def test_what_is_not_known_is_not_chosen_by() -> None:
    drawn = drawn_with(missing=True)
    statistics = drawn.statistics
    statistics.window_rows.pop("a")
    assert cheapest_strategy(drawn.running, drawn.target, statistics, tuple(OF_JOINS)) is None
    found = forecast(drawn.running, drawn.target, statistics, MOVING_STATE, 1000)
    assert {s.in_all for s in found.strategies} == {None}


def test_states_that_are_there_are_only_moved() -> None:
    drawn = drawn_with(missing=False)
    found = cheapest_strategy(drawn.running, drawn.target, drawn.statistics, tuple(OF_JOINS))
    assert found is not None
    assert (found.strategy, found.extra) == (MOVING_STATE, 0.0)
    assert "only moved" in found.reasons[0]
