"""Spark's own stream-stream joins, chained: ((a b) c) d, as its best-kept rules allow.

    a ─┐
    b ─┴▶ join ─┐   Spark refuses a join that would see two event-time columns, so only the watermarked
    c ──────────┴▶ join ─┐   time of `a` goes on; the others go on as plain microseconds. Every step bounds its
    d ───────────────────┴▶ join ──▶ Parquet   state by `a`'s time and compares the plain ones pair by pair.

State: Spark's, in the state store provider asked for. The watermark has one second of slack: with none, Spark drops
rows on the boundary of a window.
"""

from benchmarks.peers_systems.job import NAMES, Job, Said
from benchmarks.peers_systems.spark_session import said_of, sources, spark_session

PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
SLACK = "1 second"


def run_spark_join(job: Job, provider: str, **settings: str) -> Said:
    """Join the four streams with a state store provider."""
    spark = spark_session(job, **{"spark.sql.streaming.stateStore.providerClass": PROVIDERS + provider, **settings})
    from pyspark.sql import functions as f

    streams = {
        name: df.withWatermark("t", SLACK).select(
            f.col("t").alias(f"t_{name}"),
            f.col("ts").alias(f"ts_{name}"),
            f.col("k").alias(f"k_{name}"),
            f.col("v").alias(f"v_{name}"),
        )
        for name, df in sources(spark, job).items()
    }
    width = f.expr(f"INTERVAL {job.window_us // 1_000} MILLISECONDS")
    joined = streams["a"]
    for place, name in enumerate(NAMES[1:], start=1):
        time = f.col(f"t_{name}")
        near = (f.col("k_a") == f.col(f"k_{name}")) & time.between(f.col("t_a") - width, f.col("t_a") + width)
        for other in NAMES[1:place]:
            near &= f.abs(f.col(f"ts_{name}") - f.col(f"ts_{other}")) <= job.window_us
        joined = joined.join(streams[name], near).drop(f"t_{name}", f"k_{name}")
    query = (
        joined.select(*(f"v_{name}" for name in NAMES))
        .writeStream.format("parquet")
        .option("path", str(job.out))
        .option("checkpointLocation", str(job.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return said_of(job, query.recentProgress)
