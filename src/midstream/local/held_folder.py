"""A folder that one process at a time holds, as long as a run lives in it."""

from pathlib import Path

from midstream.engine.world import Lock, World
from midstream.local.disk import THIS_MACHINE
from midstream.model.errors import MidstreamError

TRIES, PAUSE_S = 5, 0.1
"""Whoever asks whether a folder is held takes the lock for an instant: it is tried again."""


class HeldFolder:
    """A folder with a file `lock`, which goes with the process that holds it."""

    def __init__(self, folder: Path, world: World = THIS_MACHINE) -> None:
        self.folder = folder
        self.world = world
        self._lock: Lock | None = None

    def hold(self) -> None:
        """Keep other runs away until `release`, or until this process is gone."""
        for attempt in range(TRIES):
            self._lock = self.world.files.lock(self.folder / "lock")
            if self._lock is not None:
                return
            if attempt + 1 < TRIES:
                self.world.clock.pause(PAUSE_S)
        raise MidstreamError(f"checkpoint {self.folder} is in use: {self.in_use()}")

    @property
    def taken(self) -> bool:
        """Return whether somebody holds the folder."""
        if self._lock is not None:
            return True
        if not self.world.files.exists(self.folder / "lock"):
            return False
        lock = self.world.files.lock(self.folder / "lock")
        if lock is not None:
            lock.release()
        return lock is None

    def in_use(self) -> str:
        """Say who holds the folder, or what to do."""
        return "stop the run that goes on from it"

    def release(self) -> None:
        """Let another run begin, or go on from here."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None
