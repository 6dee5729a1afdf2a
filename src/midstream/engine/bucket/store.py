"""Store: where a bucket keeps what must last: the bucket state, and tables under structured keys.

In process a store is a folder, or there is none; on Spark it is the query's state store. Only there tables become
bytes.
"""

from typing import NamedTuple, Protocol

import pyarrow as pa

WINDOW, WAITING, HELD, STAGE, OWN = "window", "waiting", "held", "stage", "own"
"""Kinds of tables: rows in windows, rows whose time has not come, output held back, rows in windows over results, and
what a run keeps itself."""


class Key(NamedTuple):
    """What a table is kept under: `place` is the alias in FROM order, or the stage."""

    kind: str
    version: int
    place: int
    chunk: int


class Store(Protocol):
    """The durable state of one bucket."""

    def read_state(self) -> str | None:
        """Return the bucket state, or None before the first micro-batch."""

    def write_state(self, state: str) -> None:
        """Replace the bucket state."""

    def read(self, key: Key) -> pa.Table:
        """Return a table."""

    def write(self, key: Key, table: pa.Table) -> None:
        """Add or replace a table."""

    def remove(self, key: Key) -> None:
        """Remove a table."""
