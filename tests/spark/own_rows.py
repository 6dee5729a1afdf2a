"""Rows for programs of users: files that appear one by one, and what programs should make of them."""

import datetime as dt
import os
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "ts TIMESTAMP, k LONG, v LONG"
NAMES = ("orders", "payments")
Record = tuple[int, int, int]
"""Time in microseconds, key, value."""
DELAY_US = 2_000_000
AHEAD = 3
BEGUN_S = 1_790_000_000
Drawn = dict[str, list[list[Record]]]
"""The rows of each stream, file by file."""


def draw(seed: int, files: int, each: int = 20) -> Drawn:
    """Return the rows of each stream, file by file: a second each, out of order by less than the delay."""
    rnd = random.Random(f"own {seed}")

    def row(second: int, n: int) -> Record:
        return 1_000_000 * (60 + second) + rnd.randrange(1_900_000), rnd.randrange(4), n

    return {name: [[row(f, f * each + n) for n in range(each)] for f in range(files)] for name in NAMES}


class Files:
    """Writes files, a pair at a time: both streams in step."""

    def __init__(self, folder: Path, drawn: Drawn) -> None:
        self.folder, self.drawn = folder, drawn
        self.count = len(drawn[NAMES[0]])
        self._over = threading.Event()
        self._writer: threading.Thread | None = None
        for name in NAMES:
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.written = len(list((folder / NAMES[-1]).glob("*.parquet")))

    def write(self, upto: int) -> None:
        for number in range(self.written, min(upto, self.count)):
            for name in NAMES:
                self._write(name, number)
            self.written = number + 1

    def keep_ahead(self, rows_read: Callable[[], int]) -> None:
        """Write the others, a few ahead of what was read, until `finish`."""
        each = 2 * len(self.drawn[NAMES[0]][0])

        def work() -> None:
            while self.written < self.count and not self._over.wait(0.05):
                if self.written < rows_read() // each + AHEAD:
                    self.write(self.written + 1)

        self._writer = threading.Thread(target=work, daemon=True)
        self._writer.start()

    def finish(self) -> Drawn:
        """Write no more; return what was written."""
        self._over.set()
        if self._writer is not None:
            self._writer.join()
        return {name: files[: self.written] for name, files in self.drawn.items()}

    def _write(self, name: str, number: int) -> None:
        ts, k, v = zip(*self.drawn[name][number], strict=True)
        times = pa.array([dt.datetime.fromtimestamp(t / 1e6, dt.UTC) for t in ts], pa.timestamp("us", "UTC"))
        table = pa.table({"ts": times, "k": pa.array(k, pa.int64()), "v": pa.array(v, pa.int64())})
        file = self.folder / name / f"{number:05d}.parquet"
        pq.write_table(table, file.with_name(f".{file.name}"))
        # Spark takes files in the order of their times, in milliseconds: without this some would tie, and rows be late.
        os.utime(file.with_name(f".{file.name}"), (BEGUN_S + number, BEGUN_S + number))
        file.with_name(f".{file.name}").rename(file)


def rows(drawn: Drawn, name: str) -> list[Record]:
    return [row for file in drawn[name] for row in file]


def totals(drawn: Drawn, width_us: int = 5_000_000) -> Counter[tuple[Any, ...]]:
    """Return the windows that close: those that end no later than the last row less the delay."""
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for ts, k, v in rows(drawn, "orders"):
        found[(ts // width_us * width_us, k)].append(v)
    mark = max(ts for ts, _, _ in rows(drawn, "orders")) // 1000 * 1000 - DELAY_US
    return Counter(
        (dt.datetime.fromtimestamp(start / 1e6, dt.UTC), k, len(v), sum(v))
        for (start, k), v in found.items()
        if start + width_us <= mark
    )


def paid(drawn: Drawn) -> Counter[tuple[Any, ...]]:
    return Counter(
        (k, v, w)
        for ts, k, v in rows(drawn, "orders")
        for at, key, w in rows(drawn, "payments")
        if key == k and 0 <= at - ts <= 3_000_000
    )


def numbered(drawn: Drawn) -> Counter[tuple[Any, ...]]:
    each = Counter(k for _, k, _ in rows(drawn, "orders"))
    return Counter((k, n) for k, count in each.items() for n in range(1, count + 1))


def scaled(drawn: Drawn) -> Counter[tuple[Any, ...]]:
    return Counter((k * 10, v) for _, k, v in rows(drawn, "orders"))


def busiest(drawn: Drawn) -> Counter[tuple[Any, ...]]:
    """Return the windows of six seconds that close: the largest sum of a key in two seconds, and how many sums."""
    sums: Counter[tuple[int, int]] = Counter()
    for ts, k, v in rows(drawn, "orders"):
        sums[(ts // 2_000_000, k)] += v
    found: dict[int, list[int]] = defaultdict(list)
    for (part, _), total in sums.items():
        found[part // 3 * 6_000_000].append(total)
    mark = max(ts for ts, _, _ in rows(drawn, "orders")) // 1000 * 1000 - DELAY_US
    return Counter(
        (dt.datetime.fromtimestamp(start / 1e6, dt.UTC), max(totals), len(totals))
        for start, totals in found.items()
        if start + 6_000_000 <= mark
    )


def once(drawn: Drawn) -> Counter[tuple[Any, ...]]:
    return Counter({(k, v % 50) for _, k, v in rows(drawn, "orders")})


def sessions(drawn: Drawn, gap_us: int = 100_000) -> Counter[tuple[Any, ...]]:
    """Return the sessions that close, by key: rows nearer to each other than the gap."""
    mark = max(ts for ts, _, _ in rows(drawn, "orders")) // 1000 * 1000 - DELAY_US
    found: list[list[int]] = []
    for k, ts in sorted((k, ts) for ts, k, _ in rows(drawn, "orders")):
        if found and found[-1][0] == k and ts < found[-1][1]:
            found[-1] = [k, ts + gap_us, found[-1][2] + 1]
        else:
            found.append([k, ts + gap_us, 1])
    return Counter((k, dt.datetime.fromtimestamp(end / 1e6, dt.UTC), count) for k, end, count in found if end <= mark)


def bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())
