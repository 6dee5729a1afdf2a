"""Sinks on Spark: what is done with the results of one micro-batch.

Contract: `write(results, batch)` may be called again with the same batch number after a crash, with the same rows. A
sink is exactly-once when writing a batch twice leaves the same as writing it once. The folder of Parquet is; a function
given by the user is if it uses the number; other Spark formats are at-least-once.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row

from midstream.model.errors import SinkError
from midstream.spark.blobs import from_blob
from midstream.spark.bucket import RESULT


class BatchSink(Protocol):
    """Takes the results of each micro-batch."""

    def write(self, results: DataFrame, batch: int) -> None:
        """Take the results of a micro-batch; the same batch may come twice."""


class ParquetFolder:
    """A folder of Parquet files, those of batch n named `batch-n-*.parquet`; each batch is there once.

    Files are written beside their place and renamed; a batch that comes again replaces its files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder_of(folder)

    def write(self, results: DataFrame, batch: int) -> None:
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
        others = lines.select("kind", "blob").mapInArrow(_FileWriter(str(pending), schema), "kind int, blob binary")
        rows = list(others.collect())
        self._replace(pending, batch)
        return rows

    def write_tables(self, tables: list[pa.Table], batch: int) -> None:
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
        for old in self.folder.glob(f"batch-{batch:08d}-*.parquet"):
            old.unlink()
        for place, part in enumerate(sorted(pending.glob("part-*.parquet"))):
            os.replace(part, self.folder / f"batch-{batch:08d}-{place:04d}.parquet")
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
                    writer.write_batch(rows.select(self._schema.names))
            yield batch.filter(pa.compute.invert(results))
        if writer is not None:
            writer.close()
            os.replace(pending, file)


class FunctionSink:
    """Results handed to a function of (DataFrame, batch number)."""

    def __init__(self, function: Callable[[DataFrame, int], Any]) -> None:
        self._function = function

    def write(self, results: DataFrame, batch: int) -> None:
        """Call the function."""
        self._function(results, batch)


class FormatSink:
    """Results appended in any format Spark can write in batches."""

    def __init__(self, kind: str, options: dict[str, str]) -> None:
        self._kind = kind
        self._options = options

    def write(self, results: DataFrame, batch: int) -> None:
        """Append the results."""
        if self._kind == "console":
            print(f"--- batch {batch}")
            results.show(int(self._options.get("numRows", 20)), truncate=False)
        else:
            results.write.format(self._kind).options(**self._options).mode("append").save()


def folder_of(folder: Path) -> Path:
    """Make a folder for results, if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SinkError(f"cannot write {folder}: {error.strerror}") from error
    return folder


def sink_of(sink: Any) -> BatchSink:
    """Make a sink of what a user gives: a folder, a function, or a format with options."""
    if isinstance(sink, str | Path):
        return ParquetFolder(Path(sink))
    if callable(sink):
        return FunctionSink(sink)
    if isinstance(sink, dict) and isinstance(sink.get("format"), str):
        options = {str(k): str(v) for k, v in sink.items() if k != "format"}
        if sink["format"] == "table":
            raise SinkError("a table is kept up to date by a hopping query that emits changes: HOP BY ... EMIT DELTA")
        return (
            ParquetFolder(Path(options["path"])) if sink["format"] == "folder" else FormatSink(sink["format"], options)
        )
    raise SinkError("a sink is a folder, a function of (DataFrame, batch number), or {'format': ..., options}")
