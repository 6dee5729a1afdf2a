"""Reading results while they are written: whole micro-batches, in order, each once."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.engine.world import Files
from midstream.live.kept_table import TABLE
from midstream.live.result_folder import ANSWER
from midstream.local.disk import THIS_MACHINE
from midstream.local.files import local_folder
from midstream.model.errors import SinkError
from midstream.model.format import whole


def read(path: str | Path) -> pa.Table:
    """Return the results in a folder that a query writes, or has written: all micro-batches there are, in order.

    Of a query that hops and emits complete answers, the newest answer; of a table that is kept up to date, what it
    holds. Columns that only some versions of the query give are null elsewhere.
    """
    folder = local_folder(path, "what is read")
    if not folder.is_dir():
        raise SinkError(f"{folder} is not a folder of results")
    tables = [_read(file) for file in parts(folder)]
    if not tables:
        held = [folder / name for name in (ANSWER, TABLE) if (folder / name).is_file()]
        return _read(held[0]).replace_schema_metadata() if held else pa.table({})
    return pa.concat_tables(tables, promote_options="default")


def _read(file: Path) -> pa.Table:
    with whole(file, "restore it from a copy"):
        return pq.ParquetFile(file).read()


def parts(folder: Path, files: Files = THIS_MACHINE.files) -> list[Path]:
    """Return the files of results in a folder, in order, as of one moment.

    A listing may miss what appears meanwhile and see something later: micro-batches appear in order, so a second one
    has all that are before the last of the first.
    """
    last = max(_names(folder, files), default="")
    return [folder / name for name in _names(folder, files) if name <= last]


def _names(folder: Path, files: Files) -> list[str]:
    return [name for name in files.names(folder) if name.startswith("batch-")]
