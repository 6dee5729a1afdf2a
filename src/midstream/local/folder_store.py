"""Folder store: what a bucket must keep, as files; tables are written once, when the micro-batch is committed.

write, remove ──▶ in memory until `save` ──▶ a file for each new table ──▶ named by the commit
"""

from pathlib import Path
from typing import Any

import pyarrow as pa

from midstream.engine.bucket.store import Key
from midstream.local.files import read_table, write_table


class FolderStore:
    """The store of one bucket. A file is never changed: a table that is replaced gets another file."""

    def __init__(self, folder: Path, label: int, saved: dict[str, Any] | None = None) -> None:
        self._folder = folder
        self._label = label
        self._head: str | None = None if saved is None else saved["head"]
        self._files = {Key(*key): name for *key, name in saved["tables"]} if saved is not None else {}
        self._fresh: dict[Key, pa.Table] = {}

    def read_state(self) -> str | None:
        """Return the bucket state, or None before the first micro-batch."""
        return self._head

    def write_state(self, state: str) -> None:
        """Replace the bucket state."""
        self._head = state

    def read(self, key: Key) -> pa.Table:
        """Return a table."""
        return self._fresh[key] if key in self._fresh else read_table(self._folder / self._files[key])

    def write(self, key: Key, table: pa.Table) -> None:
        """Add or replace a table."""
        self._files.pop(key, None)
        self._fresh[key] = table

    def remove(self, key: Key) -> None:
        """Remove a table."""
        if self._fresh.pop(key, None) is None:
            del self._files[key]

    def save(self, number: int) -> dict[str, Any]:
        """Write the tables that are new since the last commit; return the head and which file holds each table."""
        for key, table in self._fresh.items():
            name = f"{number:08d}-{self._label}-{key.kind}-{key.version}-{key.place}-{key.chunk}.arrow"
            write_table(self._folder / name, table)
            self._files[key] = name
        self._fresh = {}
        return {"head": self._head, "tables": [[*key, name] for key, name in self._files.items()]}
