"""Chain: many streams joined on one key by a left-deep tree of hash joins over windows of rows."""

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.engine.rows.rows import Rows
from midstream.lang.sql import parse_query
from midstream.local.replay import make_plan
from midstream.model.stream import StreamSchema
from midstream.plan.plan import Plan

ROUND_US = 1_000
"""Event time in which every stream has one row."""
UNIFORM, EVEN = "uniform", "even"


@dataclass(frozen=True)
class Chain:
    """What is generated and what is asked of it.

    Keys are drawn either uniformly and independently, or evenly: every window holds every key once, because each
    stream repeats an order of its own. With even keys there is one result per row, however many joins there are. With
    independent ones the results of many joins come in ever rarer, ever larger bursts until none is left: fewer keys
    make the bursts explode, more make the results vanish earlier.
    """

    joins: int
    keys: str = EVEN
    window_rows: int = 10_000
    key_count: int = 10_000
    batch_rows: int = 50_000
    """Rows of all streams in a micro-batch."""

    @property
    def names(self) -> list[str]:
        return [f"s{place}" for place in range(self.joins + 1)]

    @property
    def window_us(self) -> int:
        """Return the event time in which every window is turned over once."""
        return self.window_rows * ROUND_US

    def parameters(self) -> dict[str, Any]:
        return asdict(self)

    def planned(self, tree: str) -> Plan:
        names = self.names
        sources = ", ".join(f"{x} [ROWS {self.window_rows}]" for x in names)
        keys = " AND ".join(f"{x}.k = {y}.k" for x, y in pairwise(names))
        schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
        catalog = [StreamSchema(x, schema, "ts") for x in names]
        return make_plan(parse_query(f"SELECT s0.k AS k FROM {sources} WHERE {keys}", catalog), tree, "hash")

    def old_plan(self) -> str:
        return left_deep(self.names)

    def best_case(self) -> str:
        """Return the plan with the two streams below the last one swapped: one state is new."""
        names = self.names
        return left_deep([*names[:-3], names[-2], names[-3], names[-1]])

    def worst_case(self) -> str:
        """Return the plan in reverse order: all states of more than one stream are new."""
        return left_deep(self.names[::-1])

    def batches(self, windows: int, seed: int) -> list[list[dict[str, Rows]]]:
        """Return the micro-batches of so many windows, each window's apart."""
        rng = np.random.default_rng(seed)
        keys = [self._keys(rng, windows) for _ in self.names]
        return [self._window(keys, window * self.window_rows) for window in range(windows)]

    def _keys(self, rng: np.random.Generator, windows: int) -> npt.NDArray[np.int64]:
        if self.keys == EVEN:
            return np.tile(rng.permutation(self.window_rows), windows)
        return rng.integers(0, self.key_count, windows * self.window_rows)

    def _window(self, keys: list[npt.NDArray[np.int64]], first: int) -> list[dict[str, Rows]]:
        rounds = max(1, self.batch_rows // len(self.names))
        batches = []
        for start in range(first, first + self.window_rows, rounds):
            numbers = np.arange(start, min(start + rounds, first + self.window_rows))
            batch = {}
            for place, name in enumerate(self.names):
                times = numbers * ROUND_US + place * ROUND_US // len(self.names)
                batch[name] = Rows(times, numbers, {"k": pa.array(keys[place][numbers])})
            batches.append(batch)
        return batches


def left_deep(names: list[str]) -> str:
    """Write a left-deep tree.

    >>> left_deep(["a", "b", "c"])
    '((a b) c)'
    """
    tree = names[0]
    for name in names[1:]:
        tree = f"({tree} {name})"
    return tree
