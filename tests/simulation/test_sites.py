"""A join over sites on a simulated machine: whatever befalls it, it leaves what it would have left."""

import random
from dataclasses import replace

import pytest

from midstream.local.sites import DeclaredSites
from seeds import chosen, seeds
from simulation.faults import plain_case_of, two_drivers_of
from simulation.scripts import CHANGE, MIGRATE, REGISTERED, Script
from simulation.simulation import Case, simulate
from simulation.test_mail import JOINS
from simulation.test_simulation import crash_at_every_step

STRIDE = 96
PLACES = ["tokyo", "london", "paris"]


def at_sites(case: Case) -> Case:
    """Let the streams of a case arrive at drawn sites."""
    rnd = random.Random(f"sites {case.seed}")
    at = {schema.name: rnd.choice(PLACES) for schema in case.script.schemas}
    update = rnd.choice(["centralized", "distributed", "off"])
    sites = DeclaredSites(at, rnd.choice([None, "home"]), update, rnd.choice([0.0, 0.1, 1.0]))  # type: ignore[arg-type]
    actions = tuple(a for a in case.script.actions if a.what not in (CHANGE, MIGRATE, REGISTERED))
    script: Script = replace(case.script, sites=sites, actions=actions, tables={})
    return replace(case, script=script)


@pytest.mark.parametrize("place", seeds(0, len(JOINS), quick=1))
def test_nothing_is_lost(place: int) -> None:
    simulate(at_sites(plain_case_of(JOINS[place])))


@pytest.mark.slow
@pytest.mark.parametrize("place", seeds(0, len(JOINS) // 4))
def test_drivers_that_lose_their_locks_and_go_on(place: int) -> None:
    simulate(at_sites(two_drivers_of(JOINS[place])))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["kill", "power cut"])
def test_a_crash_at_each_step(what: str) -> None:
    """Of every so many steps one, another one from commit to commit."""
    crash_at_every_step(replace(at_sites(plain_case_of(6)).script, actions=()), what, STRIDE, chosen())
