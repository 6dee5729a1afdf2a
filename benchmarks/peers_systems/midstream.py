"""Midstream on Spark: the same query as one exactly-once Structured Streaming pipeline."""

from dataclasses import replace
from itertools import pairwise

import midstream as ms
from benchmarks.peers_systems.job import NAMES, Job, Said, Skipped, serve
from benchmarks.peers_systems.spark_session import said_of, sources, spark_session
from midstream.app.engine import SparkQuery


def sql(window_us: int) -> str:
    """Write the query in Midstream's dialect."""
    outputs = ", ".join(f"{x}.v AS v_{x}" for x in NAMES)
    streams = ", ".join(f"{x} [RANGE {window_us // 1_000} MILLISECONDS]" for x in NAMES)
    keys = " AND ".join(f"{x}.k = {y}.k" for x, y in pairwise(NAMES))
    return f"SELECT {outputs} FROM {streams} WHERE {keys}"


def run(job: Job) -> Said:
    """Run the job."""
    spark = spark_session(
        job,
        **{
            "spark.sql.streaming.stateStore.providerClass": (
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
            ),
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        },
    )
    try:
        engine = ms.Engine(spark)
    except ms.MidstreamError as error:
        raise Skipped(str(error)) from error
    for name, df in sources(spark, job).items():
        engine.stream(name, df.select("ts", "k", "v"), time="ts")
    query = engine.query(sql(job.window_us), name="peers")
    assert isinstance(query, SparkQuery)
    run = query.start(sink=str(job.out), checkpoint=str(job.checkpoint), buckets=2, trigger={"availableNow": True})
    run.wait()
    # Rows at the very end wait for their time to pass on all streams, so the last instants are not compared.
    released = run.status()["last_batch"]["released_us"]
    return replace(said_of(job, run.progress()), complete_until_us=released)


if __name__ == "__main__":
    serve(run)
