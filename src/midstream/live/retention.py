"""Retention: which control rows and versions can go: what grows with the age of a query, and not with its windows."""

from collections.abc import Sequence, Set
from typing import Any

from midstream.engine.control.controls import CHANGE
from midstream.live.control_log import ControlLog
from midstream.live.repository import StoredVersions

EVERY = 256
"""Micro-batches between two looks at the control log."""
KEPT_VERSIONS = 32
"""Versions that are over, or that nobody has asked for yet, and stay nevertheless: buckets may remember a change longer
than results do, and whoever has put a version there may be about to ask for it."""


class ReadControls:
    """The control rows that buckets have read.

    A row goes when micro-batches have passed since it was read, so that none that is run again wants it, and nobody
    needs what it says: not the last plan of a version, not a change to a version that is not over.
    """

    def __init__(self, log: ControlLog, versions: StoredVersions, kept: int) -> None:
        self._log = log
        self._versions = versions
        self._kept = kept
        self._batches = 0
        self._read: set[str] = set()
        self._unreadable: set[str] = set()
        self._removable: set[str] = set(log.ids())
        """Rows that will have been read at the next look: when a run has begun, those that were there."""

    def on_batch(
        self, controls: Sequence[dict[str, Any]], row: str, known: set[int], unread: Set[str] = frozenset()
    ) -> list[str]:
        """Note what a micro-batch has read. Now and then, remove what can go, and return what nobody can read.

        `row` has the plan that runs, `known` are the versions that anybody remembers, `unread` are rows of the query's
        own that no micro-batch has read yet.
        """
        self._read |= {control["id"] for control in controls}
        self._batches += 1
        if self._batches % EVERY == 0:
            self._remove({row, *unread})
            self._forget(known)
            self._removable, self._read = self._removable | self._read, set()
        return self._strays() if self._batches % EVERY == 0 else []

    def _strays(self) -> list[str]:
        """Return the names of what cannot be read, each once."""
        fresh = [name for name in self._log.unreadable() if name not in self._unreadable]
        self._unreadable.update(fresh)
        return fresh

    def _remove(self, needed: set[str]) -> None:
        newest, over = set(self._log.ids()[-self._kept :]), self._versions.files.over()
        plans = {self._log.last_plan(number) for number in (1, *self._versions.asked())}
        for identity in sorted(self._removable - newest - plans - needed):
            held = self._log.read(identity)
            if held is None or held["do"] != CHANGE or held.get("version") in over:
                self._log.remove(identity)
                self._removable.discard(identity)

    def _forget(self, known: set[int]) -> None:
        """Forget versions that are long over, and whose control rows are gone; or that nobody has come to ask for."""
        files = self._versions.files
        over, asked = files.over(), set(self._versions.asked())
        nobodys = set(files.numbers()) - over - asked
        for number in sorted((over | nobodys) - known)[:-KEPT_VERSIONS]:
            if number not in asked:
                files.forget(number)
