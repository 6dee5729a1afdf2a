"""The events of a run as a reader keeps them who looks all the while: also what is rotated away."""

from collections.abc import Iterator
from pathlib import Path

from simulation.disk import File, Folder, SimulatedDisk

NAMES = ("events.old.jsonl", "events.jsonl")


class EventFiles:
    """The files with events there were, oldest first."""

    def __init__(self, disk: SimulatedDisk, folder: Path) -> None:
        self._disk, self._folder = disk, folder
        self._gone: list[File] = []
        """Those that newer ones have taken the place of."""
        self._there: list[File] = []

    def look(self) -> None:
        """See which files are there."""
        there = self._found()
        if there != self._there:
            self._gone += [file for file in self._there if file not in there and file not in self._gone]
            self._there = there

    def _found(self) -> list[File]:
        folder = self._disk.find(self._folder)
        found = [folder.names.get(name) for name in NAMES] if isinstance(folder, Folder) else []
        return [file for file in found if isinstance(file, File)]

    def on_power_cut(self) -> None:
        """Accept that what was not synced is gone: a file whose name is lost, and that one is back which had gone."""
        there = self._found()
        self._gone = [file for file in self._gone if file not in there]
        self._there = there

    def lines(self) -> Iterator[bytes]:
        """Yield all lines that were written and stayed until they were rotated away."""
        for file in (*self._gone, *self._there):
            yield from file.data.splitlines()
