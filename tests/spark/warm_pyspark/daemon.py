"""The daemon: Spark's own, after some imports. Named by `spark.python.daemon.module`."""

import pandas  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager
from pyspark.sql.streaming import stateful_processor_api_client  # noqa: F401

import midstream.live.result_folder
import midstream.spark.lines
import midstream.spark.processor  # noqa: F401

if __name__ == "__main__":
    manager()
