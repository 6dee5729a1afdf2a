"""Fleet: what a gate asks of whoever runs versions: Spark, or a simulation."""

from typing import Protocol

import pyarrow as pa

from midstream.live.adopted.gate_log import VersionEntry
from midstream.live.adopted.version_folder import VersionFolder


class Fleet(Protocol):
    """Runs versions. Whatever it is asked for twice is done once."""

    def start(self, entry: VersionEntry) -> None:
        """Let a version run; it reads nothing before it has a folder."""

    def stop(self, number: int) -> None:
        """End a version, and forget what it has written."""

    def folder(self, number: int, first: int) -> VersionFolder:
        """Return the folder of a version, made if need be; from here on it may read."""

    def schema(self, number: int) -> pa.Schema | None:
        """Return the columns of a version once it runs; None: not yet."""

    def failure(self, number: int) -> str | None:
        """Return why a version has failed."""

    def keep_source(self, number: int, source: str) -> None:
        """Keep the text of a version's program."""

    def keep_only(self, numbers: set[int]) -> None:
        """Forget what a crash has left of other versions."""
