"""The limit: the same files, shuffled by key on Spark, counted in Python, no state and no output."""

from collections.abc import Iterator
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.peers_systems.job import NAMES, Job, Said, serve
from benchmarks.peers_systems.spark_session import said_of, sources, spark_session


def tally(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Replace rows by their number and the sum of their payloads."""
    for batch in batches:
        total = pc.sum(batch["v"]).as_py() or 0
        yield pa.RecordBatch.from_pydict({"n": pa.array([len(batch)]), "total": pa.array([total])})


def run(job: Job) -> Said:
    """Run the job; rows and payloads are counted on the way, and that is its agreement."""
    spark = spark_session(job)
    from pyspark.sql import functions as f

    rows = [
        df.select(f.lit(place).alias("stream"), "ts", "k", "v") for place, df in enumerate(sources(spark, job).values())
    ]
    query = (
        reduce(lambda x, y: x.union(y), rows)
        .repartition(2, "k")
        .mapInArrow(tally, "n BIGINT, total BIGINT")
        .observe("seen", f.sum("n").alias("n"), f.sum("total").alias("total"))
        .writeStream.format("noop")
        .option("checkpointLocation", str(job.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seen = [p["observedMetrics"].get("seen", {}) for p in query.recentProgress]
    found = tuple(sum((row["n"] or 0, row["total"] or 0)[i] for row in seen if row) for i in (0, 1))
    read = [pq.read_table(job.parquet / name, columns=["v"])["v"] for name in NAMES]
    expected = (sum(len(v) for v in read), sum(pc.sum(v).as_py() for v in read))
    return said_of(job, query.recentProgress, "stateless; rows and payloads counted", found == expected)


if __name__ == "__main__":
    serve(run)
