"""On Spark, changing a user's streaming program: stop and start anew, from the earliest or latest rows, against deploy.

Rows of one stream come once a second; a windowed sum is replaced by a rewritten one on the way. Three times the same:
stopped and started with a new checkpoint from the earliest rows, the same from the latest, and by `engine.adopt` and
`migrate`. Counted in the output: the longest time without output before the change and around it, windows lost or cut
short, windows repeated, and the rows that all queries have read.
"""

import itertools
import resource
import shutil
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import midstream as ms
from benchmarks.measure import Progress

RATE = 2_000
"""Rows of a second."""
WINDOW_S, DELAY_S = 4, 2
WARM_S = 20
"""Seconds before the change, or more: until windows have left."""
Output = list[tuple[float, dict[str, Any]]]
"""Rows, and when they were seen."""


def old(spark: Any, streams: dict[str, Any]) -> Any:
    """Sums per window and key."""
    from pyspark.sql import functions as F

    rows = streams["s"].withWatermark("ts", f"{DELAY_S} seconds")
    grouped = rows.groupBy(F.window("ts", f"{WINDOW_S} seconds").alias("w"), "k")
    return grouped.agg(F.count("*").alias("n")).select(F.col("w.start").cast("long").alias("start"), "k", "n")


def new(spark: Any, streams: dict[str, Any]) -> Any:
    """The same, with one more stateful column that Spark's checkpoint would refuse."""
    from pyspark.sql import functions as F

    rows = streams["s"].withWatermark("ts", f"{DELAY_S} seconds").withColumn("even", F.col("k") % 2)
    grouped = rows.groupBy(F.window("ts", f"{WINDOW_S} seconds").alias("w"), "k", "even")
    return grouped.agg(F.count("*").alias("n"), F.max("even").alias("e")).select(
        F.col("w.start").cast("long").alias("start"), "k", "n"
    )


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return the figures of the three ways."""
    from midstream.spark.settings import REHEARSAL, held_settings, local_session

    spark = local_session()
    length_s = int(seconds or 60)
    figures: dict[str, Any] = {}
    with held_settings(spark, {**REHEARSAL, "spark.sql.shuffle.partitions": "2"}):
        for step, (name, way) in enumerate((("earliest", _anew), ("latest", _anew), ("deploy", _deploy))):
            folder = Path(tempfile.mkdtemp(prefix="midstream-bench-"))
            try:
                figures[name] = _measure(spark, folder, length_s, way, name)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            progress(step + 1, 3)
    work = {f"{name}_{key}": value for name, found in figures.items() for key, value in found.items()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    parameters = {"rate": RATE, "seconds": length_s, "window_s": WINDOW_S, "delay_s": DELAY_S}
    return {"rows_per_s": float(RATE), "peak_bytes": peak, **work, "parameters": parameters}


def _measure(spark: Any, folder: Path, length_s: int, way: Any, name: str) -> dict[str, float]:
    """Let rows come, change the program half way, and count."""
    (folder / "in").mkdir()
    (folder / "out").mkdir()
    source = threading.Thread(target=_write, args=(folder / "in", length_s), daemon=True)
    seen: Output = []
    source.start()
    begun_s = time.monotonic()
    read, changed_s = way(spark, folder, name, begun_s, source, seen)
    return {**_count(seen, length_s, begun_s, changed_s), "rows_read": float(read)}


def _warm_up(begun_s: float, source: threading.Thread, seen: Output) -> float:
    """Wait until the program has run for a while and windows have left; return when that is."""
    while source.is_alive() and (time.monotonic() < begun_s + WARM_S or len({row["start"] for _, row in seen}) < 2):
        time.sleep(0.1)
    return time.monotonic() - begun_s


def _write(folder: Path, length_s: int) -> None:
    """Write a file a second."""
    begun_s = time.monotonic()
    for second in range(length_s):
        stamps = [second * 1_000_000 + n * 1_000_000 // RATE for n in range(RATE)]
        keys = pa.array([n % 10 for n in range(RATE)], pa.int64())
        table = pa.table({"ts": pa.array(stamps, pa.timestamp("us", "UTC")), "k": keys})
        pq.write_table(table, folder / f".{second:05d}.parquet")
        (folder / f".{second:05d}.parquet").rename(folder / f"{second:05d}.parquet")
        time.sleep(max(0.0, begun_s + second + 1 - time.monotonic()))


def _stream(spark: Any, folder: Path, since_s: int = 0) -> Any:
    """Return the rows from a second on: files have no latest offset, so those before are left out."""
    reader = spark.readStream.schema("ts TIMESTAMP, k LONG")
    return reader.parquet(str(folder / "in")).where(f"ts >= timestamp_seconds({since_s})")


def _anew(
    spark: Any, folder: Path, name: str, begun_s: float, source: threading.Thread, seen: Output
) -> tuple[int, float]:
    """Stop the old program, start the new one with a new checkpoint; return how many rows were read, and when."""
    read, changed_s = 0, 0.0
    for number, build in enumerate((old, new)):
        since_s = len(list((folder / "in").glob("[0-9]*.parquet"))) if (name, number) == ("latest", 1) else 0
        frame = build(spark, {"s": _stream(spark, folder, since_s)})

        def keep(rows: Any, batch: int) -> None:
            found = rows.collect()
            seen.extend((time.monotonic(), row.asDict()) for row in found)

        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / f"checkpoint{number}"))
        query = writer.trigger(processingTime="1 second").start()
        if number == 0:
            changed_s = _warm_up(begun_s, source, seen)
        else:
            source.join()
            time.sleep(5)
            query.processAllAvailable()
        query.stop()
        read += sum(progress["numInputRows"] for progress in query.recentProgress) - since_s * RATE
    return read, changed_s


def _deploy(
    spark: Any, folder: Path, name: str, begun_s: float, source: threading.Thread, seen: Output
) -> tuple[int, float]:
    """Deploy the new program beside the old one; return how many rows were read, and when that was asked for."""
    engine = ms.Engine(spark)
    engine.stream("s", _stream(spark, folder), time="ts")

    def keep(rows: Any, batch: int) -> None:
        seen.extend((time.monotonic(), row.asDict()) for row in rows.collect())

    adopted = engine.adopt("bench", old, builds=[new]).start(keep, folder / "checkpoint")
    changed_s = _warm_up(begun_s, source, seen)
    identity = adopted.migrate(new, history=f"{WINDOW_S + DELAY_S} seconds", grace="1 second")
    record = adopted.wait_for_deployment(identity)
    assert record is not None, "it has not switched"
    first = adopted.versions()[-1]["first"]
    source.join()
    time.sleep(5)
    adopted.stop()
    status = adopted.status()
    # The tee reads each row once, and each version those of its segments.
    share = (record["position"] - first + 1) / max(status["segment"], 1)
    return int(status["rows_in"] * (2 + share)), changed_s


def _count(seen: Output, length_s: int, begun_s: float, changed_s: float) -> dict[str, float]:
    """Return what is wrong with an output: windows lost or cut short, repeated ones, and the longest silence."""
    whole = RATE * WINDOW_S // 10
    windows = Counter((row["start"], row["k"]) for _, row in seen)
    right = Counter((row["start"], row["k"]) for _, row in seen if row["n"] == whole)
    last = (length_s - 1 - DELAY_S) // WINDOW_S * WINDOW_S
    wanted = {(start, k) for start in range(0, last, WINDOW_S) for k in range(10)}
    times = sorted({at - begun_s for at, _ in seen})
    gaps = list(itertools.pairwise(times))
    before = [b - a for a, b in gaps if b < changed_s]
    around = [b - a for a, b in gaps if b >= changed_s]
    return {
        "ordinary_s": round(max(before, default=0.0), 2),
        "silence_s": round(max(around, default=float(length_s)), 2),
        "windows_lost": float(len(wanted - set(right))),
        "windows_repeated": float(sum(count - 1 for count in windows.values())),
        "rows_lost": float(whole * len(wanted - set(right))),
    }
