"""The live path on a simulated machine, under one seed each: whatever befalls it, it leaves what it would have left."""

from dataclasses import replace

import pytest

from seeds import seeds
from simulation.faults import case_of, two_drivers_of
from simulation.machine import Fault
from simulation.simulation import Case, Simulation, simulate

KEPT = [12, 23, 28, 51, 62, 68, 85, 88, 164, 207, 310, 456, 812, 841, 1342, 5162, 5168, 7041, 7084, 7087, 7243]
"""Seeds that found something: folders that were not synced (12), two drivers that begin at once (23), a kept table of
two versions (28, 51), a change noted by every run (68), rows counted twice behind a full disk (88), a status left by a
driver that was behind (310), a bucket that had drained its part and went further than others (1342), what buckets bring
while a change waits for its position (5168), a version that starts again after it was over (7041), a driver that missed
what another one wrote last (7087), a driver that planned after another run had begun (7243); and what was wrong with
the simulation itself."""
BROKEN: dict[int, str] = {}
"""What is known and not mended yet."""
SEEDS, QUICK = 1600, 3
TWO_DRIVERS = [2, 12, 17, 21, 405]
"""Seeds that found something: a micro-batch that was of one run for a driver and of another run for the next (17, 21),
a driver that took the next number where another one had taken its own (2, 12, 405)."""


@pytest.mark.parametrize("seed", seeds(0, SEEDS, quick=QUICK, kept=KEPT, broken=BROKEN))
def test_nothing_is_lost(seed: int) -> None:
    _simulate(case_of(seed), f"--seeds {seed}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(0, 400, kept=TWO_DRIVERS))
def test_drivers_that_lose_their_locks_and_go_on(seed: int) -> None:
    _simulate(two_drivers_of(seed), f"--two-drivers --seeds {seed}")


def _simulate(case: Case, arguments: str) -> None:
    try:
        simulate(case)
    except BaseException as failure:
        failure.add_note(f"smaller: PYTHONPATH=tests:. python -m simulation {arguments}\n{case}")
        raise


def test_one_seed_is_one_run() -> None:
    traces = {simulate(case_of(7))[0] for _ in range(2)}
    assert len(traces) == 1


@pytest.mark.slow
@pytest.mark.parametrize("what", ["kill", "power cut"])
def test_a_crash_at_every_step(what: str) -> None:
    """One small run of a join, killed at each change that it makes to the disk."""
    case = case_of(6)
    script = replace(case.script, labels=(4,), actions=(), batches=case.script.batches[-4:], tables={})
    steps = Simulation(Case(case.seed, script)).run().machine.count
    assert steps > 100
    for at in range(1, steps + 1):
        crash = Case(case.seed, script, (Fault(at, what),))
        try:
            simulate(crash)
        except BaseException as failure:
            failure.add_note(str(crash))
            raise
