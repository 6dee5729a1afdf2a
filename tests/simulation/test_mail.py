"""Mail between buckets on a simulated machine: whatever befalls a run, each message comes once, in its micro-batch."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from engine.mail_toy import toy

from midstream.engine.world import Data, World
from midstream.live import mailbox
from midstream.live.mailbox import Mailbox, MailWriter
from seeds import chosen, seeds
from simulation.faults import case_of, plain_case_of, two_drivers_of
from simulation.scripts import JOIN, KINDS
from simulation.shrink import failure_of
from simulation.simulation import Case, simulate
from simulation.test_simulation import crash_at_every_step

JOINS = [seed for seed in range(720) if KINDS[seed % len(KINDS)] == JOIN]
WITHIN = 30
STRIDE = 96


@pytest.fixture(autouse=True)
def _toy() -> Iterator[None]:
    with toy():
        yield


def with_mail(case: Case) -> Case:
    return replace(case, script=replace(case.script, framework="toy", tables={}))


@pytest.mark.parametrize("place", seeds(0, len(JOINS), quick=2))
def test_each_message_comes_once(place: int) -> None:
    simulate(with_mail(case_of(JOINS[place])))


@pytest.mark.slow
@pytest.mark.parametrize("place", seeds(0, len(JOINS) // 2))
def test_drivers_that_lose_their_locks_and_go_on(place: int) -> None:
    simulate(with_mail(two_drivers_of(JOINS[place])))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["kill", "power cut"])
def test_a_crash_at_each_step(what: str) -> None:
    """Of every so many steps one, another one from commit to commit."""
    script = with_mail(plain_case_of(6)).script
    crash_at_every_step(replace(script, actions=()), what, STRIDE, chosen())


def removed_too_early() -> Any:
    """Mail is removed when the next micro-batch has written its own, which may be run again."""
    return mock.patch.object(mailbox, "KEPT", 1)


def newest_is_read() -> Any:
    """What is read is the newest mail there is, and not that of the micro-batch before."""
    read = Mailbox.read

    def newest(self: Mailbox, batch: int, to: int) -> object:
        numbers = MailWriter(self)._found()
        return read(self, max(numbers) + 1 if numbers else 0, to)

    return mock.patch.object(Mailbox, "read", newest)


def not_lasting() -> Any:
    """Mail may be undone by a power cut after the commit."""
    put = World.put

    def undone(self: World, file: Path, data: Data, lasting: bool = True, **more: Any) -> None:
        put(self, file, data, lasting and file.parent.name != "mail", **more)

    return mock.patch.object(World, "put", undone)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [removed_too_early, newest_is_read, not_lasting])
def test_a_mutant_is_found(mutant: object) -> None:
    with mutant():  # type: ignore[operator]
        found = next((seed for seed in JOINS[:WITHIN] if failure_of(with_mail(case_of(seed)))), None)
    assert found is not None
    assert failure_of(with_mail(case_of(found))) is None, "it is the mutant that fails"
