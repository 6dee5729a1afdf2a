"""What it costs to follow the rates of streams, in the set-up of Fig. 4 and 5, counted on the simulated network."""

import pytest

from benchmarks.sites import changes_of_one_stream
from midstream.sites.packet import GLOBAL_READY, LOCAL_READY

RISES_AND_FALLS_US = 5_600_000
"""The rate rises once and falls once."""


@pytest.mark.parametrize("count", [4, pytest.param(8, marks=pytest.mark.slow)])
def test_a_plan_that_follows_a_rate_that_has_risen_costs_less(count: int) -> None:
    found = changes_of_one_stream(count, RISES_AND_FALLS_US, seed=1)
    costs = {update: phases[1] for update, phases in found["cost_by_phase"].items()}
    assert max(costs["centralized"], costs["distributed"]) < costs["off"], "copies of windows included"
    assert all(mean < found["mean_cost"]["off"] for update, mean in found["mean_cost"].items() if update != "off")
    for update, phases in found["messages_by_phase"].items():
        for said in phases[1:3]:
            assert said[LOCAL_READY] + said[GLOBAL_READY] == 2 * count * (count - 1), update
            assert update == "distributed" or said["modification"] == count
    assert all(1 < ratio < 2.7 for ratio in found["overhead_ratio"][:2]), "the paper has 1.4 to 2.7"
