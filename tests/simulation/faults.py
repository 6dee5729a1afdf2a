"""Faults: what is drawn to befall a run."""

import random
from dataclasses import replace

from simulation.machine import Fault
from simulation.scripts import Script, draw_script
from simulation.simulation import Case
from simulation.wider import is_wide, retimed, widened

KINDS = {
    "kill": 5, "kill driver": 5, "power cut": 4, "disk full": 2, "clock": 2, "memory lost": 2, "memory full": 1,
    "second driver": 2, "freeze": 2, "linger": 3, "task twice": 3, "stale listing": 2,
}  # fmt: skip
"""What happens, and how often. The process that takes a step is killed, be it a driver's, a task's or a user's."""
PER_BATCH = 70
"""About how many changes a micro-batch makes."""
HOUR_S = 3600
WITH_ANSWERS = (51, 70, 117)
"""Seeds of short scripts whose results are one answer, kept up to date or replaced."""


def draw_case(seed: int, script: Script) -> Case:
    """Draw the faults of a seed."""
    rnd = random.Random(f"faults {seed}")
    last = 60 + PER_BATCH * (len(script.batches) + 3)
    count = rnd.choice([1, 1, 2, 3, 4, 6, 10])
    kinds = rnd.choices(list(KINDS), list(KINDS.values()), k=count)
    faults = []
    at = 0
    for what in kinds:
        at = rnd.randrange(1, last) if rnd.random() < 0.7 else at + rnd.randint(1, 30)
        size = 0
        if what == "disk full":
            size = rnd.choice([1, 3, 20, 100])
        elif what == "clock":
            size = rnd.choice([-1, -1, 1]) * rnd.choice([1, 60, HOUR_S, 30 * 24 * HOUR_S])
        faults.append(Fault(at, what, size))
    return Case(seed, script, tuple(sorted(faults)), rnd.choice([0.0, 0.05, 0.2, 0.5]))


def two_drivers_of(seed: int) -> Case:
    """Return a case in which drivers are stopped, lose their locks, and go on while the next ones begin."""
    rnd = random.Random(f"two drivers {seed}")
    script = draw_script(seed)
    at = rnd.randrange(25, 60 + PER_BATCH * len(script.batches))
    faults = [Fault(at, "freeze")]
    for _ in range(rnd.choice([0, 1, 1, 2])):
        at += rnd.randint(1, 60)
        faults.append(Fault(at, "freeze"))
    if rnd.random() < 0.5:
        faults.append(Fault(at + rnd.randint(1, 120), rnd.choice(["kill driver", "kill driver", "kill", "power cut"])))
    return Case(seed, script, tuple(faults), rnd.choice([0.05, 0.2, 0.5, 0.5]))


def answers_of(seed: int) -> Case:
    """Return a case in which a driver is stopped while it replaces an answer, and goes on after the next has begun."""
    rnd = random.Random(f"answers {seed}")
    script = draw_script(WITH_ANSWERS[seed % len(WITH_ANSWERS)])
    faults = [Fault(rnd.randrange(30, PER_BATCH * len(script.batches)), "freeze at answer")]
    return Case(seed, script, tuple(faults), rnd.choice([0.002, 0.006]))


def retimed_of(seed: int) -> Case:
    """Return a case in which whoever starts the query again has changed what is allowed of the times of rows."""
    rnd = random.Random(f"retimed {seed}")
    case = retimed(plain_case_of(seed), rnd)
    last = 60 + PER_BATCH * len(case.script.batches)
    kills = [Fault(rnd.randrange(25, last), rnd.choice(["kill driver", "kill driver", "power cut"])) for _ in range(3)]
    return replace(case, faults=tuple(sorted((*case.faults, *kills))))


def case_of(seed: int) -> Case:
    """Return the case of a seed."""
    return widened(plain_case_of(seed)) if is_wide(seed) else plain_case_of(seed)


def plain_case_of(seed: int) -> Case:
    """Return the case of a seed without what is drawn for every other one besides."""
    return draw_case(seed, draw_script(seed))
