"""Sizes of joins from sketches: near what is there, also where many streams are joined and few rows match."""

import numpy as np
import pytest

from midstream.model.statistics import Sampled, Values
from midstream.optimize.matches import Matches


def sketched(keys: np.ndarray) -> Values:
    codes, counts = np.unique(keys, return_counts=True)
    return Values(float(len(codes)), {}, 1.0, Sampled(codes, counts / len(keys), 1.0))


@pytest.mark.parametrize("rare", [5_000, 5_000_000])
def test_few_results_of_many_streams_are_not_taken_for_many(rare: int) -> None:
    """With five windows of two thousand rows one result is a part of 3e-17 of all combinations."""
    numbers = np.random.default_rng(3)
    keys = [numbers.integers(0, most, 2000) for most in (rare, 2000, 700, 700, 5000)]
    counts = [np.bincount(k[k < 5000], minlength=5000).astype(float) for k in keys]
    matches = Matches({side: sketched(k) for side, k in enumerate(keys)})
    every = matches.parts(list(range(len(keys))))
    for bits in range(1, 1 << len(keys)):
        sides = [s for s in range(len(keys)) if bits >> s & 1]
        if len(sides) < 2:
            continue
        exact = float(np.prod([counts[s] for s in sides], axis=0).sum())
        found = matches.part(sides) * 2000.0 ** len(sides)
        assert found == pytest.approx(max(exact, 0.5), rel=1e-6), sides
        assert every[bits] * 2000.0 ** len(sides) == pytest.approx(found)
