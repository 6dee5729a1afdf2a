"""Journal: the input of an adopted query, written once, in numbered segments that all its versions read.

    sources ──▶ tee ──▶ journal/00000012.parquet ──▶ hard links in the folders of the versions

A segment is what one micro-batch of every version reads, so micro-batches end at the same rows in all of them. It
counts once it has its name; its metadata say which micro-batch of the tee it came from and how far each stream had
come. An empty segment is a tick: it lets time go on when no rows come. State: the heads of segments that were read.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import RLock

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from midstream.engine.world import World
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.model.format import check_format, document, whole
from midstream.model.names import numbers_among

FORMAT = 1
"""The form in which segments are written."""
ENDING = ".parquet"
STREAM = "stream"
"""The column that says of which stream a row is; its values are in the column of that stream."""
MOST_HEADS = 10_000
"""Heads that are remembered; others are read again when they are asked for."""
_HEAD = b"midstream.segment"
_DO = "restore it from a copy, or start with a new checkpoint"


@dataclass(frozen=True)
class JournalStream:
    """A stream in the journal: its name and its time column."""

    name: str
    time: str


def column_of_stream(place: int) -> str:
    """Return the name of the column that has the rows of a stream."""
    return f"s{place}"


@dataclass(frozen=True)
class Head:
    """What is known of a segment without its rows."""

    batch: int
    """The last micro-batch of the tee up to here."""
    tick: bool
    rows: int
    """Rows up to here, those of earlier segments included."""
    latest_us: Mapping[str, int]
    """The largest time of each stream that had rows, in this segment or any before it."""


def file_name(segment: int) -> str:
    """Return what the file of a segment is called.

    >>> file_name(12)
    '00000012.parquet'
    """
    return f"{segment:08d}{ENDING}"


class Journal:
    """The segments of one query. Invariant: a segment that has its name is whole, and never changes."""

    def __init__(self, folder: Path, world: World, streams: Sequence[JournalStream]) -> None:
        self.folder = folder
        self._world = world
        self._streams = streams
        self._lock = RLock()
        self._heads: dict[int, Head] = {}
        world.files.make_folder(folder)
        numbers = sorted(numbers_among(world.files.names(folder), ENDING, 8))
        self.first, self.last = (numbers[0], numbers[-1]) if numbers else (1, 0)
        """The oldest segment that is kept, and the newest."""
        self._batch = self.head(self.last).batch if numbers else -1
        """The last micro-batch of the tee that is in the journal."""

    def append(self, table: pa.Table, batch: int) -> int:
        """Write down what a micro-batch of the tee has read, unless it is there; return the last segment."""
        with self._lock:
            return self.last if batch <= self._batch else self._write(table, batch, tick=False)

    def tick(self) -> int:
        """Write an empty segment after the last one; return its number."""
        with self._lock:
            if not self.last:
                return 0
            newest = pq.read_schema(pa.BufferReader(self._world.files.read(self.file(self.last))))
            return self._write(newest.remove_metadata().empty_table(), self._batch, tick=True)

    @property
    def rows_in(self) -> int:
        """Return how many rows there have been."""
        return self.head(self.last).rows if self.last else 0

    @property
    def ticked(self) -> bool:
        """Return whether the newest segment is a tick."""
        return self.last > 0 and self.head(self.last).tick

    def _write(self, table: pa.Table, batch: int, tick: bool) -> int:
        number = self.last + 1
        latest = dict(self.head(self.last).latest_us) if self.last else {}
        for place, stream in enumerate(self._streams):
            found = _latest_us(table, place, stream)
            if found is not None:
                latest[stream.name] = max(found, latest.get(stream.name, found))
        said = Head(batch, tick, self.rows_in + table.num_rows, latest)
        head = {"format": FORMAT, **asdict(said)}
        held = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata({_HEAD: json.dumps(head).encode()}), held)
        self._world.put(self.file(number), held.getvalue(), point=lambda: reach("segment pending"))
        self._heads[number] = said
        if len(self._heads) > MOST_HEADS:
            for older in sorted(self._heads)[: MOST_HEADS // 2]:
                del self._heads[older]
        self.last, self._batch = number, batch
        reach("segment written")
        return number

    def head(self, segment: int) -> Head:
        """Return what is known of a segment."""
        if segment not in self._heads:
            file = self.file(segment)
            with whole(file, _DO):
                said = pq.read_schema(pa.BufferReader(self._world.files.read(file))).metadata[_HEAD]
                head = document(file, said)
                check_format(f"segment {file}", head.get("format"), FORMAT)
                rows, latest = int(head["rows"]), dict(head["latest_us"])
                self._heads[segment] = Head(int(head["batch"]), bool(head["tick"]), rows, latest)
        return self._heads[segment]

    def needed(self, width_us: int, upto: int | None = None) -> int:
        """Return the first segment with a row that is no older than `width_us`, as time was after segment `upto`.

        Time is that of the stream that is behind the others: what waits for it is as old as that. A stream that
        has had no row holds everything.
        """
        last = self.last if upto is None else upto
        if last < self.first:
            return self.first
        latest = self.head(last).latest_us
        if any(stream.name not in latest for stream in self._streams):
            return self.first
        oldest_us = min(latest.values()) - width_us
        low, high = self.first, last
        while low < high:  # the largest time so far only grows
            middle = (low + high) // 2
            if max(self.head(middle).latest_us.values(), default=oldest_us - 1) >= oldest_us:
                high = middle
            else:
                low = middle + 1
        return low

    def link(self, segment: int, place: Path) -> None:
        """Give a segment a second name, for a version to read; one that is there already stays."""
        try:
            self._world.files.link(self.file(segment), place)
        except FileExistsError:
            return
        except FileNotFoundError as error:
            raise MidstreamError(f"segment {self.file(segment)} is missing; {_DO}") from error
        reach("segment linked")

    def trim(self, below: int) -> None:
        """Forget the segments before one; the newest stays."""
        with self._lock:
            while self.first < min(below, self.last):
                self._world.files.remove(self.file(self.first))
                self._heads.pop(self.first, None)
                self.first += 1

    def file(self, segment: int) -> Path:
        """Return where a segment is."""
        return self.folder / file_name(segment)


def _latest_us(table: pa.Table, place: int, stream: JournalStream) -> int | None:
    """Return the largest time of a stream's rows, in microseconds."""
    if column_of_stream(place) not in table.column_names or not table.num_rows:
        return None
    rows = table.column(column_of_stream(place)).filter(pc.equal(table.column(STREAM), stream.name))
    times = pc.struct_field(rows, stream.time)
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
    latest = pc.max(times).as_py()
    return None if latest is None else int(latest)
