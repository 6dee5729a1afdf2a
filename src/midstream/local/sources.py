"""Sources: recorded streams, from Parquet, CSV or an Arrow table, in chunks with their event times."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from midstream.engine.rows.rows import Rows, in_order
from midstream.local.files import first_line
from midstream.model.errors import SinkError, SourceError
from midstream.model.stream import StreamSchema
from midstream.model.timing import Timing
from midstream.operators.expression.arrays import as_strings, most_text, text_pieces, text_sizes

CHUNK_ROWS = 1 << 17
LOOKED_AT_BYTES = 1 << 27
"""How much of a stream is looked at before it is planned, if its first rows are long."""
TIME_LIMIT_US = 2**62
"""Event times lie below this and above its negative (the years -144000 to 148000), so that adding a window is exact."""


class RecordedStream:
    """A stream that has ended: its schema, its length, and its rows as often as asked."""

    def __init__(
        self,
        schema: StreamSchema,
        rows: int,
        data: "pa.Table | pq.ParquetFile",
        timing: Timing | None = None,
        path: Path | None = None,
    ) -> None:
        """`path`: the file it is read from, if it is one."""
        self.schema = schema
        self.rows = rows
        self.timing = (timing or Timing()).checked(schema.name)
        self._data = data
        self.path = path

    def chunks(self, columns: Sequence[str]) -> Iterator[Rows]:
        """Yield the rows in recorded order with the given columns, in the types queries use.

        The offset of a row is its place in the recording.
        """
        wanted = list(dict.fromkeys([self.schema.time, *columns]))
        offset = 0
        for batch in self._batches(wanted):
            times = self._times(batch.column(self.schema.time), offset)
            held = {name: self._held(name, batch.column(name)) for name in columns}
            offsets = np.arange(offset, offset + len(times), dtype=np.int64)
            offset += len(times)
            yield Rows(times, offsets, held)

    def first(self, columns: Sequence[str], count: int) -> Rows:
        """Return the first chunks that together have so many rows, or as much to look at, in order of time."""
        parts, room = [self.empty(columns)], LOOKED_AT_BYTES
        for chunk in self.chunks(columns):
            size = sum(column.nbytes for column in chunk.columns.values())
            parts.append(chunk if size <= room else chunk.between(0, max(1, len(chunk) * room // size)))
            room -= size
            if room <= 0 or sum(map(len, parts)) >= count:
                break
        return in_order(parts)

    def empty(self, columns: Sequence[str]) -> Rows:
        """Return no rows, with the given columns."""
        none = np.empty(0, np.int64)
        return Rows(none, none, {name: pa.array([], self.schema.type_of(name)) for name in columns})

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        if isinstance(self._data, pa.Table):
            for batch in self._data.select(columns).to_batches(max_chunksize=CHUNK_ROWS):
                yield from _that_fit(batch)
            return
        try:
            # Dots in column names mean nested fields to Parquet readers, so columns are picked by Arrow afterwards.
            plain = all("." not in c for c in columns)
            for batch in self._data.iter_batches(CHUNK_ROWS, columns=columns if plain else None):
                yield from _that_fit(batch.select(columns))
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"stream '{self.schema.name}' cannot be read: {first_line(error)}") from error

    def _times(self, array: pa.Array, offset: int) -> npt.NDArray[np.int64]:
        if array.null_count:
            row = offset + int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0]) + 1
            raise SourceError(f"stream '{self.schema.name}': row {row} has no time in column '{self.schema.time}'")
        try:
            micros = _in_microseconds(array) if pa.types.is_timestamp(array.type) else array
            times = np.array(micros.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
        except pa.ArrowException as error:
            raise SourceError(
                f"stream '{self.schema.name}': a time in column '{self.schema.time}' cannot be counted in "
                f"microseconds: {first_line(error)}"
            ) from error
        outside = (times >= TIME_LIMIT_US) | (times <= -TIME_LIMIT_US)
        if outside.any():
            place = int(np.flatnonzero(outside)[0])
            raise SourceError(
                f"stream '{self.schema.name}': row {offset + place + 1} has the time {times[place]} in column "
                f"'{self.schema.time}'; event times are microseconds and lie between -2^62 and 2^62"
            )
        return times

    def _held(self, name: str, array: pa.Array) -> pa.Array:
        wanted = self.schema.type_of(name)
        try:
            if array.type == wanted:
                return array
            if pa.types.is_string(wanted):
                array = as_strings(array)  # a cast looks at where texts lie, not at how long they are
            return _in_microseconds(array) if pa.types.is_timestamp(array.type) else array.cast(wanted)
        except pa.ArrowException as error:
            message = f"stream '{self.schema.name}': column '{name}' cannot be read as {wanted}: {first_line(error)}"
            raise SourceError(message) from error


def _that_fit(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in pieces, large strings of which fit into ordinary ones."""
    texts = [c for c in batch.columns if pa.types.is_large_string(c.type)]
    if all(c.nbytes <= most_text() for c in texts):
        yield batch
        return
    for piece in text_pieces([text_sizes(c) for c in texts], len(batch), most_text()):
        yield batch.slice(piece.start, piece.stop - piece.start)


