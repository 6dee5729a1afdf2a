"""Batch folder: results as one Parquet file per micro-batch, which appears once the micro-batch has been committed.

    results of N ──▶ .batch-N.parquet.pending ──▶ commit ──▶ batch-N.parquet

Files in the order of their names are the output. What has appeared stays as it is; a run that goes on shows what has
been committed, and removes what has not.
"""

import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.local.files import results_folder, writing
from midstream.local.sinks import fitted
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
        results_folder(folder)

    def begin(self, committed: int | None) -> None:
        """Show what micro-batches up to the last committed one have left to show, and remove what later ones have left.

        A new run (None) wants an empty folder.
        """
        for path in sorted(self.folder.iterdir()):
            named = re.fullmatch(r"(\.?)batch-([0-9]+)\.parquet(\.pending)?", path.name)
            if named is None or bool(named[1]) != bool(named[3]):
                continue
            if committed is None and not named[1]:
                raise SinkError(f"{self.folder} has results of another run; give an empty folder")
            with writing(path):
                if committed is None or int(named[2]) > committed:
                    path.unlink()
                elif named[1]:
                    self.show(int(named[2]))

    def write(self, rows: pa.RecordBatch) -> None:
        """Take the next results."""
        if rows.num_rows:
            self._rows.append(rows)

    def widen(self, schema: pa.Schema) -> None:
        """Make room for the columns of another version, from the next file on."""
        self._schema = schema

    def _file(self, number: int) -> Path:
        return self.folder / f"batch-{number:08d}.parquet"

    def _pending(self, number: int) -> Path:
        return self.folder / f".batch-{number:08d}.parquet.pending"

    def keep(self, number: int) -> None:
        """Write the results of a micro-batch, for nobody to see yet."""
        pending = self._pending(number)
        with writing(self._file(number)):
            pending.unlink(missing_ok=True)
            if self._rows:
                table = pa.Table.from_batches([fitted(b, self._schema) for b in self._rows], self._schema)
                pq.write_table(table, pending)
                reach("results pending")
        self._rows = []

    def show(self, number: int) -> None:
        """Let the results of a micro-batch appear that has been committed."""
        if self._pending(number).exists():
            with writing(self._file(number)):
                os.replace(self._pending(number), self._file(number))
            reach("results shown")

    def commit(self) -> None:
        """Do nothing: micro-batches are kept one by one."""

    def abort(self) -> None:
        """Forget the results of the micro-batch under way."""
        self._rows = []
