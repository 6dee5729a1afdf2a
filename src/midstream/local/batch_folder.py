"""Batch folder: results as one Parquet file per micro-batch, so that a micro-batch that is run again replaces its own.

Files in the order of their names are the output; one that no commit names is removed when the run goes on.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.local.files import replace_whole, results_folder, writing
from midstream.local.sinks import fitted
from midstream.model.errors import SinkError


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
        """Remove what micro-batches after the last committed one have left; a new run (None) wants an empty folder."""
        found = {file.stem.removeprefix("batch-"): file for file in self.folder.glob("batch-*.parquet")}
        files = {int(number): file for number, file in found.items() if number.isdecimal()}
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
        file = self.folder / f"batch-{number:08d}.parquet"
        with writing(file):
            if self._rows:
                table = pa.Table.from_batches([fitted(b, self._schema) for b in self._rows], self._schema)
                replace_whole(file, lambda pending: pq.write_table(table, pending), "results pending")
            else:
                file.unlink(missing_ok=True)
        self._rows = []

    def commit(self) -> None:
        """Do nothing: micro-batches are kept one by one."""

    def abort(self) -> None:
        """Forget the results of the micro-batch under way."""
        self._rows = []
