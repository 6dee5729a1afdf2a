"""The simulated processor: what waits, what leaves when, and that nothing is lost on the way."""

import numpy as np
import pytest

from midstream.studies.frame.capacity import schedule


def test_a_fast_processor_delays_nothing() -> None:
    work = schedule([10.0] * 5, speed=100.0)
    assert work.longest_wait_s == pytest.approx(0.1)
    assert work.waiting(np.full(5, 3), 7).tolist() == [3, 3, 3, 3, 3, 0, 0]


def test_what_comes_first_pauses_output_and_is_caught_up() -> None:
    work = schedule([50.0] * 10, speed=100.0, first_cost=400.0)
    left = work.per_second(np.full(10, 7), 20)
    assert left[:4].tolist() == [0, 0, 0, 0]
    assert left[4] == pytest.approx(14), "twice what comes in a second"
    assert left.sum() == pytest.approx(70)
    assert work.through[-1] == pytest.approx(10.5), "it has caught up"


def test_too_slow_a_processor_falls_behind_for_ever() -> None:
    work = schedule([200.0] * 10, speed=100.0)
    waits = work.through - work.arrived
    assert (np.diff(waits) > 0).all()


def test_a_quantity_moves_evenly_while_the_processor_works() -> None:
    work = schedule([100.0, 100.0], speed=50.0)
    assert work.at_end_of(np.array([10, 20]), 0, 5).tolist() == [0, 5, 10, 15, 20]
