"""Sums of floats are the exact sum, rounded once: whatever the order, the pieces, and what was taken off again."""

import math
import random
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest

from midstream.kernels.float_sums import MOST, sum_floats
from midstream.operators.aggregate.functions import AggregateSpec
from midstream.operators.aggregate.held_sums import hold, unite
from midstream.operators.hopping.coding import Coding
from midstream.operators.hopping.totals import Totals
from oracle.float_sums import summed
from seeds import seeds

LARGEST = 1.7976931348623157e308
TIES = [1.0, 2.0**-53, -(2.0**-53), 2.0**-105, 2.0**53, 2.0**53 + 2]
KINDS: dict[str, Callable[[random.Random], float]] = {
    "plain": lambda rnd: rnd.uniform(-1000, 1000),
    "whole": lambda rnd: float(rnd.randint(-(2**53), 2**53)),
    "ties": lambda rnd: rnd.choice(TIES),
    "tiny": lambda rnd: rnd.choice([5e-324, -5e-324, 2.2250738585072014e-308, rnd.uniform(-1e-307, 1e-307)]),
    "huge": lambda rnd: rnd.choice([LARGEST, -LARGEST, 2.0**1023, -(2.0**1023), 2.0**970, 2.0**969, -(2.0**970)]),
    "any": lambda rnd: math.ldexp(rnd.uniform(-1, 1), rnd.randint(-1080, 1024)),
    "zero": lambda rnd: rnd.choice([0.0, -0.0]),
    "special": lambda rnd: rnd.choice([math.inf, -math.inf, math.nan, 1.0, LARGEST]),
}


def same(got: Sequence[float], wanted: Sequence[float]) -> bool:
    return [v.hex() for v in got] == [v.hex() for v in wanted]


def drawn(seed: int) -> list[float]:
    rnd = random.Random(seed)
    kinds = rnd.sample(list(KINDS), rnd.randint(1, 3))
    values = [KINDS[rnd.choice(kinds)](rnd) for _ in range(rnd.choice([0, 1, 2, 5, 40]))]
    # Sums that are all but nothing, of values that are not.
    return values + [-v for v in rnd.sample(values, rnd.randint(0, len(values)))]


def ranges(rnd: random.Random, size: int) -> tuple[list[int], list[int]]:
    """Draw ranges that move forward only."""
    bounds = [sorted((rnd.randint(0, size), rnd.randint(0, size))) for _ in range(20)]
    return sorted(a for a, _ in bounds), sorted(b for _, b in bounds)


@pytest.mark.parametrize("part", seeds(0, 12, quick=2))
def test_sums_are_rounded_once(part: int) -> None:
    for seed in range(100 * part, 100 * part + 100):
        values, rnd = drawn(seed), random.Random(seed)
        starts, ends = (np.array(r, np.int64) for r in ranges(rnd, len(values)))
        wanted = [summed(values[a:b]) for a, b in zip(starts, ends, strict=True)]
        array = np.array(values, np.float64)
        assert same(sum_floats(array, np.empty(0, np.int64), starts, ends), wanted), seed
        if all(map(math.isfinite, values)) and max(map(abs, values), default=0) < 1e300:
            assert same([summed(values)], [math.fsum(values) + 0.0]), seed


@pytest.mark.parametrize("part", seeds(0, 12, quick=2))
def test_sums_that_are_held_are_united_in_any_order(part: int) -> None:
    for seed in range(100 * part, 100 * part + 100):
        values, rnd = drawn(seed), random.Random(seed)
        places = np.arange(len(values), dtype=np.int64)
        sums = hold(np.array(values, np.float64), places, places + 1)
        order = list(range(len(values)))
        while len(order) > 1:  # of neighbours first, then of what they come to
            rnd.shuffle(order)
            sums = sums.take(pa.array(order))
            cuts = np.array(sorted({0, *rnd.sample(order, (len(order) + 1) // 2), len(order)}), np.int64)
            sums, floats = unite(sums, cuts[:-1], cuts[1:])
            order = list(range(len(sums)))
        if values:
            one, floats = unite(sums, np.array([0]), np.array([1]))
            assert same(floats, [summed(values)]), seed
            assert len(one[0]) <= 70
    nothing, _ = unite(hold(np.array([1.0]), np.array([1]), np.array([1])), np.array([0]), np.array([1]))
    assert nothing.to_pylist() == [[]]


@pytest.mark.parametrize("part", seeds(0, 12, quick=2))
def test_what_is_taken_off_leaves_no_trace(part: int) -> None:
    coding = Coding()
    asked = AggregateSpec("sum", "x", pa.float64())
    for seed in range(50 * part, 50 * part + 50):
        values, rnd = drawn(seed), random.Random(seed)
        totals, held = Totals([asked], [0], [pa.float64()]), list[float]()
        for _ in range(12):
            off = bool(held) and rnd.random() < 0.5
            piece = rnd.sample(held if off else values, rnd.randint(0, len(held if off else values)))
            for v in piece:
                held.remove(v) if off else held.append(v)
            codes = np.ascontiguousarray(coding.encode(pa.array(piece, pa.float64())).reshape(-1, 1))
            moved = totals.widen(codes)
            assert moved is None or len(set(moved.tolist())) == len(moved)
            portions = np.zeros((1, totals.width - 1), np.int64)
            one = np.zeros(len(piece), np.int64)
            totals.add(portions, 1, one, np.ones(len(piece), np.int64), codes, coding)
            if rnd.random() < 0.5:
                totals.carry(portions, 1)
            totals.add_portions(np.zeros(1, np.int64), portions, off)
            if rnd.random() < 0.2:
                totals.note_added(MOST)
            (found,) = totals.results(totals.lines[:1].copy(), asked, 0).to_pylist()
            assert (found is None) == (not held)
            assert found is None or same([found], [summed(held)]), (seed, held)


def test_digits_are_few_where_values_are_alike() -> None:
    coding, totals = Coding(), Totals([AggregateSpec("sum", "x", pa.float64())], [0], [pa.float64()])
    totals.widen(coding.encode(pa.array(np.arange(1, 1000) / 7)).reshape(-1, 1))
    assert totals.width <= 10
    totals.widen(coding.encode(pa.array([5e-324, LARGEST])).reshape(-1, 1))
    assert 60 < totals.width < 75
