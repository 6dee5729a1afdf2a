"""Batch folder: results as one Parquet file per micro-batch, so that a micro-batch that is run again replaces its own.

Files in the order of their names are the output; one that no commit names is removed when the run goes on.
"""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.local.sinks import fitted
from midstream.local.sources import first_line
from midstream.model.errors import SinkError
from midstream.model.failpoint import reach


class BatchFolder:
    """A folder of files `batch-N.parquet`; micro-batches without results have none."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder = folder
        self._schema = schema
        self._rows: list[pa.RecordBatch] = []
        if folder.suffix.lower() in (".parquet", ".csv") or folder.is_file():
            raise SinkError(f"a run with a checkpoint writes a file per micro-batch: give a folder, not {folder}")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SinkError(f"cannot write {folder}: {error.strerror}") from error

    def begin(self, committed: int | None) -> None:
        """Remove what micro-batches after the last committed one have left; a new run (None) wants an empty folder."""
        files = {int(file.stem.removeprefix("batch-")): file for file in self.folder.glob("batch-*.parquet")}
        if committed is None and files:
            raise SinkError(f"{self.folder} has results of another run; give an empty folder")
        for number, file in files.items():
            if committed is not None and number > committed:
                file.unlink()

    def write(self, rows: pa.RecordBatch) -> None:
        """Take the next results."""
        if rows.num_rows:
            self._rows.append(rows)

    def widen(self, schema: pa.Schema) -> None:
        """Make room for the columns of another version, from the next file on."""
        self._schema = schema

    def keep(self, number: int) -> None:
        """Write the results of a micro-batch."""
        rows = self._rows
        file = self.folder / f"batch-{number:08d}.parquet"
        pending = file.with_name(f".{file.name}.pending")
        try:
            if rows:
                pq.write_table(pa.Table.from_batches([fitted(b, self._schema) for b in rows], self._schema), pending)
                reach("results pending")
                os.replace(pending, file)
            else:
                file.unlink(missing_ok=True)
        except (pa.ArrowException, OSError) as error:
            raise SinkError(f"cannot write {file}: {first_line(error)}") from error
        self._rows = []

    def commit(self) -> None:
        """Do nothing: micro-batches are kept one by one."""

    def abort(self) -> None:
        """Forget the results of the micro-batch under way."""
        self._rows = []
