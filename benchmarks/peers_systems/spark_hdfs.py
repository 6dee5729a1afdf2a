"""Spark's own chained stream-stream joins, state in the memory of the executor with files beneath (HDFS-backed)."""

from benchmarks.peers_systems.job import Job, Said, serve
from benchmarks.peers_systems.spark_join import run_spark_join


def run(job: Job) -> Said:
    """Run the job."""
    return run_spark_join(job, "HDFSBackedStateStoreProvider")


if __name__ == "__main__":
    serve(run)
