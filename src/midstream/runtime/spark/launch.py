"""Launch: a Spark session and a running query from a pipeline file."""

import os
import sys
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession

from midstream.model.errors import MidstreamError, PipelineError
from midstream.runtime.aggregates import load_aggregates
from midstream.runtime.engine import Engine, SparkQuery
from midstream.runtime.spark.failure import sentence_of
from midstream.runtime.spark.pipeline_file import PipelineFile, SparkStreamSpec
from midstream.runtime.spark.run import SparkRun
from midstream.runtime.spark.spark_log import SparkLog

DEFAULTS = {
    "spark.app.name": "midstream",
    "spark.driver.memory": "4g",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of a session, unless the pipeline or a spark-submit around it says otherwise."""


def open_session(master: str | None, settings: dict[str, str], log: Path) -> SparkSession:
    """Return the running session, or start one; without a master it is the configured one, or this machine.

    What Spark prints goes to the log.
    """
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    wanted = ({} if submitted else DEFAULTS) | ({"spark.master": master} if master else {}) | settings
    conf = SparkConf(loadDefaults=False).setAll(list(wanted.items()))
    pipe = SparkLog(log)
    try:
        gateway = launch_gateway(conf, {"stdout": pipe.into, "stderr": pipe.into})
        context = SparkContext(conf=conf, gateway=gateway)
    except (PySparkException, Py4JError) as error:
        raise MidstreamError(f"Spark did not start: {sentence_of(str(error))} (its log: {log})") from error
    finally:
        pipe.close()
    context.setLogLevel("ERROR")
    return SparkSession(context)


def launch(file: PipelineFile, spark: SparkSession) -> SparkRun:
    """Start the query of a pipeline, or go on where its checkpoint left off."""
    engine = Engine(spark)
    try:
        for stream in file.streams:
            engine.stream(stream.name, _frame(file, spark, stream), stream.time, stream.lateness_us)
        for aggregate in load_aggregates(file.aggregates).values():
            engine.aggregate(aggregate.name, aggregate.function, aggregate.type)
        query = engine.query(file.sql, file.name, file.plan, file.join)
        assert isinstance(query, SparkQuery)
        run: SparkRun = query.start(
            file.sink, file.checkpoint, file.buckets, file.ordered, file.trigger, file.also_read, file.adapt
        )
    except PipelineError:
        raise
    except MidstreamError as error:
        raise PipelineError(f"pipeline {file.path}: {error}") from error
    except (PySparkException, Py4JError) as error:
        raise PipelineError(f"pipeline {file.path}: {sentence_of(str(error))}") from error
    return run


def _frame(file: PipelineFile, spark: SparkSession, stream: SparkStreamSpec) -> DataFrame:
    reader = spark.readStream.format(stream.format).options(**stream.options)
    try:
        return (reader.schema(stream.schema) if stream.schema else reader).load()
    except (PySparkException, Py4JError) as error:
        why = sentence_of(str(error))
        raise PipelineError(f"pipeline {file.path}: [streams.{stream.name}] cannot be read by Spark: {why}") from error
