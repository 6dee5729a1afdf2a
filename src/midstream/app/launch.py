"""Launch: a running query from a pipeline file."""

from typing import Any

from midstream.app.engine import Engine, SparkQuery
from midstream.local.aggregates import load_aggregates
from midstream.model.errors import MidstreamError, PipelineError
from midstream.spark.pipeline_file import PipelineFile
from midstream.spark.run import SparkRun
from midstream.spark.session import one_sentence, read_stream


def launch(file: PipelineFile, spark: Any) -> SparkRun:
    """Start the query of a pipeline, or go on where its checkpoint left off."""
    engine = Engine(spark)
    try:
        with one_sentence():
            for stream in file.streams:
                timing = stream.timing
                engine.stream(
                    stream.name, read_stream(file, spark, stream), stream.time, timing.lateness_us, timing.idle_us,
                    timing.ahead_us,
                )  # fmt: skip
            for aggregate in load_aggregates(file.aggregates).values():
                engine.aggregate(aggregate.name, aggregate.function, aggregate.type)
            query = engine.query(file.sql, file.name, file.plan, file.join)
            assert isinstance(query, SparkQuery)
            return query.start(
                file.sink,
                file.checkpoint,
                file.buckets,
                file.ordered,
                file.trigger,
                file.also_read,
                file.adapt,
                file.waiting,
                file.retention,
                file.sites,
                file.optimize,
                file.load,
            )
    except PipelineError:
        raise
    except MidstreamError as error:
        raise PipelineError(f"pipeline {file.path}: {error}") from error
