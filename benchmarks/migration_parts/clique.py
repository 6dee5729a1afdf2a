"""Clique: streams joined on one attribute with each other; the stream whose values are rare changes at a moment."""

from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.engine.rows.rows import Rows
from midstream.lang.sql import parse_query
from midstream.local.replay import make_plan
from midstream.model.stream import StreamSchema
from midstream.plan.plan import Plan

SECOND_US = 1_000_000


@dataclass(frozen=True)
class Clique:
    """What is generated and what is asked of it."""

    streams: int = 6
    window_s: int = 180
    rate: float = 1.0
    """Rows per second of each stream."""
    values: int = 20
    """Values are uniform from so many: two streams match with a selectivity of one in so many."""
    rare_values: int = 400
    """Those of the rare stream are uniform from so many, the others' among them."""
    warm_up_windows: int = 5
    after_windows: float = 1.2
    join: str = "nested-loop"
    median_s: int = 0
    """A median of the results of the last so many seconds stands above the joins; 0: none does."""

    @property
    def names(self) -> str:
        return "abcdefgh"[: self.streams]

    @property
    def change_s(self) -> int:
        """Return when the last stream becomes rare instead of the first."""
        return self.warm_up_windows * self.window_s

    @property
    def change_us(self) -> int:
        return self.change_s * SECOND_US

    def parameters(self) -> dict[str, Any]:
        return asdict(self)

    def planned(self, tree: str) -> Plan:
        sources = ", ".join(f"{x} [RANGE {self.window_s} SECONDS]" for x in self.names)
        pairs = " AND ".join(f"{x}.k = {y}.k" for x, y in combinations(self.names, 2))
        schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
        catalog = [StreamSchema(x, schema, "ts") for x in self.names]
        sql = f"SELECT a.k AS k FROM {sources} WHERE {pairs}"
        if self.median_s:
            sql = f"SELECT MEDIAN(k) AS k, COUNT(*) AS n FROM ({sql}) [RANGE {self.median_s} SECONDS SLIDE 1 SECOND]"
        return make_plan(parse_query(sql, catalog), tree, self.join)

    def batches(self, seed: int) -> tuple[list[dict[str, Rows]], list[dict[str, Rows]]]:
        """Return the micro-batches of one second each: those before the change, those from then on."""
        rng = np.random.default_rng(seed)
        seconds = self.change_s + round(self.after_windows * self.window_s)
        count = int(seconds * self.rate)
        rows = {}
        for name in self.names:
            times = ((np.arange(count) + rng.random(count)) / self.rate * SECOND_US).astype(np.int64)
            values, rare = rng.integers(0, self.values, count), rng.integers(0, self.rare_values, count)
            first, last = name == self.names[0], name == self.names[-1]
            is_rare = (first & (times < self.change_us)) | (last & (times >= self.change_us))
            rows[name] = (times, np.where(is_rare, rare, values))
        cuts = {name: np.searchsorted(times, np.arange(seconds + 1) * SECOND_US) for name, (times, _) in rows.items()}
        batches = []
        for second in range(seconds):
            batch = {}
            for name, (times, values) in rows.items():
                start, stop = cuts[name][second], cuts[name][second + 1]
                columns = {"k": pa.array(values[start:stop])}
                batch[name] = Rows(times[start:stop], np.arange(start, stop), columns)
            batches.append(batch)
        return batches[: self.change_s], batches[self.change_s :]
