"""Drawn joins over skewed streams: rates, windows, keys and filters differ by stream, so that orders differ in cost."""

import random
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

import midstream as ms

SECONDS = 20


@dataclass(frozen=True)
class Skewed:
    """A query and its streams."""

    sql: str
    streams: dict[str, pa.Table]

    def engine(self) -> ms.Engine:
        """Return an engine that knows the streams."""
        engine = ms.Engine()
        for name, rows in self.streams.items():
            engine.stream(name, rows, time="ts")
        return engine


def draw_skewed(seed: int) -> Skewed:
    """Draw three to five streams that are joined in a chain, a star or on one key, some of them filtered."""
    rnd, numbers = random.Random(seed), np.random.default_rng(seed)
    names = list("abcde")[: rnd.randint(3, 5)]
    streams, windows = {}, {}
    for name in names:
        count = rnd.choice([300, 1000, 3000])
        times = np.sort(numbers.integers(0, SECONDS * 1_000_000, count))
        columns = {c: _keys(rnd, numbers, count) for c in ("k", "l")}
        streams[name] = pa.table({"ts": times, **columns, "v": numbers.integers(0, 100, count)})
        windows[name] = rnd.choice(["RANGE 1 SECONDS", "RANGE 2 SECONDS", "RANGE 4 SECONDS", "ROWS 50", "ROWS 150"])
    shape = rnd.choice(["chain", "star", "one key"])
    where = []
    for before, name in pairwise(names):
        if shape == "chain":
            where.append(f"{before}.l = {name}.k")
        else:
            where.append(f"{names[0]}.{'k' if shape == 'one key' else rnd.choice('kl')} = {name}.k")
    where += [f"{name}.v < {rnd.choice([5, 30, 80])}" for name in names if rnd.random() < 0.4]
    if rnd.random() < 0.3:
        a, b = rnd.sample(names, 2)
        where.append(f"{a}.v {rnd.choice(['<', '>'])} {b}.v")
    sources = ", ".join(f"{name} [{windows[name]}]" for name in names)
    outputs = ", ".join(f"{name}.v AS {name}" for name in names)
    return Skewed(f"SELECT {outputs} FROM {sources} WHERE {' AND '.join(where)}", streams)


def _keys(rnd: random.Random, numbers: np.random.Generator, count: int) -> np.ndarray:
    """Draw keys: evenly spread, or a few of them most of the time."""
    values = rnd.choice([20, 100, 500])
    if rnd.random() < 0.5:
        return numbers.integers(0, values, count)
    weights = 1 / np.arange(1, values + 1) ** rnd.choice([0.7, 1.0, 1.3])
    return numbers.choice(values, count, p=weights / weights.sum())
