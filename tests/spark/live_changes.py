"""A live query that is changed once on its way: run again after it was killed, it goes on where it was."""

import sys
import time
from pathlib import Path

import midstream as ms

FIRST = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 4 SECONDS SLIDE 500 MILLISECONDS] GROUP BY k"
SECOND = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] WHERE v % 2 = 0 GROUP BY k"
ROWS = 200


def main(folder: Path, method: str, order: str) -> None:
    from midstream.spark.settings import local_session  # PySpark is an extra; tests are collected without it

    spark = local_session(failures=8)
    reader = spark.readStream.schema("ts long, k long, v long").option("maxFilesPerTrigger", 1)
    engine = ms.Engine(spark).stream("s", reader.parquet(str(folder / "in" / "s")), time="ts")
    run = engine.query(FIRST, name="live").start(folder / "out", folder / "checkpoint", buckets=2, ordered=True)
    total = sum(1 for _ in (folder / "in" / "s").iterdir()) * ROWS
    asked = any((folder / "checkpoint" / "versions").glob("*.version"))
    while True:
        status = run.status()
        read = status.get("rows_in", 0) + (status.get("last_batch") or {}).get("waiting", 0)
        if not asked and read >= total // 5:
            run.change(SECOND, method, order or None)
            asked = True
        if read >= total or status["state"] not in ("running", "not started"):
            break
        time.sleep(0.1)
    # Time stands still behind the last row; what several buckets decide reaches them with the next micro-batches.
    time.sleep(3)
    run.stop(drain=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
