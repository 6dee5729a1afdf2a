"""Spark settings: those of a session, and those a query needs while it starts."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from midstream.model.errors import MidstreamError
from midstream.model.private_folder import private_folder, private_place
from midstream.spark.graph import SETTINGS

DEFAULTS = {
    "spark.app.name": "midstream",
    "spark.driver.memory": "4g",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of a session, unless the pipeline or a spark-submit around it says otherwise."""
LOCAL_DIR = "spark.local.dir"
REHEARSAL = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""What a query needs that is never started again: on a local disk Spark's own choice starts five processes a file."""


def defaults() -> dict[str, str]:
    """Return `DEFAULTS`, and a folder of this user alone for rows on their way between workers.

    Anybody could read them where Spark puts them: in files of mode 0644 in the folder for temporary files.
    """
    conf = os.environ.get("SPARK_CONF_DIR") or f"{os.environ.get('SPARK_HOME', '')}/conf"
    try:
        configured = Path(conf, "spark-defaults.conf").read_text(encoding="utf-8", errors="replace")
    except OSError:
        configured = ""
    if any(line.strip().startswith(LOCAL_DIR) for line in configured.splitlines()):
        return DEFAULTS
    try:
        place = private_folder(private_place(Path(tempfile.gettempdir())) / f"midstream-{os.geteuid()}")
        return {**DEFAULTS, LOCAL_DIR: str(private_folder(place / "spark"))}
    except OSError:  # nowhere a folder can be this user's alone
        return DEFAULTS


def local_session(cores: int = 2, failures: int = 4) -> SparkSession:
    """Return the running session, or start one on this machine; a task may fail that often before its query does."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}, {failures}]").config(map=defaults())
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
    with held_settings(spark, wanted):
        yield


@contextmanager
def held_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Set some settings of a session, and put them back."""
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