def _in_microseconds(array: pa.Array) -> pa.Array:
    """Return timestamps in microseconds: nanoseconds lose their last digits, coarser units must not overflow."""
    return array.cast(pa.timestamp("us", array.type.tz), safe=array.type.unit != "ns")


def open_recorded(name: str, path: Path, time: str, timing: Timing | None = None) -> RecordedStream:
    """Open a recorded stream; nothing but its schema is read yet (CSV is read whole, its types are in its rows)."""
    try:
        there = path.exists()
    except OSError as error:  # a name too long, a folder that may not be read
        raise SourceError(f"stream '{name}': {path} cannot be read: {error.strerror}") from error
    if not there:
        raise SourceError(f"stream '{name}': there is no file {path}")
    if path.suffix.lower() == ".csv":
        table = _read_csv(name, path)
        place = table.schema.get_field_index(time)
        if not table.num_rows and place >= 0:  # types are in rows, and here are none
            table = table.set_column(place, time, pa.array([], pa.int64()))
        return RecordedStream(StreamSchema(name, table.schema, time), table.num_rows, table, timing, path)
    if path.suffix.lower() not in (".parquet", ".pq"):
        raise SourceError(f"stream '{name}': {path.name} is neither .parquet nor .csv")
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"stream '{name}': {path} is not a Parquet file: {first_line(error)}") from error
    schema = StreamSchema(name, file.schema_arrow, time)
    return RecordedStream(schema, file.metadata.num_rows, file, timing, path)


def recorded_table(name: str, data: Any, time: str, timing: Timing | None = None) -> RecordedStream:
    """Take a stream from memory: an Arrow table, or anything that hands out Arrow (pandas, Polars, DuckDB)."""
    try:
        table = data if isinstance(data, pa.Table) else pa.table(data)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise SourceError(f"stream '{name}' cannot be read as an Arrow table: {first_line(error)}") from error
    return RecordedStream(StreamSchema(name, table.schema, time), table.num_rows, table, timing)


def check_not_read(place: Path, streams: Sequence[RecordedStream]) -> Path:
    """Return a place for results, or refuse it: a stream is read from there."""
    for stream in streams:
        if stream.path is not None and stream.path.resolve() == place.resolve():
            raise SinkError(f"cannot write {place}: it is also stream '{stream.schema.name}'")
    return place


def _read_csv(name: str, path: Path) -> pa.Table:
    options = pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    try:
        # One thread, so that a bad row is reported with its number.
        return pa.csv.read_csv(path, pa.csv.ReadOptions(use_threads=False), convert_options=options)
    except (pa.ArrowException, OSError) as error:
        text = first_line(error)
        found = re.search(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)", text)
        if found:
            row = f" in row {found[1]}" if found[1] else ""
            raise SourceError(
                f"stream '{name}': {path} has {found[2]} columns but {found[3]}{row}; "
                "every row needs the same number of columns"
            ) from error
        raise SourceError(f"stream '{name}': {path} is not a CSV file with a header: {text}") from error
