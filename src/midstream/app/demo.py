"""The live demo: rows of a small shop are made as time passes, joined on Spark, and checked against recomputing.

On the way the data drift: first few of the reviews are of orders of today, then few of the payments. The query sees it
and changes its join order by itself.

maker (a thread) ──▶ folders of Parquet, one per stream ──▶ query on Spark ──▶ folder of results
        └──────────▶ the same rows ──▶ in process, and by plain joins ──▶ equal?
"""

import os
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from midstream.app.engine import Engine, PlannedQuery
from midstream.app.launch import launch
from midstream.engine.control.controls import SNAPSHOT
from midstream.engine.planning.optimizing import AUTO, Optimizing
from midstream.live.checkpoint import Checkpoint
from midstream.live.rates import Stretch
from midstream.live.reading import read
from midstream.model.timing import Timing
from midstream.spark.pipeline_file import PipelineFile, SparkStreamSpec
from midstream.spark.run import SparkRun
from midstream.spark.session import open_session

WIDTH_S = {"orders": 5, "payments": 5, "shipments": 4, "reviews": 3}
"""The streams and their windows."""
SQL = """
SELECT o.id, o.amount, p.method, s.carrier, r.stars
FROM orders [RANGE 5 SECONDS] o, payments [RANGE 5 SECONDS] p, shipments [RANGE 4 SECONDS] s,
     reviews [RANGE 3 SECONDS] r
WHERE o.id = p.id AND p.id = s.id AND s.id = r.id
"""
DETAIL = {"orders": "amount", "payments": "method", "shipments": "carrier", "reviews": "stars"}
OUTPUT = ["id", "amount", "method", "carrier", "stars", "_time"]
PLAN = "(((o p) s) r)"
"""The join order it begins with: that of the FROM clause."""
LINES = 3
"""Rows of each stream for an order, on average."""
OPTIMIZING = Optimizing(AUTO, share=0.1)
"""It looks more often than a query that has all day, and has windows of seconds."""
DRIFT = ((0.0, "reviews"), (0.45, "payments"))
"""From when on (as a part of the time) which stream is mostly of orders of long ago, that nothing joins."""
OLD = 0.95
"""The part of its rows that is."""
STEP_S = 0.5
"""Every stream gets a file in every step."""
MOST_FILES = "4"
"""Of a stream in a micro-batch: where Spark is slow it is behind, and still sees the data drift bit by bit."""
DELAY_US = 800_000
LATENESS = "1 second"
"""Rows come up to DELAY_US after their time, which is within the lateness."""


