"""The rows every system reads, generated once: four streams, Parquet files per stream and micro-batch."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from benchmarks.peers_systems.job import NAMES

SECOND_US = 1_000_000
FULL_BATCH_S = 25
FULL_WINDOW_S = 10

PAYLOADS = 1_000_000_000
SCATTER = 387_420_489  # a power of 3, so it has an inverse modulo a power of 10
GATHER = pow(SCATTER, -1, PAYLOADS)


@dataclass(frozen=True)
class Workload:
    """What is generated. Windows and keys shrink with the micro-batch, so that a short run has the same shape:
    windows of 0.4 micro-batches, one row per key and stream in a window, about one result per input row.
    """

    batches: int
    batch_s: float = FULL_BATCH_S
    rows_per_second: int = 10_000
    seed: int = 1
    start_us: int = 1_767_225_600 * SECOND_US

    @property
    def batch_us(self) -> int:
        return round(self.batch_s * 1_000) * 1_000

    @property
    def window_us(self) -> int:
        return round(self.batch_s * FULL_WINDOW_S / FULL_BATCH_S * 1_000) * 1_000

    @property
    def keys(self) -> int:
        return max(1, round(self.rows_per_second * self.window_us / SECOND_US))

    @property
    def stream_rows(self) -> int:
        """Rows of one stream in a micro-batch."""
        return round(self.rows_per_second * self.batch_us / SECOND_US)

    @property
    def batch_rows(self) -> int:
        return self.stream_rows * len(NAMES)

    def parameters(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "streams": len(NAMES),
            "batch_rows": self.batch_rows,
            "window_s": self.window_us / SECOND_US,
            "keys": self.keys,
        }


def generate(workload: Workload, folder: Path) -> None:
    """Write `<stream>/batch-0000.parquet` and so on. Payloads are unique within a stream: see `rows_of`."""
    rng = np.random.default_rng(workload.seed)
    n = workload.stream_rows
    for name in NAMES:
        (folder / name).mkdir(parents=True)
    for batch in range(workload.batches):
        for name in NAMES:
            first = workload.start_us + batch * workload.batch_us
            times = first + np.sort(rng.integers(0, workload.batch_us, n))
            rows = np.arange(batch * n, (batch + 1) * n)
            table = pa.table(
                {
                    "ts": times,
                    "t": pa.array(times).cast(pa.timestamp("us", "UTC")),
                    "k": rng.integers(0, workload.keys, n),
                    "v": rows * SCATTER % PAYLOADS,
                }
            )
            file = folder / name / f"batch-{batch:04}.parquet"
            pq.write_table(table, file)
            os.utime(file, (workload.start_us / SECOND_US + batch,) * 2)  # file sources read in order of this time


def rows_of(payloads: np.ndarray) -> np.ndarray:
    """Return the row number in its stream of each payload.

    >>> rows_of(np.array([5, 6]) * SCATTER % PAYLOADS).tolist()
    [5, 6]
    """
    return payloads.astype(np.int64) * GATHER % PAYLOADS


def link_batches(generated: Path, into: Path, batches: int) -> None:
    """Give a system the first micro-batches, and no more, without a copy."""
    for name in NAMES:
        (into / name).mkdir(parents=True)
        for file in sorted((generated / name).iterdir())[:batches]:
            os.link(file, into / name / file.name)


def csv_per_stream(parquet: Path, into: Path) -> None:
    """Write each stream as one CSV file without a header: ts, k, v."""
    into.mkdir(parents=True)
    for name in NAMES:
        with pc.CSVWriter(
            into / f"{name}.csv", _plain(["ts", "k", "v"]), write_options=pc.WriteOptions(include_header=False)
        ) as file:
            for batch in sorted((parquet / name).iterdir()):
                file.write_table(pq.read_table(batch, columns=["ts", "k", "v"]))


def csv_interleaved(parquet: Path, into: Path) -> None:
    """Write all streams as one CSV file per micro-batch, in order of time, with a header: stream, ts, k, v."""
    into.mkdir(parents=True)
    for batch in sorted(file.name for file in (parquet / NAMES[0]).iterdir()):
        tables = [pq.read_table(parquet / name / batch, columns=["ts", "k", "v"]) for name in NAMES]
        marked = [t.add_column(0, "stream", pa.array(np.full(len(t), place))) for place, t in enumerate(tables)]
        pc.write_csv(pa.concat_tables(marked).sort_by("ts"), into / f"{Path(batch).stem}.csv")


def _plain(names: list[str]) -> pa.Schema:
    return pa.schema([(name, pa.int64()) for name in names])
