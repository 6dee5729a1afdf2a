"""Spark's own chained stream-stream joins, state in RocksDB with changelog checkpoints."""

from benchmarks.peers_systems.job import Job, Said, serve
from benchmarks.peers_systems.spark_join import run_spark_join


def run(job: Job) -> Said:
    """Run the job."""
    changelog = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
    return run_spark_join(job, "RocksDBStateStoreProvider", **changelog)


if __name__ == "__main__":
    serve(run)
