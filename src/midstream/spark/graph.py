"""The graph: streaming DataFrames to one DataFrame of output lines, with every bucket on its own partition."""

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from midstream.local.loop import AnyPlan
from midstream.model.stream import StreamSchema
from midstream.spark.blobs import from_blob
from midstream.spark.bucket import BucketSpec
from midstream.spark.hop_bucket import HopBucketSpec
from midstream.spark.pack import CONTROL, PACKED, Packer
from midstream.spark.processor import OUTPUT, BucketProcessor

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Blobs are large: a handful of them is a batch.
    "spark.sql.execution.arrow.transformWithStateInPySpark.maxStateRecordsPerBatch": "64",
}
"""What the state store of a query needs; set while it starts, put back afterwards."""


def labels_of(spark: SparkSession, buckets: int) -> tuple[int, ...]:
    """Name the buckets so that Spark's hash puts each on a partition of its own."""
    places = (
        spark.range(64 * buckets + 64).select(F.expr(f"pmod(hash(cast(id as int)), {buckets})").alias("p")).collect()
    )
    labels: dict[int, int] = {}
    for label, place in enumerate(places):
        labels.setdefault(place.p, label)
    return tuple(labels[p] for p in sorted(labels))


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the columns of a DataFrame as Arrow sees them."""
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    return to_arrow_schema(frame.schema, timezone=zone)


def output_lines(
    plan: AnyPlan,
    frames: Mapping[str, DataFrame],
    spec: BucketSpec | HopBucketSpec,
    labels: tuple[int, ...],
    controls: DataFrame | None,
    streams: Mapping[str, StreamSchema],
    positions: Mapping[str, int],
) -> DataFrame:
    """Return the lines all buckets give out: results, events, late rows."""
    packed = []
    for name, stream in streams.items():
        frame = frames[name]
        if not spec.recorded:
            # A later version may read any column a query can use.
            wanted = [c for c in frame.columns if c == stream.time or stream.type_of(c) is not None]
            frame = frame.select(*[F.col(f"`{c}`") for c in wanted])
        later = (spec.versions, spec.repository) if isinstance(spec, BucketSpec) else ((), None)
        packer = Packer(plan, name, positions[name], stream.time, labels, spec.recorded, *later)
        packed.append(frame.mapInArrow(packer, PACKED))
    if controls is not None:
        every = F.explode(F.array(*[F.lit(label).cast("int") for label in labels]))
        packed.append(
            controls.select(
                every.alias("bucket"),
                F.lit(CONTROL).cast("int").alias("alias"),
                F.lit(0).cast("int").alias("part"),
                F.lit(0).cast("long").alias("high"),
                F.col("value").cast("binary").alias("blob"),
            )
        )
    together = reduce(DataFrame.unionByName, packed)
    return together.groupBy("bucket").transformWithState(BucketProcessor(spec), OUTPUT, "Append", "None")


def unpack(blobs: list[bytes], schema: pa.Schema) -> pa.Table:
    """Read result blobs as one table with the given columns and, where there are any, order columns."""
    tables = [from_blob(blob) for blob in blobs]
    return pa.concat_tables(tables) if tables else schema.empty_table()
