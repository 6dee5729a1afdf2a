"""A hopping query as a process of its own, so that tests can kill it: `python live_hopping.py FOLDER SINK`.

Reads the streams in FOLDER/in, one file of each per micro-batch, in two buckets. SINK is `complete`, `delta` or
`table`; FOLDER/out has the newest answer, the changes of every hop, or the table they keep up to date.
"""

import sys
from pathlib import Path

import midstream as ms

SQL = """(SELECT a.k, a.v % 3 AS w FROM a [RANGE 4 SECONDS], b [ROWS 3 PARTITION BY k] WHERE a.k = b.k AND b.v % 2 = 0)
EXCEPT ALL (SELECT k, v % 3 AS w FROM c [RANGE 2 SECONDS])
HOP BY 500 MILLISECONDS EMIT {}"""


def main(folder: Path, kind: str) -> None:
    from midstream.spark.settings import local_session  # PySpark is an extra; tests are collected without it

    spark = local_session(failures=8)
    engine = ms.Engine(spark)
    for name in "abc":
        frame = spark.readStream.schema("ts long, k long, v long").option("maxFilesPerTrigger", 1)
        engine.stream(name, frame.parquet(str(folder / "in" / name)), time="ts", lateness="500 ms")
    query = engine.query(SQL.format("COMPLETE" if kind == "complete" else "DELTA"), name="live", plan="modes=delta")
    sink = {"format": "table" if kind == "table" else "folder", "path": str(folder / "out")}
    query.start(sink, folder / "checkpoint", buckets=2, trigger={"availableNow": True}).wait()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
