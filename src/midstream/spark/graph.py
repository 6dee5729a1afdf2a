"""The graph: streaming DataFrames to one DataFrame of output lines, with every bucket on its own partition."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from midstream.engine.bucket.spec import BucketSpec
from midstream.live.mailbox import Mailbox
from midstream.live.pack import CONTROL, PACKED, Packer, packed_batch
from midstream.model.failpoint import reach
from midstream.model.stream import StreamSchema
from midstream.plan.plan import Plan
from midstream.spark.processor import OUTPUT, BucketProcessor, batch_number

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


def column_of(name: str) -> Column:
    """Return the column of exactly that name, whatever signs are in it."""
    return F.col("`" + name.replace("`", "``") + "`")


@dataclass(frozen=True)
class Input:
    """A stream that is read: its schema, its position among those declared, and its rows."""

    schema: StreamSchema
    position: int
    frame: DataFrame


def output_lines(
    versions: Callable[[], Sequence[tuple[int, Plan]]],
    inputs: Sequence[Input],
    spec: BucketSpec,
    shared: str,
    controls: DataFrame | None,
    mail: Mailbox | None = None,
) -> DataFrame:
    """Return the lines all buckets emit: results, reports, late rows."""
    packed = []
    for read in inputs:
        stream, frame, names = read.schema, read.frame, None
        if not spec.recorded:
            # A later version may read any column a query can use.
            names = [c for c in frame.columns if c == stream.time or stream.type_of(c) is not None]
            # Spark does not take a name with signs in it as it is.
            frame = frame.select(*[column_of(name).alias(f"c{k}") for k, name in enumerate(names)])
        packers = [
            Packer(versions, stream.name, read.position, stream.time, s.labels, s.recorded, s.judges_ahead,
                   s.ahead_us(read.position))
            for s in (spec, spec.of_batch(spec.runs.first - 1))
        ]  # fmt: skip
        packed.append(frame.mapInArrow(_PackPartition(packers[0], packers[1], spec.runs.first, names), PACKED))
    if controls is not None:
        packed.append(control_lines(controls, spec.labels))
    together = reduce(DataFrame.unionByName, packed)
    processor = BucketProcessor(lambda label: spec, shared, mail)
    return together.groupBy("bucket").transformWithState(processor, OUTPUT, "Append", "None")


class _PackPartition:
    """Packs the rows of one partition, in its worker; `names` are those of its columns, None: they have them.

    Micro-batches before the `first` were planned by another run, and are packed as that one did.
    """

    def __init__(self, packer: Packer, before: Packer, first: int, names: Sequence[str] | None) -> None:
        self._packer, self._before, self._first = packer, before, first
        self._names = names

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack one partition."""
        held = list(batches)
        reach("rows read")
        table = pa.Table.from_batches(held) if held else None
        if table is not None and self._names is not None:
            table = table.rename_columns(list(self._names))
        number = batch_number()
        packer = self._packer if number is None or number >= self._first else self._before
        packed = packed_batch(packer.lines(table, TaskContext.get().partitionId()))
        reach("rows packed")
        yield packed
        reach("rows sent")


def control_lines(controls: DataFrame, labels: Sequence[int]) -> DataFrame:
    """Return control rows as packed lines, for every bucket."""
    every = F.explode(F.array(*[F.lit(label).cast("int") for label in labels]))
    nought = F.lit(0).cast("int")
    return controls.select(
        every.alias("bucket"),
        F.lit(CONTROL).cast("int").alias("kind"),
        nought.alias("version"),
        nought.alias("alias"),
        nought.alias("part"),
        F.lit(0).cast("long").alias("high"),
        F.col("value").cast("binary").alias("blob"),
    )
