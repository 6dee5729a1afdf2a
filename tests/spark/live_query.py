"""A small live query as a process of its own, so that tests can kill it: `python live_query.py FOLDER`.

Reads the streams in FOLDER/in, one file of each per micro-batch, joins them in two buckets, writes FOLDER/out.
"""

import sys
from pathlib import Path

import midstream as ms

SQL = """SELECT a.v AS va, b.v AS vb, c.v AS vc
FROM a [RANGE 4 SECONDS], b [RANGE 3 SECONDS], c [ROWS 2 PARTITION BY k]
WHERE a.k = b.k AND b.k = c.k"""


def main(folder: Path) -> None:
    from midstream.spark.settings import local_session  # PySpark is an extra; tests are collected without it

    spark = local_session(failures=8)
    engine = ms.Engine(spark)
    for name in "abc":
        frame = spark.readStream.schema("ts long, k long, v long").option("maxFilesPerTrigger", 1)
        engine.stream(name, frame.parquet(str(folder / "in" / name)), time="ts", lateness="500 ms")
    query = engine.query(SQL, name="live")
    run = query.start(folder / "out", folder / "checkpoint", buckets=2, trigger={"availableNow": True})
    run.wait()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
