"""A soak on Spark: one live query at the fastest trigger over small files, with a change or a migration now and then.

    a few files ahead ──▶ micro-batches as fast as they go ──▶ looked at once a minute ──▶ flat, or what has grown

Prints a line a minute, and at the end JSON: medians of micro-batch times, what the buckets have written down, files of
the checkpoint by folder, memory of the processes. Results and files that were read are taken away, as users would.

    make soak-spark SECONDS=3600
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from engine.live_host import some_rows

import midstream as ms

FIRST = "SELECT a.k, a.v, b.v AS w FROM a [RANGE 20 SECONDS], b [ROWS 40 PARTITION BY k] WHERE a.k = b.k AND a.v < b.v"
QUERIES = (FIRST, FIRST.replace("20 SECONDS", "10 SECONDS"))
METHODS = ("immediate", "drain", "graceful-immediate", "delayed-drain", "graceful-drain")
AHEAD = 6
"""Files of a stream that may lie there unread."""
KEPT_RESULTS = 5
OF_SPARK = ("spark/sources",)
"""What Spark keeps of each file that it has read: it grows, whoever runs the query."""


@dataclass
class Look:
    """How things were at one moment."""

    at_s: float
    batches: int
    batch_ms: float
    """Median of the micro-batches since the look before."""
    head_bytes: int | None
    """The largest of the heads that buckets have written down."""
    files: dict[str, int]
    """Files of the checkpoint, by folder."""
    memory_mb: dict[str, float]
    """Of the driver, the JVM and the Python workers."""


@dataclass
class SparkSoak:
    """A run that is looked at."""

    run: Any
    spark: Any
    folder: Path
    looks: list[Look] = field(default_factory=list)
    took_ms: dict[int, float] = field(default_factory=dict)
    """By micro-batch."""
    asked: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def feed(self) -> None:
        """Write small files, a few ahead of what has been read."""
        for number in itertools.count():
            rows = some_rows(1, number, 3)
            for name in "ab":
                place = self.folder / "in" / name
                while len(list(place.glob("*.parquet"))) >= AHEAD:
                    if self.over.wait(0.005):
                        return
                table = rows[name].set_column(0, "ts", pa.array(sorted(rows[name]["ts"].to_pylist())))
                pq.write_table(table, place / f".{number:08d}")
                os.replace(place / f".{number:08d}", place / f"{number:08d}.parquet")

    def go(self, seconds: float, every_s: float) -> None:
        """Run so long, ask for something and look now and then."""
        began, seen = time.monotonic(), -1
        while (at_s := time.monotonic() - began) < seconds:
            for progress in self.run.progress():
                self.took_ms[progress["batchId"]] = progress["durationMs"]["triggerExecution"]
            if not self.run.lives():
                raise ms.MidstreamError(f"the query ended: {self.run.status().get('error')}")
            if at_s >= every_s * (len(self.looks) + 1):
                self.ask()
                self.looks.append(self.look(at_s, seen))
                seen = max(self.took_ms, default=-1)
                print(f"{at_s:7.0f} s: {json.dumps(asdict(self.looks[-1]))}", flush=True)
            time.sleep(0.5)

    def ask(self) -> None:
        """Ask for a change or a migration, in turn."""
        self.asked += 1
        if self.run.live.under_way():
            return
        if self.asked % 2:
            method = METHODS[self.asked // 2 % len(METHODS)]
            self.run.change(QUERIES[(self.asked // 2 + 1) % 2], method)
        else:
            self.run.migrate("(b a)" if self.asked % 4 else "(a b)", "moving-state")

    def look(self, at_s: float, seen: int) -> Look:
        """Look at everything that must stay flat, and take results away."""
        for file in sorted((self.folder / "out").glob("batch-*.parquet"))[:-KEPT_RESULTS]:
            file.unlink()
        lately = [ms for batch, ms in self.took_ms.items() if batch > seen]
        batch_ms = statistics.median(lately) if lately else 0.0
        files = files_of(self.folder / "checkpoint")
        return Look(at_s, len(self.took_ms), batch_ms, self.head_bytes(), files, memory_mb())

    def head_bytes(self) -> int | None:
        """Return the length of the longest head in Spark's state store; None: it cannot be read just now."""
        try:
            reader = self.spark.read.format("statestore").option("stateVarName", "head")
            rows = reader.load(str(self.folder / "checkpoint" / "spark")).selectExpr("value.state").collect()
        except Exception as error:  # a state that Spark has replaced meanwhile
            print(f"  no head: {str(error).splitlines()[0][:120]}", flush=True)
            return None
        return max((len(row[0]) for row in rows), default=None)

    def grown(self) -> list[str]:
        """Return what is larger in the last third of the run than in the third before, by more than a quarter."""
        third = len(self.looks) // 3
        if not third:
            return []
        before, last = self.looks[third : 2 * third], self.looks[-third:]
        out = []
        for name, slack in (("batch_ms", 20.0), ("head_bytes", 2_000.0)):
            out += _grown(name, *[[getattr(k, name) or 0 for k in part] for part in (before, last)], slack)
        for name in sorted(last[-1].files):
            if not name.startswith(OF_SPARK):
                out += _grown(name, *[[k.files.get(name, 0) for k in part] for part in (before, last)], 50)
        for name in last[-1].memory_mb:
            out += _grown(name, *[[k.memory_mb.get(name, 0) for k in part] for part in (before, last)], 50)
        return out

    def report(self) -> dict[str, Any]:
        """Return what there is to say at the end."""
        times = [self.took_ms[batch] for batch in sorted(self.took_ms)]
        tenths = [times[len(times) * k // 10 : len(times) * (k + 1) // 10] for k in range(10)]
        grown = self.grown()
        return {
            "batches": len(times), "asked": self.asked,
            "batch_ms_by_tenth": [statistics.median(tenth) if tenth else None for tenth in tenths],
            "first": asdict(self.looks[0]) if self.looks else None,
            "last": asdict(self.looks[-1]) if self.looks else None,
            "grown": grown, "verdict": "not flat" if grown else "flat",
        }  # fmt: skip


def _grown(name: str, before: list[float], last: list[float], slack: float) -> list[str]:
    was, now = statistics.median(before), statistics.median(last)
    return [f"{name}: {was:,.0f} became {now:,.0f}"] if now > 1.25 * was + slack else []


def files_of(folder: Path) -> dict[str, int]:
    """Return how many files there are in each folder of a checkpoint; those of one bucket count with the others."""
    found: dict[str, int] = {}
    for place, _, names in os.walk(folder):
        parts = Path(place).relative_to(folder).parts
        name = "/".join(parts[:2]) or "."
        found[name] = found.get(name, 0) + len(names)
    return dict(sorted(found.items()))


def memory_mb() -> dict[str, float]:
    """Return the memory that this process and all below it hold."""
    stats = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            behind = (process / "stat").read_text().rpartition(")")[2].split()
            stats[int(process.name)] = int(behind[1]), (process / "comm").read_text().strip(), int(behind[21])
        except (OSError, IndexError):  # it has ended
            continue
    out = {"driver": 0.0, "jvm": 0.0, "workers": 0.0}
    for pid, (_, name, pages) in stats.items():
        above = pid
        while above != os.getpid() and above in stats:
            above = stats[above][0]
        if above == os.getpid():
            kind = "driver" if pid == os.getpid() else "jvm" if name == "java" else "workers"
            out[kind] += pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return {name: round(mb, 1) for name, mb in out.items()}


def started(spark: Any, folder: Path) -> SparkSoak:
    """Start the query over the files of a folder."""
    engine = ms.Engine(spark)
    for name in "ab":
        (folder / "in" / name).mkdir(parents=True)
        options = {"maxFilesPerTrigger": 1, "cleanSource": "delete", "maxFileAge": "2m"}
        frame = spark.readStream.schema("ts long, k long, v long, s string").options(**options)
        engine.stream(name, frame.parquet(str(folder / "in" / name)), time="ts", lateness="500 ms")
    kept = {"event_bytes": 1 << 18}
    run = engine.query(FIRST, name="soak").start(folder / "out", folder / "checkpoint", buckets=2, retention=kept)
    return SparkSoak(run, spark, folder)


def soak(spark: Any, folder: Path, seconds: float, every_s: float) -> dict[str, Any]:
    """Run a soak; return its report."""
    held = started(spark, folder)
    feeder = threading.Thread(target=held.feed, daemon=True)
    feeder.start()
    try:
        held.go(seconds, every_s)
    finally:
        held.over.set()
        held.run.stop(timeout_s=120)
        feeder.join()
    return held.report()


def main() -> int:
    """Run a soak on a session of its own."""
    asked = argparse.ArgumentParser(description=main.__doc__)
    asked.add_argument("--seconds", type=float, default=3600)
    asked.add_argument("--json", type=Path)
    given = asked.parse_args()
    from pyspark.sql import SparkSession

    from midstream.spark.settings import DEFAULTS

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config(map=DEFAULTS).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        report = soak(spark, Path(folder), given.seconds, min(60.0, given.seconds / 6))
    spark.stop()
    print(json.dumps(report, indent=1), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if report["grown"] else 0


if __name__ == "__main__":
    sys.exit(main())
