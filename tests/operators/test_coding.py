"""Codes of hopping queries: equal exactly when the values are, and found without going over those known before."""

import random
import tracemalloc
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from midstream.operators.hopping.coding import Coding
from seeds import seeds

TEXTS = ["", "a", "b", "ab", "ba", "12345678", "123456789", "1234567890123456", "\0", "ä", "x" * 40]
DECIMALS = [Decimal("0.00"), Decimal("-0.01"), Decimal("0.01"), Decimal(2**60), Decimal(-(2**60)), Decimal(10**30)]


def draw_values(rnd: random.Random, t: pa.DataType) -> list[Any]:
    """Draw values, many of them equal, some NULL."""
    if not pa.types.is_string(t):
        return [rnd.choice([None, *DECIMALS]) for _ in range(rnd.randrange(30))]
    texts = [*TEXTS, *(str(rnd.randrange(2000)) for _ in range(10))]
    return [rnd.choice([None, *texts]) for _ in range(rnd.randrange(60))]


@pytest.mark.parametrize("t", [pa.string(), pa.decimal128(38, 2)], ids=str)
@pytest.mark.parametrize("seed", seeds(0, 60, quick=3))
def test_values_are_equal_when_their_codes_are(seed: int, t: pa.DataType) -> None:
    rnd = random.Random(seed)
    coding, known = Coding(), {}
    for _ in range(rnd.choice([1, 5, 40])):
        values = draw_values(rnd, t)
        start = rnd.randrange(len(values) + 1)
        codes = coding.encode(pa.array(values, t).slice(start))
        for value, code in zip(values[start:], codes.tolist(), strict=True):
            assert known.setdefault(value, code) == code
        assert coding.decode(codes, t).to_pylist() == values[start:]
    assert len(set(known.values())) == len(known)
    every = list(known)
    ranks = coding.ranks(np.array([known[v] for v in every], np.int64), t).tolist()
    in_order = [v for _, v in sorted(zip(ranks, every, strict=True), key=lambda pair: pair[0])]
    # Arrow compares strings by their bytes, and so does Python those of one encoding.
    values = sorted((v for v in every if v is not None), key=lambda v: v.encode() if isinstance(v, str) else v)
    assert in_order == [*([None] if None in known else []), *values]


@pytest.mark.parametrize("seed", seeds(0, 40, quick=3))
def test_ranks_of_texts_are_those_of_their_bytes(seed: int) -> None:
    """Texts begin alike for some words, end in zeros, are long, or come again."""
    rnd = random.Random(910_000 + seed)
    heads = ["", "\0", "https://", "https://example.org/a/b/c/d/e/f/", "ä" * rnd.randrange(9), "x" * rnd.randrange(50)]
    tails = ["", "\0", "\0\0", "a", "ä", *(str(rnd.randrange(50)) for _ in range(5)), "y" * rnd.randrange(40)]
    values = [
        None if rnd.random() < 0.05 else "".join(rnd.choice(heads) for _ in range(rnd.randrange(3))) + rnd.choice(tails)
        for _ in range(rnd.choice([0, 1, 2, 30, 300]))
    ]
    coding = Coding()
    coding.encode(pa.array(["z" * rnd.choice([0, 60])]))
    ranks = coding.ranks(coding.encode(pa.array(values, pa.string())), pa.string())
    places = {v: k for k, v in enumerate(sorted({v for v in values if v is not None}, key=str.encode), 1)}
    assert ranks.tolist() == [places[v] if v is not None else 0 for v in values]


@pytest.mark.parametrize("t", [pa.string(), pa.decimal128(20, 0)], ids=str)
def test_a_few_values_cost_the_same_whatever_is_known(t: pa.DataType) -> None:
    """Memory that is asked for stands for work: copying or hashing what is known anew would ask for as much again."""
    asked = []
    for known in (1000, 100_000):
        coding = Coding()
        coding.encode(pa.array([str(i) for i in range(known)]).cast(t))
        coding.encode(pa.array(["-1", "-2"]).cast(t))  # room is made ahead
        few = pa.array(["-3", "-4", "17", None, "-3"]).cast(t)
        before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
        tracemalloc.start()
        pa.set_memory_pool(pool)
        try:
            coding.decode(coding.encode(few), t)
        finally:
            pa.set_memory_pool(before)
            asked.append(tracemalloc.get_traced_memory()[1] + (pool.max_memory() or 0))
            tracemalloc.stop()
    assert asked[1] < 2 * asked[0] + 10_000
