"""Durable state of a bucket: the live window rows in chunks, rows that wait for their time, and a small head.

Everything else an operator holds can be rebuilt from these. A chunk is what one micro-batch added to one alias's
window; it goes when none of its rows can be part of a result any more.
"""

import pickle
import uuid
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from midstream.change.control import ControlManager
from midstream.change.request import ChangeRequest, ControlRequest
from midstream.migrate.request import MigrationRequest
from midstream.model.time import FOREVER, NEVER
from midstream.spark.blobs import Rows, from_blob, to_blob

Due = ChangeRequest | ControlRequest
HELD = -1
"""The alias under which output that is held back is kept, a chunk per micro-batch."""
STAGE = 5_000
"""Rows of stage k are kept under this alias plus k."""
PENDING = -1
"""The chunk number under which rows wait that may still be preceded by others."""


class Store(Protocol):
    """What Spark's state store offers for one bucket."""

    def read_head(self) -> bytes | None:
        """Return the head, or None in the first batch."""

    def write_head(self, head: bytes) -> None:
        """Replace the head."""

    def read(self, alias: int, chunk: int) -> bytes:
        """Return a chunk."""

    def write(self, alias: int, chunk: int, blob: bytes) -> None:
        """Add or replace a chunk."""

    def remove(self, alias: int, chunk: int) -> None:
        """Remove a chunk."""


@dataclass
class Chunk:
    """What the head knows of a chunk without reading it."""

    number: int
    rows: int
    latest_us: int


@dataclass
class StageState:
    """What the head knows of a stage: its chunks with the number behind their last row, and a few counters."""

    chunks: list[tuple[int, int]] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    first: int = 0
    """Rows numbered below are not needed any more."""
    end: int = 0
    """The number behind the last row kept."""


@dataclass
class Head:
    """The small part of a bucket's durable state, read and written in every batch."""

    version: int = 0
    """How many batches this bucket has seen: the same in all buckets."""
    token: str = ""
    """Names this version of the durable state; mapped arrays carry the same token."""
    high: dict[int, int] = field(default_factory=dict)
    """Largest time seen per stream position."""
    released_us: int = NEVER
    """Rows below this time have been through the operators."""
    chunks: dict[int, list[Chunk]] = field(default_factory=dict)
    pending: dict[int, int] = field(default_factory=dict)
    """How many rows wait, per alias."""
    controls: list[str] = field(default_factory=list)
    """Control rows that have taken effect, by id."""
    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    plan: tuple[str, str] | None = None
    """The join order and method that run, or are being migrated to; None: those the query was started with."""
    before: tuple[str, str] | None = None
    """Those a migration started from in which two plans divide the work; None when there is no such migration."""
    running: MigrationRequest | None = None
    """That migration, with the event time it took effect at."""
    due: list[MigrationRequest] = field(default_factory=list)
    """Migrations to come: their position has not been reached, or another one is not over."""
    held: list[int] = field(default_factory=list)
    """Chunks of output that is held back."""
    stages: dict[int, StageState] = field(default_factory=dict)
    """What the windows over the results hold."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Read a head that was written before some of its fields were known."""
        self.__dict__.update(type(self)().__dict__ | state)


VERSION_SHIFT = 10_000
"""Aliases of version n are kept under their rank and n - 1 times this."""


@dataclass
class Book:
    """What a bucket remembers of its query: the lives of its versions, what is to come, and the head of each."""

    control: ControlManager
    heads: dict[int, Head] = field(default_factory=dict)
    due: list[Due] = field(default_factory=list)
    """Changes and controls whose position has not been reached."""
    next_version: int = 2
    batches: int = 0
    """How many micro-batches this bucket has seen."""
    high: dict[int, int] = field(default_factory=dict)
    """Largest time seen per stream position."""
    controls: list[str] = field(default_factory=list)
    """Control rows that have been read, by id."""
    counted_us: int = NEVER
    """Rows before this time have been counted as input."""

    @staticmethod
    def read(store: Store, decides: bool) -> "Book":
        """Return the book of a bucket; that of a query that has never changed may be a head alone."""
        held = store.read_head()
        found = pickle.loads(held) if held is not None else Head()
        if isinstance(found, Book):
            return found
        return Book(ControlManager(decides=decides), {1: found}, high=dict(found.high), controls=list(found.controls),
                    batches=found.version)  # fmt: skip

    def write(self, store: Store) -> None:
        """Replace the book."""
        self.batches += 1
        store.write_head(pickle.dumps(self))


