"""Spark settings: those of a session, and those a query needs while it starts."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from midstream.model.errors import MidstreamError
from midstream.spark.graph import SETTINGS

DEFAULTS = {
    "spark.app.name": "midstream",
    "spark.driver.memory": "4g",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of a session, unless the pipeline or a spark-submit around it says otherwise."""
REHEARSAL = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""What a query needs that is never started again: on a local disk Spark's own choice starts five processes a file."""


def local_session(cores: int = 2, failures: int = 4) -> SparkSession:
    """Return the running session, or start one on this machine; a task may fail that often before its query does."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}, {failures}]").config(map=DEFAULTS)
    try:
        session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise MidstreamError("Spark needs Java 17 or later: set JAVA_HOME, or run `make setup`") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def with_settings(spark: SparkSession, buckets: int, rehearsal: bool = False) -> Iterator[None]:
    """Set what a starting query takes from its session, and put it back."""
    wanted = {**SETTINGS, **(REHEARSAL if rehearsal else {}), "spark.sql.shuffle.partitions": str(buckets)}
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, held in before.items():
            if held is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, held)
