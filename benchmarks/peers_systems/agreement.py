"""Do a system's results equal those that DuckDB computes from the same files? An order-independent digest says so."""

from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq

from benchmarks.peers_systems.data import Workload, rows_of
from benchmarks.peers_systems.job import NAMES, PAIRS

CELLS_PER_BATCH = 25


@dataclass(frozen=True)
class Digest:
    """How many results have their latest row in each cell of event time, and the sum of their hashes."""

    counts: np.ndarray
    hashes: np.ndarray

    def agrees(self, other: "Digest", cells: int) -> bool:
        return bool(
            np.array_equal(self.counts[:cells], other.counts[:cells])
            and np.array_equal(self.hashes[:cells], other.hashes[:cells])
        )

    def count(self, cells: int) -> int:
        return int(self.counts[:cells].sum())


class Judge:
    """The reference over all generated rows, and the verdict on any system's output over a prefix of them."""

    def __init__(self, workload: Workload, generated: Path) -> None:
        self._workload = workload
        self._times = [
            np.concatenate([pq.read_table(file, columns=["ts"])["ts"].to_numpy() for file in sorted(folder.iterdir())])
            for folder in (generated / name for name in NAMES)
        ]
        self._cells = workload.batches * CELLS_PER_BATCH
        self.reference = self._recompute(generated)

    def digest(self, payloads: list[np.ndarray]) -> Digest:
        """Digest results given as one array of payloads per stream."""
        latest = np.full(len(payloads[0]), self._workload.start_us)
        hashes = np.zeros(len(latest), np.uint64)
        for times, column in zip(self._times, payloads, strict=True):
            latest = np.maximum(latest, times[rows_of(column)])
            hashes = _mixed(hashes ^ column.astype(np.uint64))
        cells = (latest - self._workload.start_us) * CELLS_PER_BATCH // self._workload.batch_us
        sums = np.zeros(self._cells, np.uint64)
        np.add.at(sums, cells, hashes)
        return Digest(np.bincount(cells, minlength=self._cells), sums)

    def judge(self, out: Path, batches: int, complete_until_us: int | None) -> tuple[bool, int, int]:
        """Return whether the output in a folder is right, its number of results, and the reference's."""
        cells = batches * CELLS_PER_BATCH
        if complete_until_us is not None:
            passed = complete_until_us - self._workload.start_us
            cells = max(0, min(cells, passed * CELLS_PER_BATCH // self._workload.batch_us))
        found = self.digest(read_results(out))
        expected = self.reference
        # A system must not invent results beyond what it has read, either; held-back ones are simply not there yet.
        nothing_more = found.count(self._cells) <= expected.count(batches * CELLS_PER_BATCH)
        right = cells > 0 and nothing_more and found.agrees(expected, cells)
        return right, found.count(cells), expected.count(cells)

    def _recompute(self, generated: Path) -> Digest:
        """Join micro-batch after micro-batch: rows of one window before it, results whose latest row is in it."""
        total = Digest(np.zeros(self._cells, np.int64), np.zeros(self._cells, np.uint64))
        window, start, width = self._workload.window_us, self._workload.start_us, self._workload.batch_us
        with duckdb.connect() as connection:
            for batch in range(self._workload.batches):
                begin = start + batch * width
                for name in NAMES:
                    connection.execute(
                        f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT ts, k, v FROM '{generated / name}/*.parquet'"
                        f" WHERE ts >= {begin - window} AND ts < {begin + width}"
                    )
                near = " AND ".join(f"{x}.k = {y}.k AND abs({x}.ts - {y}.ts) <= {window}" for x, y in PAIRS)
                columns = ", ".join(f"{x}.v AS v_{x}" for x in NAMES)
                latest = ", ".join(f"{x}.ts" for x in NAMES)
                found = connection.execute(
                    f"SELECT {columns} FROM {', '.join(NAMES)} WHERE {near} AND greatest({latest}) >= {begin}"
                ).fetchnumpy()
                part = self.digest([found[f"v_{x}"] for x in NAMES])
                total = Digest(total.counts + part.counts, total.hashes + part.hashes)
        return total


def read_results(out: Path) -> list[np.ndarray]:
    """Read the results a system wrote: Parquet files, or CSV files with or without a header."""
    columns = [f"v_{x}" for x in NAMES]
    # Names that start with a dot or an underscore are a writer's own: unfinished files, logs.
    files = [f for f in out.rglob("*") if f.is_file() and not any(p[0] in "._" for p in f.relative_to(out).parts)]
    parquet = [str(f) for f in files if f.suffix == ".parquet" and f.stat().st_size]
    if parquet:
        table = duckdb.from_parquet(parquet)
    elif filled := [str(f) for f in files if f.stat().st_size]:
        with open(filled[0], encoding="utf-8") as file:
            headed = "v_a" in file.readline()
        table = duckdb.read_csv(filled, header=headed, names=None if headed else columns)
    else:
        return [np.empty(0, np.int64) for _ in NAMES]
    found = table.select(*columns).fetchnumpy()
    return [np.asarray(found[c], np.int64) for c in columns]


def _mixed(hashes: np.ndarray) -> np.ndarray:
    """Scramble 64 bits (splitmix64), so that equal sums of hashes mean equal results."""
    hashes = hashes + np.uint64(0x9E3779B97F4A7C15)
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = hashes ^ (hashes >> np.uint64(31))
    return mixed
