"""Sinks: where results go. A file appears whole under its name when the run has succeeded, or not at all."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from midstream.local.files import writing
from midstream.model.errors import SinkError

ROW_GROUP_ROWS = 1 << 17


class Sink(Protocol):
    """Takes results in order; `commit` makes them visible, `abort` leaves no trace."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Take the next results."""

    def widen(self, schema: pa.Schema) -> None:
        """Make room for the columns of another version, or refuse to."""

    def commit(self) -> None:
        """Make everything written visible."""

    def abort(self) -> None:
        """Forget everything written."""


class PendingFile:
    """A file written beside its final place and moved there when it is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with writing(path):
            if path.is_dir():
                raise SinkError(f"cannot write {path}: it is a folder")
            if path.exists() and not path.is_file():  # moving onto a device would replace it
                raise SinkError(f"cannot write {path}: it is not an ordinary file")
        self.pending = path.with_name(f".{path.name}.{os.getpid()}.pending")
        with writing(path):
            self.pending.touch()

    def close(self, text: str) -> None:
        """Write the whole file at once."""
        with writing(self.path):
            self.pending.write_text(text, encoding="utf-8")

    def commit(self) -> None:
        """Move the file to its final place."""
        with writing(self.path):
            os.replace(self.pending, self.path)

    def abort(self) -> None:
        """Remove the unfinished file."""
        with contextlib.suppress(OSError):
            self.pending.unlink()


class FileSink:
    """Results as one Parquet file, or CSV when the name ends in .csv."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file = PendingFile(path)
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        kind = pa.csv.CSVWriter if path.suffix.lower() == ".csv" else pq.ParquetWriter
        try:
            with writing(path):
                self._writer = kind(str(self._file.pending), schema)
        except SinkError:
            self._file.abort()
            raise

    def write(self, rows: pa.RecordBatch) -> None:
        """Take the next results; they reach the file in groups of a useful size."""
        if rows.num_rows:
            self._waiting.append(fitted(rows, self._schema))
            self._waiting_rows += rows.num_rows
        if self._waiting_rows >= ROW_GROUP_ROWS:
            self._flush()

    def widen(self, schema: pa.Schema) -> None:
        """Make room for the columns of another version; a file that is being written has the columns it has."""
        missing = [f.name for f in schema if f.name not in self._schema.names]
        if missing:
            raise SinkError(
                f"{self._file.path} is being written and cannot get new columns ({', '.join(missing)}); "
                "write the change into a scenario, whose file has the columns of all versions"
            )

    def _flush(self) -> None:
        with writing(self._file.path):
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting, self._waiting_rows = [], 0

    def close(self) -> None:
        """Finish the file; whatever can fail fails here, before anything is visible."""
        if self._waiting:
            self._flush()
        with writing(self._file.path):
            self._writer.close()

    def commit(self) -> None:
        """Make everything written visible."""
        self.close()
        self._file.commit()

    def abort(self) -> None:
        """Forget everything written."""
        with contextlib.suppress(pa.ArrowException, OSError):
            self._writer.close()
        self._file.abort()


class FunctionSink:
    """Results handed to a function, one record batch at a time."""

    def __init__(self, function: Callable[[pa.RecordBatch], None]) -> None:
        self.write = function

    def widen(self, schema: pa.Schema) -> None:
        """Do nothing: every record batch has its own columns."""

    def commit(self) -> None:
        """Do nothing: the function has seen everything."""

    def abort(self) -> None:
        """Do nothing: what the function has seen cannot be taken back."""


class TableSink:
    """Results in memory."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Take the next results."""
        if rows.num_rows:
            self._batches.append(rows)

    def widen(self, schema: pa.Schema) -> None:
        """Make room for the columns of another version."""
        self._schema = schema

    def commit(self) -> None:
        """Do nothing: what is in memory is visible."""

    def abort(self) -> None:
        """Forget everything written."""
        self._batches = []

    def table(self) -> pa.Table:
        """Return everything written."""
        return pa.Table.from_batches([fitted(b, self._schema) for b in self._batches], self._schema)


def fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with the columns of a schema; those they do not have are null."""
    if rows.schema.equals(schema):
        return rows
    held = set(rows.schema.names)
    arrays = [rows.column(f.name) if f.name in held else pa.nulls(rows.num_rows, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
