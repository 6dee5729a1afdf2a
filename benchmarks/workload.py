"""Generated streams: a steady rate of rows with a key, a payload and a little noise in time."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.engine.rows.rows import Rows
from midstream.lang.sql import parse_query
from midstream.local.replay import make_plan
from midstream.model.stream import StreamSchema
from midstream.plan.plan import Plan

SECOND_US = 1_000_000
ROWS_PER_SECOND = 10_000
"""Rows of each stream in a second of event time, unless a workload says otherwise."""


@dataclass(frozen=True)
class Workload:
    """What is generated and what is asked of it."""

    streams: int
    sql: str
    rows_per_second: int = field(default_factory=lambda: ROWS_PER_SECOND)
    window_s: int = 10
    keys: int = 100_000
    zipf: float = 0.0
    """Exponent of the first stream's key distribution; 0 is uniform. The other streams are uniform."""
    key_type: str = "int64"
    payload_below: int = 1_000_000_000
    plan: str | None = None
    join: str = "auto"

    @property
    def names(self) -> str:
        return "abcdefgh"[: self.streams]

    def parameters(self) -> dict[str, Any]:
        return asdict(self)

    def schema(self) -> pa.Schema:
        return pa.schema([("ts", pa.int64()), ("k", pa.type_for_alias(self.key_type)), ("v", pa.int64())])

    def planned(self) -> Plan:
        catalog = [StreamSchema(name, self.schema(), "ts") for name in self.names]
        return make_plan(parse_query(self.sql, catalog), self.plan, self.join)

    def batches(self, seconds: int, seed: int) -> Iterator[dict[str, Rows]]:
        """Yield one second of event time after the other."""
        rng = np.random.default_rng(seed)
        n = self.rows_per_second
        for second in range(seconds):
            rows = {}
            for place, name in enumerate(self.names):
                times = second * SECOND_US + np.sort(rng.integers(0, SECOND_US, n))
                keys = self._keys(rng, n, first=place == 0)
                columns = {"k": keys, "v": pa.array(rng.integers(0, self.payload_below, n))}
                rows[name] = Rows(times, np.arange(second * n, (second + 1) * n), columns)
            yield rows

    def _keys(self, rng: np.random.Generator, n: int, first: bool) -> pa.Array:
        if self.zipf and first:
            weights = 1.0 / np.arange(1, self.keys + 1) ** self.zipf
            keys = np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(n))
        else:
            keys = rng.integers(0, self.keys, n)
        if self.key_type == "string":
            return pa.array(np.char.add("customer-", keys.astype("U8")))
        return pa.array(keys)


def equi_join(streams: int, window_s: int = 10) -> str:
    """Write the n-way join of streams a, b, ... on their key, one payload column each."""
    names = "abcdefgh"[:streams]
    outputs = ", ".join(f"{x}.v AS v_{x}" for x in names)
    sources = ", ".join(f"{x} [RANGE {window_s} SECONDS]" for x in names)
    keys = " AND ".join(f"{x}.k = {y}.k" for x, y in pairwise(names))
    return f"SELECT {outputs} FROM {sources} WHERE {keys}"
