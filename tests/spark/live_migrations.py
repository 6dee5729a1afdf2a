"""A live query that migrates while it runs, as a process of its own: `python live_migrations.py FOLDER STRATEGY`.

Reads the streams in FOLDER/in, one file of each per micro-batch, joins them in two buckets, writes FOLDER/out. Whenever
it is started it asks for the next plan of a list, and stops once everything has been read.
"""

import sys
import time
from pathlib import Path

import midstream as ms

SQL = """SELECT a.v AS va, b.v AS vb, c.v AS vc, d.v AS vd
FROM a [RANGE 12 SECONDS], b [RANGE 9 SECONDS], c [RANGE 12 SECONDS], d [RANGE 6 SECONDS]
WHERE a.k = b.k AND b.k = c.k AND c.k = d.k AND a.v <> d.v"""
PLANS = ["(((a b) c) d)", "(a (b (c d)))", "((a c) (b d))", "(((d c) b) a)", "((b c) (a d))"]


def main(folder: Path, strategy: str) -> None:
    from midstream.spark.settings import local_session  # PySpark is an extra; tests are collected without it

    spark = local_session(failures=8)
    engine = ms.Engine(spark)
    for name in "abcd":
        frame = spark.readStream.schema("ts long, k long, v long").option("maxFilesPerTrigger", 1)
        engine.stream(name, frame.parquet(str(folder / "in" / name)), time="ts")
    query = engine.query(SQL, name="live", plan=PLANS[0])
    run = query.start(folder / "out", folder / "checkpoint", buckets=2)
    total = sum(1 for _ in (folder / "in" / "a").iterdir()) * 300 * 4
    asked = None
    while True:
        status = run.status()
        read = status.get("rows_in", 0) + (status.get("last_batch") or {}).get("waiting", 0)
        if asked is None and read >= total // 5:
            plans = [p for p in PLANS if p != status["plan"]]
            asked = run.migrate(plans[status["last_batch"]["batch"] % len(plans)], strategy)
        if read >= total:
            break
        time.sleep(0.1)
    run.stop(drain=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