class Maker(threading.Thread):
    """Makes the rows of the four streams as time passes, and writes those that have arrived, step by step.

    An order has several lines, and is paid, shipped and reviewed within seconds, in parts; times are whole
    milliseconds, so that many are equal; rows arrive a little out of order. Which stream has few rows of today's
    orders drifts.
    """

    def __init__(self, folder: Path, seconds: float, rate: int) -> None:
        super().__init__(name="midstream-demo-maker", daemon=True)
        self.folder = folder
        self.rows = 0
        self.ended = threading.Event()
        self.stop = threading.Event()
        self._seconds = seconds
        self._rate = rate
        self._random = np.random.default_rng(7)
        self._began_s = 0.0
        self._underway: dict[str, pa.Table] = {}
        self._next_id = 0
        for name in WIDTH_S:
            (folder / name).mkdir(parents=True)

    def run(self) -> None:
        """Write a file per stream and step until the time is over or `stop` is set; then what is still underway."""
        self._began_s = started = time.time()
        step = 0
        while not self.stop.wait(max(0.0, started + (step + 1) * STEP_S - time.time())):
            if step * STEP_S >= self._seconds:
                break
            end_us = int((started + (step + 1) * STEP_S) * 1e6)
            self._make(end_us - int(STEP_S * 1e6), end_us)
            self._write(step, end_us)
            step += 1
        self._write(step, None)
        self.ended.set()

    def _make(self, begin_us: int, end_us: int) -> None:
        """Draw the orders of one step and all that follows from them."""
        count = max(int(self._rate * STEP_S / LINES), 1)
        ids = np.arange(self._next_id, self._next_id + count)
        self._next_id += count
        at = np.sort(self._random.integers(begin_us, end_us, count))
        for name, mean_s, words in (
            ("orders", 0.0, range(100, 100_000)),
            ("payments", 1.0, ["card", "bank", "wallet"]),
            ("shipments", 2.0, ["north", "coast", "rail"]),
            ("reviews", 3.0, [1, 2, 3, 4, 5]),
        ):
            times = self._random.integers(LINES - 1, LINES + 2, count)
            mine, base = np.repeat(ids, times), np.repeat(at, times)
            later = (self._random.gamma(4.0, mean_s / 4.0, len(mine)) * 1e6).astype(np.int64)
            rows_at = base + later
            old = self._of_old_orders(name, rows_at)
            self._add(name, np.where(old, self._random.integers(-(2**40), 0, len(mine)), mine), rows_at, words)

    def _of_old_orders(self, name: str, at_us: np.ndarray) -> np.ndarray:
        """Draw which rows of a stream are of orders of long ago."""
        begins_us = [int((self._began_s + part * self._seconds) * 1e6) for part, _ in DRIFT]
        drifted = np.maximum(np.searchsorted(begins_us, at_us, side="right") - 1, 0)
        few = np.array([stream == name for _, stream in DRIFT])[drifted]
        return few & (self._random.random(len(at_us)) < OLD)

    def _add(self, name: str, ids: np.ndarray, at_us: np.ndarray, words: Sequence[object]) -> None:
        detail = self._random.choice(np.array(words), len(ids))
        at_ms = at_us // 1000 * 1000
        delay = self._random.integers(0, DELAY_US, len(ids)) * (self._random.random(len(ids)) < 0.05)
        table = pa.table({"ts": at_ms, "id": ids, DETAIL[name]: detail, "_arrives": at_us + delay})
        held = self._underway.get(name)
        self._underway[name] = pa.concat_tables([held, table]) if held is not None else table

    def _write(self, step: int, end_us: int | None) -> None:
        """Write the rows that arrive before `end_us`, in the order they do; without it, all that have."""
        for name, held in self._underway.items():
            arrived = pc.less(held["_arrives"], int(time.time() * 1e6) if end_us is None else end_us)
            rows = held.filter(arrived).sort_by("_arrives").drop_columns(["_arrives"])
            self._underway[name] = held.filter(pc.invert(arrived))
            if rows.num_rows:
                pending = self.folder / name / f".{step:05d}.pending"
                pq.write_table(rows, pending)
                os.replace(pending, self.folder / name / f"{step:05d}.parquet")
                self.rows += rows.num_rows

    def recorded(self, name: str) -> pa.Table:
        """Return all rows of a stream as they were written."""
        return pa.concat_tables([pq.read_table(f) for f in sorted((self.folder / name).glob("*.parquet"))])


@dataclass(frozen=True)
class Verdict:
    """Whether what Spark emitted is what recomputing gives."""

    equal: bool
    sentence: str


