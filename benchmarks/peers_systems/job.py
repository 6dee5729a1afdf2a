"""The job a system is given, and what it says afterwards. Standard library only: other environments import this.

peers.py ──▶ job.json ──▶ python -m benchmarks.peers_systems.NAME job.json ──▶ said.json ──▶ peers.py
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

NAMES = "abcd"
PAIRS = tuple((x, y) for place, x in enumerate(NAMES) for y in NAMES[place + 1 :])


class Skipped(Exception):
    """This system cannot run here; the message says why."""


@dataclass(frozen=True)
class Job:
    """One system's work: the first `warm_up + measured` micro-batches of the generated streams.

    `parquet/<stream>/batch-0000.parquet` holds `ts` (int64 microseconds), `t` (the same as a timestamp), `k` and `v`;
    systems that ask for it find the same rows as CSV in `csv/`. All paths are this system's own.
    """

    system: str
    folder: str
    warm_up: int
    measured: int
    batch_rows: int
    """Input rows of a micro-batch, all streams together."""
    window_us: int
    start_us: int
    batch_us: int
    keys: int

    @property
    def batches(self) -> int:
        return self.warm_up + self.measured

    @property
    def rows_in(self) -> int:
        return self.batches * self.batch_rows

    @property
    def parquet(self) -> Path:
        return Path(self.folder) / "parquet"

    @property
    def csv(self) -> Path:
        return Path(self.folder) / "csv"

    @property
    def out(self) -> Path:
        """Results, columns `v_a`, `v_b`, `v_c`, `v_d`: Parquet files, or CSV."""
        return Path(self.folder) / "out"

    @property
    def checkpoint(self) -> Path:
        return Path(self.folder) / "checkpoint"

    @property
    def scratch(self) -> Path:
        return Path(self.folder) / "scratch"

    @property
    def said(self) -> Path:
        return Path(self.folder) / "said.json"

    def write(self) -> Path:
        file = Path(self.folder) / "job.json"
        file.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return file


@dataclass(frozen=True)
class Said:
    """What a system says of its run."""

    rows_per_s: float
    rows_in: int
    note: str = ""
    batch_s: tuple[float, ...] = ()
    """Seconds of each micro-batch, warm-up included, where the system has micro-batches."""
    complete_until_us: int | None = None
    """Results whose latest row is at or after this event time may still be held back; None: all are out."""
    agrees: bool | None = None
    """The system's own verdict, if it has no output that could be compared."""


def serve(run: Callable[[Job], Said]) -> None:
    """Do the job named on the command line and leave behind what was said."""
    job = Job(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    try:
        said: dict[str, Any] = asdict(run(job))
    except Skipped as reason:
        said = {"skipped": str(reason)}
    job.said.write_text(json.dumps(said), encoding="utf-8")


def steady(job: Job, batches: list[tuple[int, float]]) -> tuple[float, tuple[float, ...]]:
    """Return the rate after warm-up, and the seconds of every micro-batch, from (rows, seconds) of each.

    >>> job = Job("x", ".", warm_up=1, measured=2, batch_rows=100, window_us=1, start_us=0, batch_us=1, keys=1)
    >>> steady(job, [(100, 4.0), (100, 1.0), (100, 1.0), (0, 0.5)])
    (100.0, (4.0, 1.0, 1.0))
    """
    full = [(rows, seconds) for rows, seconds in batches if rows]
    counted = full[job.warm_up :]
    rate = sum(rows for rows, _ in counted) / sum(seconds for _, seconds in counted) if counted else 0.0
    return rate, tuple(seconds for _, seconds in full)