class DurableBucket:
    """Reads and writes the durable state of one version in one bucket."""

    def __init__(self, store: Store, head: Head, version: int = 1) -> None:
        self._store = _Shifted(store, (version - 1) * VERSION_SHIFT)
        self.head = head

    def window_rows(self, alias: int) -> list[Rows]:
        """Read back the live window rows of an alias, oldest first."""
        return [Rows(from_blob(self._store.read(alias, c.number))) for c in self.head.chunks.get(alias, [])]

    def pending_rows(self, alias: int) -> list[Rows]:
        """Read back the rows of an alias that wait."""
        return [Rows(from_blob(self._store.read(alias, PENDING)))] if self.head.pending.get(alias) else []

    def add(self, alias: int, rows: Rows) -> None:
        """Keep rows that have entered the window of an alias."""
        if len(rows):
            self._store.write(alias, self.head.version, to_blob(rows.table))
            chunk = Chunk(self.head.version, len(rows), int(rows.times[-1]))
            self.head.chunks.setdefault(alias, []).append(chunk)

    def replace(self, alias: int, rows: Rows) -> None:
        """Keep these rows, and no others, as the window of an alias."""
        for chunk in self.head.chunks.pop(alias, []):
            self._store.remove(alias, chunk.number)
        self.add(alias, rows)

    def wait(self, alias: int, rows: Rows) -> None:
        """Keep the rows of an alias that wait, and no others."""
        if len(rows):
            self._store.write(alias, PENDING, to_blob(rows.table))
        elif self.head.pending.get(alias):
            self._store.remove(alias, PENDING)
        self.head.pending[alias] = len(rows)

    def drop(self, alias: int, before_us: int | None, keep_rows: int | None, until_us: int = FOREVER) -> None:
        """Let go of chunks whose rows are all before a time, or that `keep_rows` later rows have followed.

        Of those that have followed only chunks before `until_us` count.
        """
        chunks = self.head.chunks.get(alias, [])
        later = sum(c.rows for c in chunks if c.latest_us < until_us)
        while chunks:
            later -= chunks[0].rows if chunks[0].latest_us < until_us else 0
            expired = before_us is not None and chunks[0].latest_us < before_us
            pushed_out = keep_rows is not None and later >= keep_rows
            if not (expired or pushed_out):
                return
            self._store.remove(alias, chunks.pop(0).number)

    def hold_back(self, rows: pa.Table) -> None:
        """Keep output that must leave later."""
        self._store.write(HELD, self.head.version, to_blob(rows))
        self.head.held.append(self.head.version)

    def let_go(self) -> list[pa.Table]:
        """Return the output held back, and forget it."""
        tables = [from_blob(self._store.read(HELD, number)) for number in self.head.held]
        for number in self.head.held:
            self._store.remove(HELD, number)
        self.head.held = []
        return tables

    def keep_stage(self, stage: int, rows: pa.Table | None, state: StageState, anew: bool) -> None:
        """Keep rows that a stage has taken in; let go of those it no longer needs. `anew`: these and no others."""
        kept = self.head.stages.get(stage, StageState())
        chunks = kept.chunks
        if anew:
            for number, _ in chunks:
                self._store.remove(STAGE + stage, number)
            chunks = []
        if rows is not None and rows.num_rows:
            self._store.write(STAGE + stage, self.head.version, to_blob(rows))
            chunks = [*chunks, (self.head.version, state.end)]
        while chunks and chunks[0][1] <= state.first:
            self._store.remove(STAGE + stage, chunks[0][0])
            chunks = chunks[1:]
        self.head.stages[stage] = StageState(chunks, state.counters, state.first, state.end)

    def stage_rows(self, stage: int) -> list[pa.Table]:
        """Read back the rows of a stage, oldest first."""
        return [from_blob(self._store.read(STAGE + stage, n)) for n, _ in self.head.stages[stage].chunks]

    def commit(self) -> None:
        """Name the state as it is now."""
        self.head.version += 1
        self.head.token = f"{self.head.version}-{uuid.uuid4().hex}"

    def forget(self) -> None:
        """Remove everything a version has kept: it is over."""
        for alias, chunks in self.head.chunks.items():
            for chunk in chunks:
                self._store.remove(alias, chunk.number)
        for alias, count in self.head.pending.items():
            if count:
                self._store.remove(alias, PENDING)
        for stage, state in self.head.stages.items():
            for number, _ in state.chunks:
                self._store.remove(STAGE + stage, number)
        for number in self.head.held:
            self._store.remove(HELD, number)


class _Shifted:
    """A store in which the chunks of one version lie apart from those of others."""

    def __init__(self, store: Store, shift: int) -> None:
        self._store, self._shift = store, shift

    def read(self, alias: int, chunk: int) -> bytes:
        """Return a chunk."""
        return self._store.read(alias + self._shift, chunk)

    def write(self, alias: int, chunk: int, blob: bytes) -> None:
        """Add or replace a chunk."""
        self._store.write(alias + self._shift, chunk, blob)

    def remove(self, alias: int, chunk: int) -> None:
        """Remove a chunk."""
        self._store.remove(alias + self._shift, chunk)
