"""Sinks on Spark: what is done with the results of one micro-batch.

Contract: a batch may come again with the same number after a crash, with the same rows. A sink is exactly-once when
writing a batch twice leaves the same as writing it once. The folder of Parquet and the kept table are; a function given
by the user is if it uses the number; other Spark formats are at-least-once.

    results of one version that need not meet ──▶ write_frame, or write_lines: straight from the workers
    results that met: departures, hop by hop   ──▶ write
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession

from midstream.engine.results.merger import Departure
from midstream.local.files import results_folder
from midstream.model.errors import SinkError
from midstream.model.failpoint import reach
from midstream.spark.blobs import from_blob
from midstream.spark.kept_table import HOP, KeptTable, replace_answer
from midstream.spark.lines import RESULT

TABLE = "table"
ONLY_APPEND = ("kafka",)
"""Formats that cannot replace what they have."""


class BatchSink(Protocol):
    """Takes the results of each micro-batch."""

    def write_frame(self, results: DataFrame, batch: int) -> None:
        """Take results that lie with the workers."""

    def write(self, departures: Sequence[Departure], schema: pa.Schema, batch: int) -> None:
        """Take results that met, in order; `schema` is that of the newest version."""


class ParquetFolder:
    """A folder of Parquet files, those of batch n named `batch-n-*.parquet`; each batch is there once.

    Files are written beside their place and renamed; a batch that comes again replaces its files. Whole answers of a
    query that hops go to `answer.parquet`, the newest in place of the one before.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = results_folder(folder)

    def write_frame(self, results: DataFrame, batch: int) -> None:
        """Replace the files of a batch."""
        pending = self._pending(batch)
        results.write.parquet(str(pending))
        self._replace(pending, batch)

    def write_lines(self, lines: DataFrame, schema: pa.Schema, batch: int) -> list[Row]:
        """Replace the files of a batch, written by the workers that have the results; return the other lines.

        One job, and results never pass through the JVM as rows.
        """
        pending = self._pending(batch)
        pending.mkdir()
        writer = _FileWriter(str(pending), schema)
        others = lines.select("bucket", "kind", "blob").mapInArrow(writer, "bucket int, kind int, blob binary")
        rows = list(others.collect())
        self._replace(pending, batch)
        return rows

    def write(self, departures: Sequence[Departure], schema: pa.Schema, batch: int) -> None:
        """Replace the files of a batch, and the answer."""
        whole = [d for d in departures if d.complete]
        if whole:
            answer = [d for d in whole if d.hop_us == whole[-1].hop_us]
            file = self.folder / "answer.parquet"
            replace_answer(file, together([d.rows for d in answer]), {HOP: b"%d" % (whole[-1].hop_us or 0)})
        others = [d for d in departures if not d.complete and d.rows.num_rows]
        if others or not whole:
            tables = [
                t for _, part in groupby(others, lambda d: d.hop_us) for t in runs_of_one_schema([d.rows for d in part])
            ]
            self.write_tables(tables, batch)

    def write_tables(self, tables: Sequence[pa.Table], batch: int) -> None:
        """Replace the files of a batch by these tables, in order."""
        pending = self._pending(batch)
        pending.mkdir()
        for place, table in enumerate(tables):
            pq.write_table(table, pending / f"part-{place:05d}.parquet")
        self._replace(pending, batch)

    def _pending(self, batch: int) -> Path:
        pending = self.folder.absolute() / f".pending-{batch:08d}"
        shutil.rmtree(pending, ignore_errors=True)
        return pending

    def _replace(self, pending: Path, batch: int) -> None:
        reach("sink pending")
        for old in self.folder.glob(f"batch-{batch:08d}-*.parquet"):
            old.unlink()
        for place, part in enumerate(sorted(pending.glob("part-*.parquet"))):
            os.replace(part, self.folder / f"batch-{batch:08d}-{place:04d}.parquet")
            reach("sink half written")
        shutil.rmtree(pending, ignore_errors=True)


