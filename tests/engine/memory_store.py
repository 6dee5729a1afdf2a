"""A store of a bucket in a dictionary, so that tests can look into it and put it back."""

import pyarrow as pa

from midstream.engine.bucket.store import Key


class MemoryStore:
    """A store in this process."""

    def __init__(self) -> None:
        self.head: str | None = None
        self.tables: dict[Key, pa.Table] = {}

    def copy(self) -> "MemoryStore":
        """Return another one with the same in it."""
        other = MemoryStore()
        other.head, other.tables = self.head, dict(self.tables)
        return other

    def read_state(self) -> str | None:
        """Return the bucket state, or None before the first micro-batch."""
        return self.head

    def write_state(self, state: str) -> None:
        """Replace the bucket state."""
        self.head = state

    def read(self, key: Key) -> pa.Table:
        """Return a table."""
        return self.tables[key]

    def write(self, key: Key, table: pa.Table) -> None:
        """Add or replace a table."""
        self.tables[key] = table

    def remove(self, key: Key) -> None:
        """Remove a table."""
        del self.tables[key]
