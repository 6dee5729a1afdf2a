"""Reading results while they are written: whole micro-batches, in order, each once."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.engine.world import Files
from midstream.live.kept_table import TABLE
from midstream.live.result_folder import ANSWER, is_batch
from midstream.local.disk import THIS_MACHINE
from midstream.local.files import local_folder
from midstream.model.errors import SinkError
from midstream.model.format import whole


def read(path: str | Path) -> pa.Table:
    """Return the results in a folder that a query writes, or has written: all micro-batches there are, in order.

    Of a query that hops and emits complete answers, the newest answer; of a table that is kept up to date, what it
    holds. Columns that only some versions of the query give are null elsewhere; numbers that became wider are wide in
    all rows.
    """
    folder = local_folder(path, "what is read")
    if not os.path.isdir(folder):
        raise SinkError(f"{folder} is not a folder of results")
    tables = _together([(file, table) for file in parts(folder) if (table := _read(file)) is not None])
    if tables is not None:
        return tables
    held = (_read(folder / name) for name in (ANSWER, TABLE))
    return next((table.replace_schema_metadata() for table in held if table is not None), pa.table({}))


def _read(file: Path) -> pa.Table | None:
    """Return the rows of a file, or None: it is not there, or whoever cleans up took it away since it was listed."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SinkError(f"{file} cannot be read: {error.strerror}") from error
    with whole(file, "restore it from a copy"):
        return pq.ParquetFile(pa.BufferReader(data)).read()


def _together(found: Sequence[tuple[Path, pa.Table]]) -> pa.Table | None:
    """Return the rows of all files, numbers of different widths in the wider type; name a column that fits nothing."""
    if not found:
        return None
    with contextlib.suppress(pa.ArrowException):
        return pa.concat_tables([table for _, table in found], promote_options="permissive")
    before = found[0][1]
    for file, table in found[1:]:
        for name in (name for name in table.column_names if name in before.column_names):
            try:
                pa.concat_tables([before.select([name]), table.select([name])], promote_options="permissive")
            except pa.ArrowException as error:
                raise SinkError(
                    f"column '{name}' is {table.schema.field(name).type} in {file} and "
                    f"{before.schema.field(name).type} in the files before it: the query was changed to another type; "
                    "read the files before it and from there on apart"
                ) from error
        before = pa.concat_tables([before, table], promote_options="permissive")
    return before


def parts(folder: Path, files: Files = THIS_MACHINE.files) -> list[Path]:
    """Return the files of results in a folder, in order, as of one moment.

    A listing may miss what appears meanwhile and see something later: micro-batches appear in order, so a second one
    has all that are before the last of the first.
    """
    last = max(_names(folder, files), default="")
    return [folder / name for name in _names(folder, files) if name <= last]


def _names(folder: Path, files: Files) -> list[str]:
    return [name for name in files.names(folder) if is_batch(name)]
