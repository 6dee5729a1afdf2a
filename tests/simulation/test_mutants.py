"""A mend that is taken back is found by the simulation within 500 seeds."""

from collections.abc import Callable

import pytest

from simulation.faults import answers_of, case_of, plain_case_of, retimed_of, two_drivers_of
from simulation.mutants import MUTANTS, PLAIN, RETIMED, WITH_ANSWERS, WITH_TWO_DRIVERS, Mutant
from simulation.shrink import failure_of
from simulation.simulation import Case

WITHIN = 500


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str) -> None:
    _find(MUTANTS[name], case_of)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_TWO_DRIVERS)
def test_a_mutant_is_found_where_there_are_two_drivers(name: str) -> None:
    _find(WITH_TWO_DRIVERS[name], two_drivers_of)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_ANSWERS)
def test_a_mutant_is_found_where_answers_are_replaced(name: str) -> None:
    _find(WITH_ANSWERS[name], answers_of)


@pytest.mark.slow
@pytest.mark.parametrize("name", RETIMED)
def test_a_mutant_is_found_where_runs_allow_other_times(name: str) -> None:
    _find(RETIMED[name], retimed_of)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN)
def test_a_mutant_is_found_where_there_is_nothing_else(name: str) -> None:
    _find(PLAIN[name], plain_case_of)


def _find(mutant: Mutant, case: Callable[[int], Case]) -> None:
    with mutant():
        found = next((seed for seed in range(WITHIN) if failure_of(case(seed))), None)
    assert found is not None
    assert failure_of(case(found)) is None, "it is the mutant that fails"
