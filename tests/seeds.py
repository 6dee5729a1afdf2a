"""Seeds of all drawn tests, and which of them a run takes.

A drawn test has three sorts of seeds: some quick ones, which every run takes (`make check` takes no others); those
that failed once, which every run of `make test` takes; and the rest, in PARTS parts, or more, that take turns. The part
of a run goes by the number of commits, so that it is the same for everybody who looks at one commit, and another one at
the next.

    MIDSTREAM_SEEDS=all   every seed (`make test-all`)
    MIDSTREAM_SEEDS=2     that part
"""

import functools
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

PARTS = 8
T = TypeVar("T")
VARIABLE = "MIDSTREAM_SEEDS"


@functools.cache
def chosen() -> int | None:
    """Return whose turn it is, counted without end, or None for all."""
    asked = os.environ.get(VARIABLE, "")
    if asked == "all":
        return None
    if asked:
        return int(asked)
    command = ["git", "rev-list", "--count", "HEAD"]
    counted = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    return int(counted.stdout or 0)


def described() -> str:
    """Say which seeds run, and how to run them again."""
    turn_ = chosen()
    if turn_ is None:
        return "all"
    return f"part {turn_ % PARTS} of {PARTS} ({VARIABLE}={turn_}; all with {VARIABLE}=all)"


def turn(seeds: Iterable[int], part: int | None, parts: int = PARTS) -> list[int]:
    """Return a part of some seeds: neighbours, for what they draw often depends on remainders; all for None.

    >>> turn(range(20), 1), turn(range(20), 15), turn(range(3), None)
    ([2, 3, 4], [17, 18, 19], [0, 1, 2])
    """
    every = list(seeds)
    if part is None:
        return every
    part %= parts
    return every[len(every) * part // parts : len(every) * (part + 1) // parts]


def some(items: Sequence[T], count: int) -> list[T]:
    """Return so many of some items whose turn it is, one after the other: for tests that take long each."""
    part = chosen()
    if part is None:
        return list(items)
    return [items[(part * count + k) % len(items)] for k in range(count)]


def numbers(first: int, count: int, quick: int = 0, kept: Iterable[int] = (), parts: int = PARTS) -> list[int]:
    """Return the seeds of a run: the first `quick` of `count`, those that failed once, and a part of the others."""
    others = turn(range(first + quick, first + count), chosen(), parts)
    return [*range(first, first + quick), *sorted({*kept, *others} - {*range(first, first + quick)})]


def few_quick(cases: Iterable[Any], quick: int = 1) -> list[Any]:
    """Return cases for `parametrize`, all but the first few marked `slow`: where each takes a while."""
    found = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case, marks=[pytest.mark.slow] if k >= quick else []) for k, case in enumerate(found)]


def seeds(
    first: int,
    count: int,
    quick: int = 0,
    kept: Iterable[int] = (),
    broken: Mapping[int, str] | None = None,
    parts: int = PARTS,
) -> list[Any]:
    """Return the same for `parametrize`: all but the quick ones are marked `slow`, which `make check` leaves out.

    `broken` are seeds that show a defect which is known, and what it is: they must fail until it is mended. `parts` is
    more than usual where there are many seeds.
    """
    found = numbers(first, count, quick, kept, parts)
    known = broken or {}
    marks = {n: [pytest.mark.slow] if place >= quick else [] for place, n in enumerate(found)}
    for n in known.keys() & marks.keys():
        marks[n].append(pytest.mark.xfail(strict=True, reason=known[n]))
    return [pytest.param(n, marks=marks[n]) if marks[n] else n for n in found]
