"""Durable state of a bucket: the live window rows in chunks, rows that wait for their time, and a small head.

Everything else an operator holds can be rebuilt from these. A chunk is what one micro-batch added to one alias's
window; it goes when none of its rows can be part of a result any more.
"""

import pickle
import uuid
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from midstream.migrate.request import MigrationRequest
from midstream.runtime.arrivals import NEVER
from midstream.runtime.spark.blobs import Rows, from_blob, to_blob

HELD = -1
"""The alias under which output that is held back is kept, a chunk per micro-batch."""
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


class DurableBucket:
    """Reads and writes one bucket's durable state."""

    def __init__(self, store: Store) -> None:
        self._store = store
        held = store.read_head()
        self.head: Head = pickle.loads(held) if held is not None else Head()

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

    def drop(self, alias: int, before_us: int | None, keep_rows: int | None) -> None:
        """Let go of chunks whose rows are all before a time, or that `keep_rows` later rows have followed."""
        chunks = self.head.chunks.get(alias, [])
        later = sum(c.rows for c in chunks)
        while chunks:
            later -= chunks[0].rows
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

    def commit(self) -> None:
        """Write the head as the next version."""
        self.head.version += 1
        self.head.token = f"{self.head.version}-{uuid.uuid4().hex}"
        self._store.write_head(pickle.dumps(self.head))
