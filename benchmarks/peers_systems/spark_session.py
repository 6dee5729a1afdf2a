"""Spark as every Spark system of this benchmark runs it: two cores, two shuffle partitions, the same driver memory."""

import os
import sys
from typing import Any

from benchmarks.peers_systems.job import NAMES, Job, Said, Skipped, steady

SCHEMA = "ts BIGINT, t TIMESTAMP, k BIGINT, v BIGINT"


def spark_session(job: Job, **settings: str) -> Any:
    """Start Spark, or say why it cannot run here."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise Skipped("PySpark is not installed here (`pip install -e '.[spark]'`)") from error
    builder = SparkSession.builder.master("local[2]").appName(f"peers {job.system}")
    fixed = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.driver.host": "localhost",
        "spark.local.dir": str(job.scratch),
        "spark.sql.warehouse.dir": str(job.scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    for key, value in {**fixed, **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def sources(spark: Any, job: Job) -> dict[str, Any]:
    """Open the four streams so that a micro-batch reads one file of each."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return {name: reader.parquet(str(job.parquet / name)) for name in NAMES}


def said_of(job: Job, progress: list[Any], note: str = "", agrees: bool | None = None) -> Said:
    """Turn Spark's progress reports into what is said of the run."""
    batches = [(p["numInputRows"], p["durationMs"]["triggerExecution"] / 1_000) for p in progress]
    rate, seconds = steady(job, batches)
    return Said(rate, sum(rows for rows, _ in batches), note, seconds, agrees=agrees)
