"""A hopping query that goes on with other plans, modes and hops while it runs answers as if nothing had happened."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from midstream.operators.hopping import build_execution
from oracle.hop_generate import draw_case
from oracle.hop_queries import HopCase
from oracle.hop_recompute import recompute
from oracle.test_hopping import check, draw_batch, draw_modes, parsed
from seeds import seeds


def draw_answering(rnd: random.Random) -> HopCase:
    """Draw a case that has a hop."""
    return next(case for case in (draw_case(rnd) for _ in range(100)) if case.hops)


def draw_migration(rnd: random.Random, case: HopCase, at_us: int) -> list[str]:
    """Write a migration to other modes, another shape, another working, or several of them."""
    lines = ["[[at]]", f"time = {at_us}"]
    if rnd.random() < 0.4:
        modes = ",".join(draw_modes(rnd, parsed(case).root, case.emit))
        lines += ['migrate = "as-written"', f'modes = "{modes}"']
    else:
        lines.append(f'migrate = "{rnd.choice(["as-written", "push-down", "optimal"])}"')
        if rnd.random() < 0.7:
            lines.append(f'modes = "{rnd.choice(["auto", "delta", "complete"])}"')
    if rnd.random() < 0.3:
        lines.append(f'working = "{rnd.choice(["window", "tuple"])}"')
    return lines


@pytest.mark.parametrize("seed", seeds(0, 200, quick=2))
def test_migrations_at_any_time_change_no_answer(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(4_100_000 + seed)
    case = draw_batch(rnd, draw_answering(rnd))
    expected = recompute(case)
    first, last = case.hops[0] - case.hop_us, case.hops[-1] + case.hop_us
    times = sorted(rnd.randint(first, last) for _ in range(rnd.randint(1, 4)))
    more = [line for at_us in times for line in draw_migration(rnd, case, at_us)]
    modes = ",".join(draw_modes(rnd, parsed(case).root, case.emit))
    check(case, expected, tmp_path, modes, rnd.choice(["window", "tuple"]), "as-written", more)


@pytest.mark.parametrize("seed", seeds(0, 60, quick=2))
def test_another_hop_answers_at_its_multiples_from_there_on(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(4_200_000 + seed)
    case = draw_answering(rnd)
    hop_us = max(1, rnd.choice([case.hop_us // 2, case.hop_us * 2, case.hop_us * 3, case.hop_us - 1]))
    at_us = rnd.randint(case.hops[0] - case.hop_us, case.hops[-1])
    whole = replace(case, emit="complete", silent=False)
    # It takes effect after the first hop from there on; before any answer at once.
    switch = next((hop for hop in case.hops if hop >= at_us), None)
    before = [a for a in recompute(whole) if switch is None or a[0] <= switch]
    after = [] if switch is None else [a for a in recompute(replace(whole, hop_us=hop_us)) if a[0] > switch]
    answers = [*before, *after]
    if case.emit == "delta":
        answers = as_deltas(answers)
    more = ["[[at]]", f"time = {at_us}", 'migrate = "same"', f'hop = "{hop_us} microseconds"']
    check(case, answers, tmp_path, None, None, None, more)


def as_deltas(answers: list[tuple[int, Counter]]) -> list[tuple[int, Counter]]:
    """Return answers as differences to those before, signs after the rows."""
    told, last = [], Counter()
    for hop, answer in answers:
        change = Counter({(*row, 1): n for row, n in (answer - last).items()})
        change.update({(*row, -1): n for row, n in (last - answer).items()})
        told.append((hop, change))
        last = answer
    return told


@pytest.mark.parametrize("seed", seeds(0, 60, quick=2))
def test_a_query_that_adapts_answers_the_same(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(4_300_000 + seed)
    case = draw_batch(rnd, draw_case(rnd, rows=200))
    modes = rnd.choice(["delta", "complete"])
    check(
        case, recompute(case), tmp_path, modes, "window", "as-written", [f'adapt = "{rnd.choice(["modes", "plan"])}"']
    )


@pytest.mark.parametrize("seed", seeds(0, 80, quick=2))
def test_forgetting_strings_changes_no_answer(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strings are numbered anew as soon as one more was seen than twice those in the windows."""
    monkeypatch.setattr(build_execution, "SLACK", 0)
    rnd = random.Random(4_400_000 + seed)
    case = draw_batch(rnd, draw_answering(rnd))
    modes = ",".join(draw_modes(rnd, parsed(case).root, case.emit))
    check(case, recompute(case), tmp_path, modes, rnd.choice(["window", "tuple"]), "as-written")
