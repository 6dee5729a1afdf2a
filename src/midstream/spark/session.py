"""Session: the Spark session a pipeline runs in, and the streams it reads there."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession

from midstream.model.errors import MidstreamError, PipelineError
from midstream.spark.failure import sentence_of
from midstream.spark.pipeline_file import PipelineFile, SparkStreamSpec
from midstream.spark.settings import defaults
from midstream.spark.spark_log import SparkLog
from midstream.spark.submit import submitted_with


def open_session(master: str | None, settings: dict[str, str], log: Path) -> SparkSession:
    """Return the running session, or start one; without a master it is the configured one, or this machine.

    What Spark prints goes to the log.
    """
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    wanted = ({} if submitted else defaults()) | ({"spark.master": master} if master else {}) | settings
    conf = SparkConf(loadDefaults=False).setAll(list(wanted.items()))
    pipe = SparkLog(log)
    try:
        with submitted_with(wanted):
            gateway = launch_gateway(None, {"stdout": pipe.into, "stderr": pipe.into})
        context = SparkContext(conf=conf, gateway=gateway)
    except (PySparkException, Py4JError) as error:
        raise MidstreamError(f"Spark did not start: {sentence_of(str(error))} (its log: {log})") from error
    finally:
        pipe.close()
    context.setLogLevel("ERROR")
    return SparkSession(context)


def read_stream(file: PipelineFile, spark: SparkSession, stream: SparkStreamSpec) -> DataFrame:
    """Return a stream of a pipeline as Spark reads it."""
    reader = spark.readStream.format(stream.format).options(**stream.options)
    try:
        return (reader.schema(stream.schema) if stream.schema else reader).load()
    except (PySparkException, Py4JError) as error:
        why = sentence_of(str(error))
        raise PipelineError(f"pipeline {file.path}: [streams.{stream.name}] cannot be read by Spark: {why}") from error


def check_session(spark: SparkSession) -> None:
    """Refuse a session that was stopped: whatever is asked of it ends in a stack trace, or waits for ever."""
    context = spark.sparkContext._jsc
    if context is None or context.sc().isStopped():
        raise MidstreamError("the Spark session was stopped; make an engine with a new one")


@contextmanager
def one_sentence() -> Iterator[None]:
    """Raise what Spark complains about as one sentence."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise MidstreamError(sentence_of(str(error))) from error
