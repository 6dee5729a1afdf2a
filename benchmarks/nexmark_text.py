"""NEXMark's queries of text: the last bid on each auction (q18), channels (q21), folders of addresses (q22)."""

import resource
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.direct import DirectRun
from benchmarks.measure import Progress, on_one_core
from midstream.engine.rows.rows import Rows
from midstream.lang.sql import parse_query
from midstream.local.replay import make_plan
from midstream.model.stream import StreamSchema
from midstream.plan.plan import Plan

ROWS_PER_SECOND = 100_000
WARM_UP_S = 2
POOL = 100_000
"""Different addresses and fillings; rows take theirs from these."""
HOT = ("Google", "Facebook", "Baidu", "Apple")
HOT_PART = 0.5
CHANNELS = 10_000
FILLING = 48
"""Bytes in the column that only makes a row wide."""
SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("auction", pa.int64()),
        ("bidder", pa.int64()),
        ("price", pa.int64()),
        ("channel", pa.string()),
        ("url", pa.string()),
        ("extra", pa.string()),
    ]
)
_FOLDER = "SUBSTRING(b.url, {start}, STRPOS(SUBSTRING(b.url || '/', {start}), '/') - 1)"
_AFTER = "{start} + STRPOS(SUBSTRING(b.url || '/', {start}), '/')"


def by_position() -> str:
    """Write q22 without SPLIT_PART: each folder is found after the one before it."""
    starts = ["STRPOS(b.url, '//') + 2"]
    for _ in range(3):
        starts.append(_AFTER.format(start=starts[-1]))
    folders = ", ".join(f"{_FOLDER.format(start=s)} AS dir{i + 1}" for i, s in enumerate(starts[1:]))
    return f"SELECT b.auction, b.bidder, b.price, b.channel, {folders} FROM bid b"


LAST_BIDS = (
    "SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.ts AS at, b.extra "
    "FROM bid [ROWS 1 PARTITION BY bidder, auction] b"
)
QUERIES = {
    "q18": LAST_BIDS,
    "q18 by hops": f"{LAST_BIDS} HOP BY 1 SECOND EMIT DELTA",
    "q21": (
        "SELECT b.auction, b.bidder, b.price, b.channel, CASE LOWER(b.channel) WHEN 'apple' THEN '0' "
        "WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' "
        "ELSE SPLIT_PART(SPLIT_PART(b.url, '&channel_id=', 2), '&', 1) END AS channel_id FROM bid b "
        "WHERE CONTAINS(b.url, '&channel_id=') OR LOWER(b.channel) IN ('apple', 'google', 'facebook', 'baidu')"
    ),
    "q22": (
        "SELECT b.auction, b.bidder, b.price, b.channel, SPLIT_PART(b.url, '/', 4) AS dir1, "
        "SPLIT_PART(b.url, '/', 5) AS dir2, SPLIT_PART(b.url, '/', 6) AS dir3 FROM bid b"
    ),
    "q22 by position": by_position(),
}


def planned(sql: str) -> Plan:
    """Plan a query over bids."""
    return make_plan(parse_query(sql, [StreamSchema("bid", SCHEMA, "ts")]))


class Bids:
    """Bids as NEXMark draws them: half of them on hot channels, auctions and bidders that come and go."""

    def __init__(self, seed: int) -> None:
        rng = self._rng = np.random.default_rng(seed)
        words = _words(rng, 3 * POOL, 5)
        folders = pc.binary_join_element_wise("https://www.nexmark.com", *(words[i::3] for i in range(3)), "/")
        ids = pa.array(rng.integers(0, 2**31, POOL)).cast(pa.string())
        query = pc.if_else(pa.array(rng.random(POOL) < 0.9), pc.binary_join_element_wise("&channel_id=", ids, ""), "")
        self._urls = pc.binary_join_element_wise(folders, "/item.htm?query=1", query, "")
        numbers = pa.array(np.arange(CHANNELS)).cast(pa.string())
        self._channels = pa.concat_arrays([pa.array(HOT), pc.binary_join_element_wise("channel-", numbers, "")])
        self._fillings = _words(rng, POOL, FILLING)
        self._sent = 0

    def second(self, number: int) -> Rows:
        """Return the bids of one second of event time."""
        rng, n = self._rng, ROWS_PER_SECOND
        hot = rng.random(n) < HOT_PART
        channel = np.where(hot, rng.integers(0, len(HOT), n), len(HOT) + rng.integers(0, CHANNELS, n))
        auctions = 1000 + (self._sent + np.arange(n)) // 15
        auction = np.where(rng.random(n) < 0.5, auctions // 100 * 100, auctions - rng.integers(0, 100, n))
        bidder = np.where(rng.random(n) < 0.75, auctions // 300 * 300, auctions - rng.integers(0, 1000, n))
        times = number * 1_000_000 + np.arange(n) * 1_000_000 // n
        columns = {
            "ts": pa.array(times),
            "auction": pa.array(auction),
            "bidder": pa.array(bidder),
            "price": pa.array(np.round(10 ** rng.uniform(0, 6, n) * 100).astype(np.int64)),
            "channel": self._channels.take(pa.array(channel)),
            "url": self._urls.take(pa.array(np.where(hot, channel, rng.integers(0, POOL, n)))),
            "extra": self._fillings.take(pa.array(rng.integers(0, POOL, n))),
        }
        offsets = np.arange(self._sent, self._sent + n)
        self._sent += n
        return Rows(times, offsets, columns)

    def seconds(self, count: int) -> Iterator[dict[str, Rows]]:
        """Yield one second after the other."""
        for number in range(count):
            yield {"bid": self.second(number)}


def _words(rng: np.random.Generator, count: int, length: int) -> pa.Array:
    """Draw words of lower-case letters."""
    letters = rng.integers(ord("a"), ord("z") + 1, count * length).astype(np.uint8)
    offsets = np.arange(count + 1, dtype=np.int32) * length
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return the figures of every query; `rows_per_s` is that of the slowest."""
    on_one_core()
    count = WARM_UP_S + int(seconds or 10)
    found: dict[str, dict[str, Any]] = {}
    for place, (name, sql) in enumerate(QUERIES.items()):
        runtime = DirectRun(planned(sql))
        spent, rows_in, rows_out, peak = 0.0, 0, 0, 0
        for second, rows in enumerate(Bids(seed).seconds(count)):
            started = time.perf_counter()
            left = sum(len(results) for results in runtime.on_rows(rows))
            wall = time.perf_counter() - started
            peak = max(peak, runtime.size().nbytes)
            progress(place * count + second + 1, len(QUERIES) * count)
            if second >= WARM_UP_S:
                spent, rows_in, rows_out = spent + wall, rows_in + len(rows["bid"].times), rows_out + left
        found[name] = {"rows_per_s": rows_in / spent, "rows_in": rows_in, "rows_out": rows_out, "peak_bytes": peak}
    return {
        "rows_per_s": min(figures["rows_per_s"] for figures in found.values()),
        "peak_bytes": max(figures["peak_bytes"] for figures in found.values()),
        "queries": found,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "parameters": {"rows_per_second": ROWS_PER_SECOND, "seconds": count - WARM_UP_S, "seed": seed},
    }
