"""A mend that is taken back is found by the simulation within 500 seeds."""

import pytest

from simulation.faults import case_of
from simulation.mutants import MUTANTS
from simulation.shrink import failure_of

WITHIN = 500


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str) -> None:
    with MUTANTS[name]():
        found = next((seed for seed in range(WITHIN) if failure_of(case_of(seed))), None)
    assert found is not None
    assert failure_of(case_of(found)) is None, "it is the mutant that fails"
