"""Streams at sites: one a site, joined on one attribute with each other, at rates that change.

rates ──▶ rows, batch by batch ──▶ a simulated network of sites (`followed.py`)
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from midstream.lang.sql import parse_query
from midstream.local.replay import make_plan
from midstream.model.stream import StreamSchema
from midstream.sites.declaration import DEFAULT_LINK, Declared, Link, Update
from midstream.sites.partials import Part
from midstream.sites.plan import SitesPlan
from midstream.sites.query import JoinedQuery
from midstream.sites.start import Setup
from midstream.sites.statistics import StreamStatistics

MS = 1000
BATCH_US = 50 * MS
TUPLE_BYTES = 150
WINDOW_US = 500 * MS
BIN_US = 200 * MS
"""How often sites measure, and what costs are summed over."""
PHASE_US = 2000 * MS
FIRST_CHANGE_US = 1600 * MS
"""At the end of an interval that is measured over; the paper has 1,500 ms."""
Rates = Callable[[int, int], float]
"""Rows per second of a stream at a time."""
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("p", pa.string())])


@dataclass
class SiteStreams:
    """Streams, one per site, that join on one attribute."""

    count: int
    factor: float
    rates: Rates
    end_us: int
    seed: int
    batch_us: int = BATCH_US
    link: Link = DEFAULT_LINK

    def __post_init__(self) -> None:
        names = [f"s{k}" for k in range(self.count)]
        sources = ", ".join(f"{n} [RANGE {WINDOW_US} MICROSECONDS] {n}" for n in names)
        same = " AND ".join(f"s0.k = {n}.k" for n in names[1:])
        wanted = ", ".join(f"{n}.p AS p{k}" for k, n in enumerate(names))
        sql = f"SELECT {wanted} FROM {sources} WHERE {same}"
        self.query = JoinedQuery(make_plan(parse_query(sql, [StreamSchema(n, SCHEMA, "ts") for n in names])))
        self.names = names

    def statistics(self) -> dict[str, StreamStatistics]:
        """Return what is known at the start: exactly what the streams are like then."""
        found = {}
        for k, name in enumerate(self.names):
            rate = self.rates(k, 0)
            found[name] = StreamStatistics(rate, TUPLE_BYTES + 16, rate * WINDOW_US / 1e6, {"0": self.factor})
        return found

    def setup(self, update: Update, plan: SitesPlan | None = None) -> Setup:
        """Return the sites: one per stream, results at the first."""
        sites = {name: f"site{k}" for k, name in enumerate(self.names)}
        declared = Declared(sites, "site0", update, 0.3, {}, self.link)
        return Setup(self.query, declared, self.statistics(), BIN_US, plan)

    def rows(self) -> Iterator[tuple[str, list[Part]]]:
        """Yield each stream with its rows, batch by batch: evenly spread, values drawn evenly."""
        for k, name in enumerate(self.names):
            rng = np.random.default_rng([self.seed, k])
            parts, at, number = list[Part](), 0.0, 0
            for start in range(0, self.end_us, self.batch_us):
                times = list[int]()
                while at < start + self.batch_us:
                    times.append(int(at))
                    at += 1e6 / self.rates(k, int(at))
                keys = rng.integers(0, round(1 / self.factor), len(times))
                payload = pa.array(
                    [f"{n:0{TUPLE_BYTES - 12}d}" for n in range(number, number + len(times))], pa.string()
                )
                offsets = np.arange(number, number + len(times), dtype=np.int64)
                number += len(times)
                parts.append(Part(np.array(times, np.int64), offsets, {"k": pa.array(keys), "p": payload}))
            yield name, parts


def phase_of(time_us: int) -> int:
    """Return how often the rate has changed before a time."""
    return max(0, (time_us - FIRST_CHANGE_US) // PHASE_US + 1)


def one_stream_changes(k: int, time_us: int) -> float:
    """Return the rates of Fig. 4: one stream goes from 50 to 200 and back, the others have 100."""
    if k != 1:
        return 100.0
    return 200.0 if phase_of(time_us) % 2 else 50.0
