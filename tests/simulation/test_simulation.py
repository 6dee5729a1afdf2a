"""The live path on a simulated machine, under one seed each: whatever befalls it, it leaves what it would have left."""

from dataclasses import replace

import pytest

from seeds import chosen, seeds
from simulation.faults import answers_of, case_of, plain_case_of, retimed_of, two_drivers_of
from simulation.machine import Fault
from simulation.scripts import CHANGE, Script
from simulation.simulation import Case, Simulation, simulate
from simulation.wider import is_wide

KEPT = [
    10, 11, 12, 13, 23, 28, 51, 62, 68, 85, 88, 164, 207, 310, 456, 565, 812, 841, 1342, 1352, 1805, 5037, 5162, 5168,
    6784, 7041, 7084, 7087, 7243,
]  # fmt: skip
"""Seeds that found something: folders that were not synced (12), two drivers that begin at once (23), a kept table of
two versions (28, 51), a change noted by every run (68), rows counted twice behind a full disk (88), a status left by a
driver that was behind (310), a bucket that had drained its part and went further than others (1342), when the last
result had left before a restart (1352, 1805), what buckets bring while a change waits for its position (5168), the plan
of a version that ended in a micro-batch (5037), a run stopped while too many rows wait (6784), a
version that starts again after it was over (7041), a driver that missed what another one wrote last (7087), a driver
that planned after another run had begun (7243), a version forgotten that waits for its position (10, 13), files of
workers that are not listed (11), the file of a version that a bucket still remembers (565); and what was wrong with the
simulation itself."""
BROKEN: dict[int, str] = {}
"""What is known and not mended yet."""
SEEDS, QUICK = 1600, 3
TWO_DRIVERS = [2, 12, 17, 21, 405]
"""Seeds that found something: a micro-batch that was of one run for a driver and of another run for the next (17, 21),
a driver that took the next number where another one had taken its own (2, 12, 405)."""
ANSWERS = [1, 54]
"""Seeds that found something: a kept table that a driver put back which had lost its lock, and rows of it lost."""
RETIMED = [0, 2, 6, 7, 11, 118, 159]
"""Seeds that found something, where a run that was started with another lateness, `idle` or `ahead` ran a micro-batch
again: results too many (0), lost (2), refused (7, 11), rows late that were not (6);
a table of the merger that was cut when it was written again (118), a control row that went unread (159)."""
SMALL = {"a change": 13, "an aggregate": 25, "hops": 16}
"""Seeds of small runs with changes, each of another kind of query."""
STRIDE = 12
"""Of the steps of those so many take turns."""


@pytest.mark.parametrize("seed", seeds(0, SEEDS, quick=QUICK, kept=KEPT, broken=BROKEN))
def test_nothing_is_lost(seed: int) -> None:
    _simulate(case_of(seed), f"--seeds {seed}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(0, 400, kept=TWO_DRIVERS))
def test_drivers_that_lose_their_locks_and_go_on(seed: int) -> None:
    _simulate(two_drivers_of(seed), f"--two-drivers --seeds {seed}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(0, 160, kept=ANSWERS))
def test_answers_are_not_replaced_by_drivers_that_are_behind(seed: int) -> None:
    simulate(answers_of(seed))


@pytest.mark.parametrize("seed", seeds(0, 400, quick=1, kept=RETIMED))
def test_a_micro_batch_is_judged_as_the_run_did_that_planned_it(seed: int) -> None:
    _simulate(retimed_of(seed), f"--retimed --seeds {seed}")


def _simulate(case: Case, arguments: str) -> None:
    try:
        simulate(case)
    except BaseException as failure:
        failure.add_note(f"smaller: PYTHONPATH=tests:. python -m simulation {arguments}\n{case}")
        raise


@pytest.mark.slow
@pytest.mark.parametrize("seed", [seed for seed in KEPT if is_wide(seed) and seed > 13])
def test_nothing_is_lost_as_it_was_drawn_then(seed: int) -> None:
    simulate(plain_case_of(seed))


def test_one_seed_is_one_run() -> None:
    traces = {simulate(case_of(7))[0] for _ in range(2)}
    assert len(traces) == 1


@pytest.mark.slow
@pytest.mark.parametrize("what", ["kill", "power cut"])
def test_a_crash_at_every_step(what: str) -> None:
    """One small run of a join, killed at each change that it makes to the disk."""
    script = replace(plain_case_of(6).script, labels=(4,), actions=())
    crash_at_every_step(script, what)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["kill", "power cut"])
@pytest.mark.parametrize("name", SMALL)
def test_a_crash_at_steps_of_a_run_with_changes(name: str, what: str) -> None:
    """Of every so many steps one, another one from commit to commit."""
    script = plain_case_of(SMALL[name]).script
    asked = tuple(replace(action, batch=min(action.batch, 2)) for action in script.actions if action.what == CHANGE)
    assert asked
    crash_at_every_step(replace(script, labels=script.labels[:1], actions=asked), what, STRIDE, chosen())


def crash_at_every_step(script: Script, what: str, stride: int = 1, turn: int | None = None) -> None:
    """Run the last micro-batches of a script with a fault at each step, or at some of them."""
    script = replace(script, batches=script.batches[-4:], tables={})
    steps = Simulation(Case(6, script)).run().machine.count
    assert steps > 100
    for at in range(1, steps + 1) if turn is None else range(1 + turn % stride, steps + 1, stride):
        crash = Case(6, script, (Fault(at, what),))
        try:
            simulate(crash)
        except BaseException as failure:
            failure.add_note(str(crash))
            raise
