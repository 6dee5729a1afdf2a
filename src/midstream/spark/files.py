"""Files of results: written beside their place and moved there whole."""

import contextlib
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.model.errors import SinkError
from midstream.model.failpoint import reach


def folder_of(folder: Path) -> Path:
    """Make a folder for results, if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SinkError(f"cannot write {folder}: {error.strerror}") from error
    return folder


def replace_file(file: Path, table: pa.Table, said: dict[bytes, bytes]) -> None:
    """Replace a Parquet file whole; its metadata says something of it."""
    pending = file.with_name(f".{file.name}.pending")
    try:
        pq.write_table(table.replace_schema_metadata(said), pending)
        reach("answer pending")
        os.replace(pending, file)
    except OSError as error:
        with contextlib.suppress(OSError):
            pending.unlink()
        raise SinkError(f"cannot write {file}: {error.strerror}") from error