class Demo:
    """One live run in a folder: `in`, `out`, `checkpoint`."""

    def __init__(self, folder: Path, seconds: float, rate: int) -> None:
        self.log = folder / "checkpoint" / "spark.log"
        self._out = folder / "out"
        self._checkpoint = Checkpoint(folder / "checkpoint")
        self._maker = Maker(folder / "in", seconds, rate)
        self._run: SparkRun | None = None
        self._drained = False
        self._seconds = seconds
        self._started = 0.0
        self._batches: list[dict[str, Any]] = []

    @contextmanager
    def start(self) -> Iterator[SparkRun]:
        """Start Spark and the query; a first micro-batch without rows warms it up."""
        spark = open_session("local[2, 4]", {}, self.log)
        try:
            self._run = launch(self._pipeline(), spark)
            self._checkpoint.controls.send(SNAPSHOT)
            yield self._run
        finally:
            self._maker.stop.set()
            spark.stop()

    def _pipeline(self) -> PipelineFile:
        kinds = {"orders": "BIGINT", "reviews": "BIGINT"}
        streams = tuple(
            SparkStreamSpec(
                name, "parquet", "ts", Timing(1_000_000),
                f"ts BIGINT, id BIGINT, {DETAIL[name]} {kinds.get(name, 'STRING')}",
                {"path": str((self._maker.folder / name).absolute()), "maxFilesPerTrigger": MOST_FILES},
            )
            for name in WIDTH_S
        )  # fmt: skip
        sink = {"format": "folder", "path": str(self._out.absolute())}
        trigger = {"processingTime": "1 second"}
        return PipelineFile(
            Path("demo"), "demo", SQL, self._checkpoint.folder, streams, sink, buckets=2, ordered=True, trigger=trigger,
            plan=PLAN, optimize=OPTIMIZING,
        )  # fmt: skip

    def tick(self) -> str:
        """Start the streams once Spark is warm; when all rows are read ask the query to drain and stop. Say which."""
        status = self._run.status() if self._run is not None else {}
        batch = status.get("last_batch")
        if batch is None:
            return "Spark warms up"
        if not self._started:
            self._started = time.time()
            self._maker.start()
        self._note(batch)
        left = self._started + self._seconds - time.time()
        if not self._maker.ended.is_set():
            doing = batch["phase"] if batch["phase"] != "steady" else f"plan {status['plan']}"
            return f"{doing}; making rows for another {max(left, 0):.0f} s"
        read = status["rows_in"] + status["late"] + batch["waiting"]
        if read < self._maker.rows:
            return "all rows are made; the query reads the last of them"
        if not self._drained and self._run is not None:
            self._drained = True
            self._run.ask_to_end(drain=True)
        return "all rows are read; asked to drain and stop"

    def _note(self, batch: dict[str, Any]) -> None:
        """Remember micro-batches in which something was released."""
        if not self._batches or self._batches[-1]["batch"] != batch["batch"]:
            self._batches.append(batch)

    def migrations(self) -> list[dict[str, Any]]:
        """Return what became of the migrations."""
        return self._run.migrations() if self._run is not None else []

    def decisions(self) -> list[dict[str, Any]]:
        """Return what the query has decided by itself."""
        return self._run.decisions() if self._run is not None else []

    def stretches(self) -> list[Stretch]:
        """Return the output rate phase by phase, from the time the windows are full."""
        found: list[list[tuple[dict[str, Any], int]]] = []
        for before, batch in pairwise(self._batches):
            wide = batch["released_us"] - before["released_us"]
            full = batch["released_us"] > int((self._started + max(WIDTH_S.values())) * 1e6)
            if wide <= 0 or not full or batch["released_us"] > int((self._started + self._seconds) * 1e6):
                continue
            same = found and (found[-1][0][0]["phase"], found[-1][0][0]["plan"]) == (batch["phase"], batch["plan"])
            if same:
                found[-1].append((batch, wide))
            else:
                found.append([(batch, wide)])
        return [
            Stretch(
                group[0][0]["phase"], group[0][0]["plan"], len(group),
                sum(b["rows_out"] for b, _ in group) / sum(w for _, w in group) * 1e6,
                statistics.median(b["wall_ms"] for b, _ in group) / 1000,
            )
            for group in found
        ]  # fmt: skip

    def end_early(self) -> None:
        """Make no more rows; the rest of the demo follows at once."""
        self._maker.stop.set()

    def check(self) -> Verdict:
        """Compare the results with recomputing from scratch, in process and by plain joins."""
        results = read(self._out)
        found = Counter(_rows(results)) if results.num_rows else Counter()
        tables = {name: self._maker.recorded(name) for name in WIDTH_S}
        complaints = []
        for way, expected in (("in process", _in_process(tables)), ("by plain joins", _plain_joins(tables))):
            wanted = Counter(_rows(expected))
            missing, extra = wanted - found, found - wanted
            if missing or extra:
                complaints.append(f"recomputed {way} there are {missing.total():,} more and {extra.total():,} fewer")
        if results.num_rows and not _in_order(results):
            complaints.append("they are not in the order of time")
        count = f"{found.total():,} results"
        if complaints:
            return Verdict(False, f"{count}, NOT equal to recomputing from scratch: {'; '.join(complaints)}")
        return Verdict(found.total() > 0, f"{count}, equal to recomputing from scratch")


def _rows(table: pa.Table) -> Iterator[tuple[object, ...]]:
    return zip(*(table.column(name).to_pylist() for name in OUTPUT), strict=True)


def _in_order(results: pa.Table) -> bool:
    times = results.column("_time").to_numpy()
    return bool((np.diff(times) >= 0).all())


def _in_process(tables: dict[str, pa.Table]) -> pa.Table:
    engine = Engine()
    for name, table in tables.items():
        engine.stream(name, table, time="ts", lateness=LATENESS)
    query = engine.query(SQL)
    assert isinstance(query, PlannedQuery)
    return query.start(batch="5 seconds").table()


def _plain_joins(tables: dict[str, pa.Table]) -> pa.Table:
    """Join everything with the same id, then keep what is inside all windows at the time of the latest row."""
    joined: pa.Table | None = None
    for name, table in tables.items():
        mine = table.rename_columns([f"ts_{name}" if c == "ts" else c for c in table.column_names])
        joined = mine if joined is None else joined.join(mine, "id", join_type="inner")
    assert joined is not None
    latest = pc.max_element_wise(*(joined[f"ts_{name}"] for name in WIDTH_S))
    for name, width_s in WIDTH_S.items():
        age = pc.subtract(latest, joined[f"ts_{name}"])
        inside = pc.less_equal(age, width_s * 1_000_000)
        joined, latest = joined.filter(inside), latest.filter(inside)
    return joined.append_column("_time", latest)
