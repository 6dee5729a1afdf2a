"""A reader of the results, who looks whenever the disk has changed: whole micro-batches, each once, for ever.

What a power cut takes away before it was synced may go; what the host has committed may not.
"""

import io
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from midstream.live.reading import parts
from midstream.live.result_folder import ANSWER
from simulation.disk import File, Folder, SimulatedDisk
from simulation.machine import Found


class Seen:
    """The disk as a reader sees it, who takes no steps: the first listing is one from before, as long as it takes."""

    def __init__(self, disk: SimulatedDisk, before: list[str] | None) -> None:
        self._disk = disk
        self._before = before

    def names(self, folder: Path) -> list[str]:
        found = self._disk.find(folder)
        now = sorted(found.names) if isinstance(found, Folder) else []
        before, self._before = self._before, None
        return now if before is None else before

    def read(self, file: Path) -> bytes:
        return self._disk.file(file).data

    def exists(self, path: Path) -> bool:
        return self._disk.find(path) is not None


class Reader:
    """Reads a folder of results again and again."""

    def __init__(self, disk: SimulatedDisk, folder: Path) -> None:
        self._disk, self._folder = disk, folder
        self.seen: dict[str, bytes] = {}
        """The data of each file, as they were first seen."""
        self.answers: dict[int, str] = {}
        self._answer: File | None = None
        self._listed: list[str] | None = None
        """The names there were at the last look."""

    def look(self) -> None:
        """Read the folder once; Found when it is not as it must be."""
        folder = self._disk.find(self._folder)
        if not isinstance(folder, Folder):
            if self.seen:
                raise Found("the folder of results has vanished")
            return
        stale = self._listed if len(self.seen) % 2 else None
        found = [file.name for file in parts(self._folder, Seen(self._disk, stale))]
        self._listed = sorted(folder.names)
        gone = self.seen.keys() - set(found)
        if gone:
            raise Found(f"results have vanished: {sorted(gone)}")
        for name in found:
            node = folder.names[name]
            assert isinstance(node, File)
            if name not in self.seen:
                if self.seen and name < max(self.seen):
                    raise Found(f"{name} has appeared after {max(self.seen)}")
                rows_of(node.data, name)
                self.seen[name] = node.data
            elif node.data is not self.seen[name] and node.data != self.seen[name]:
                raise Found(f"{name} has changed after it was seen")
        for name in (ANSWER, "table.parquet"):
            answer = folder.names.get(name)
            if isinstance(answer, File) and answer is not self._answer:
                self._see_answer(name, answer)

    def _see_answer(self, name: str, answer: File) -> None:
        self._answer = answer
        table = _read(answer.data, name)
        hop = int((table.schema.metadata or {})[b"midstream.hop"])
        rows = repr(sorted(map(repr, table.to_pylist())))
        if self.answers and hop < max(self.answers):
            raise Found(f"{name} has gone back from {max(self.answers)} to {hop}")
        if self.answers.setdefault(hop, rows) != rows:
            self.answers[hop] = rows  # another version answers at the same hop

    def on_power_cut(self, committed: set[int]) -> None:
        """Accept that what was not synced is gone."""
        folder = self._disk.find(self._folder)
        there = folder.names if isinstance(folder, Folder) else {}
        for name in list(self.seen):
            if name not in there:
                if int(name.removeprefix("batch-").partition(".")[0]) in committed:
                    raise Found(f"{name} was committed, and is gone after a power cut")
                del self.seen[name]
        self.answers, self._answer, self._listed = {}, None, None


def _read(data: bytes, name: str) -> Any:
    try:
        return pq.ParquetFile(io.BytesIO(data)).read()
    except Exception as error:
        raise Found(f"{name} cannot be read: {error}") from error


def rows_of(data: bytes, name: str) -> list[str]:
    """Return the rows of a file, as text."""
    return [repr(row) for row in _read(data, name).to_pylist()]
