"""The side file of late rows: stream, offset, time and the row itself, so that nothing is silently dropped."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.engine.rows.rows import Rows
from midstream.local.files import writing
from midstream.local.sinks import PendingFile


class LateFile:
    """Late rows of all streams as one Parquet file: `_stream`, `_offset`, `_time`, then the columns of the streams.

    A column name that two streams use with types that do not fit together is written as text.
    """

    def __init__(self, path: Path) -> None:
        self._file = PendingFile(path)
        self._parts: list[pa.Table] = []

    def add(self, stream: str, late: Rows) -> None:
        """Take late rows of one stream."""
        part = pa.table({"_stream": pa.repeat(stream, len(late)), "_offset": late.offsets, "_time": late.times})
        for name, column in late.columns.items():
            free = name
            while free in part.column_names:  # a stream may itself have a column called _time
                free += "_1"
            part = part.append_column(free, column)
        self._parts.append(part)

    def close(self) -> None:
        """Write the file beside its place; whatever can fail fails here."""
        head = pa.schema([("_stream", pa.string()), ("_offset", pa.int64()), ("_time", pa.int64())])
        with writing(self._file.path):
            rows = pa.concat_tables([head.empty_table(), *agreeing(self._parts)], promote_options="permissive")
            pq.write_table(rows, self._file.pending)

    def commit(self) -> None:
        """Move the file to its place."""
        self._file.commit()

    def abort(self) -> None:
        """Forget everything."""
        self._file.abort()


def agreeing(parts: list[pa.Table]) -> list[pa.Table]:
    """Cast columns whose types do not fit together to text."""
    kinds: dict[str, pa.DataType] = {}
    clashing = set()
    for part in parts:
        for field in part.schema:
            known = kinds.setdefault(field.name, field.type)
            if known != field.type:
                clashing.add(field.name)
    out = []
    for part in parts:
        for name in clashing & set(part.column_names):
            place = part.column_names.index(name)
            part = part.set_column(place, name, part.column(name).cast(pa.string()))
        out.append(part)
    return out