class _FileWriter:
    """Writes the results of one partition to a Parquet file, in the worker, and hands on everything else."""

    def __init__(self, folder: str, schema: pa.Schema) -> None:
        self._folder = folder
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write one partition."""
        part = TaskContext.get().partitionId()
        file = Path(self._folder) / f"part-{part:05d}.parquet"
        # Another attempt at this partition may be writing too: each has its own file until it is whole.
        pending = file.with_name(f".{file.name}.{os.getpid()}")
        writer: pq.ParquetWriter | None = None
        for batch in batches:
            results = pa.compute.equal(batch.column("kind"), RESULT)
            for blob in batch.column("blob").filter(results):
                writer = writer or pq.ParquetWriter(pending, self._schema)
                for rows in from_blob(blob.as_buffer()).to_batches():
                    writer.write_batch(rows.select(self._schema.names).replace_schema_metadata())
            yield batch.filter(pa.compute.invert(results))
        if writer is not None:
            writer.close()
            reach("part pending")
            os.replace(pending, file)


class FunctionSink:
    """Results handed to a function of (DataFrame, batch number); of a query that hops, hop by hop, also empty ones."""

    def __init__(self, spark: SparkSession, function: Callable[[DataFrame, int], Any]) -> None:
        self._spark = spark
        self._function = function

    def write_frame(self, results: DataFrame, batch: int) -> None:
        """Call the function."""
        self._function(results, batch)

    def write(self, departures: Sequence[Departure], schema: pa.Schema, batch: int) -> None:
        """Call the function once for what has no hop, and once for every hop."""
        for hop_us, part in groupby(departures, lambda d: d.hop_us):
            self._function(self._spark.createDataFrame(together([d.rows for d in part])), batch)
            del hop_us
        if not departures and "_hop" not in schema.names:
            self._function(self._spark.createDataFrame(schema.empty_table()), batch)


class FormatSink:
    """Results in any format Spark can write: appended, and the newest whole answer in place of the one before."""

    def __init__(self, spark: SparkSession, kind: str, options: dict[str, str]) -> None:
        self._spark = spark
        self._kind = kind
        self._options = options

    def write_frame(self, results: DataFrame, batch: int) -> None:
        """Append the results."""
        if self._kind == "console":
            print(f"--- batch {batch}")
            self._show(results)
        else:
            self._save(results, "append")

    def write(self, departures: Sequence[Departure], schema: pa.Schema, batch: int) -> None:
        """Append what is no whole answer; on the console, every hop."""
        if self._kind == "console":
            for hop_us, part in groupby(departures, lambda d: d.hop_us):
                print(f"--- batch {batch}" + ("" if hop_us is None else f", hop {hop_us}"))
                self._show(self._spark.createDataFrame(together([d.rows for d in part])))
            return
        whole = [d for d in departures if d.complete]
        others = [d.rows for d in departures if not d.complete and (d.hop_us is None or d.rows.num_rows)]
        if whole:
            answer = [d.rows for d in whole if d.hop_us == whole[-1].hop_us]
            self._save(self._spark.createDataFrame(together(answer)), "overwrite")
        if others or (not whole and "_hop" not in schema.names):
            self._save(self._spark.createDataFrame(together(others) if others else schema.empty_table()), "append")

    def _show(self, frame: DataFrame) -> None:
        frame.show(int(self._options.get("numRows", 20)), truncate=False)

    def _save(self, frame: DataFrame, mode: str) -> None:
        frame.write.format(self._kind).options(**self._options).mode(mode).save()


def sink_of(sink: Any, schema: pa.Schema, spark: SparkSession) -> BatchSink:
    """Make a sink of what a user gives: a folder, a function, or a format with options; `schema` is the output's."""
    hops, signed = "_hop" in schema.names, "_sign" in schema.names
    if isinstance(sink, str | Path):
        return ParquetFolder(Path(sink))
    if callable(sink):
        return FunctionSink(spark, sink)
    if not isinstance(sink, dict) or not isinstance(sink.get("format"), str):
        raise SinkError("a sink is a folder, a function of (DataFrame, batch number), or {'format': ..., options}")
    kind, options = sink["format"], {str(k): str(v) for k, v in sink.items() if k != "format"}
    if kind == TABLE and not hops:
        raise SinkError("a table is kept up to date by a hopping query that emits changes: HOP BY ... EMIT DELTA")
    if kind in ("folder", TABLE) and "path" not in options:
        raise SinkError(f"a {kind} needs a path")
    if kind == TABLE and not signed:
        raise SinkError(
            "a table is kept up to date by changes, and the query emits complete answers: ask for EMIT DELTA, "
            "or give a folder, which holds the newest answer"
        )
    if kind in ONLY_APPEND and hops and not signed:
        raise SinkError(f"{kind} only takes more rows, and a complete answer replaces the last: ask for EMIT DELTA")
    if kind == TABLE:
        return KeptTable(Path(options["path"]))
    return ParquetFolder(Path(options["path"])) if kind == "folder" else FormatSink(spark, kind, options)


def together(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Return batches as one table, with the columns of all of them side by side."""
    return pa.concat_tables([pa.Table.from_batches([b]) for b in batches], promote_options="default")


def runs_of_one_schema(batches: Sequence[pa.RecordBatch]) -> list[pa.Table]:
    """Return batches in order as tables, as few as their columns allow."""
    out: list[list[pa.RecordBatch]] = []
    for batch in batches:
        if out and out[-1][-1].schema == batch.schema:
            out[-1].append(batch)
        else:
            out.append([batch])
    return [pa.Table.from_batches(run) for run in out]
