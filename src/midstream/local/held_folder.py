"""A folder that one process at a time holds, as long as a run lives in it."""

import fcntl
import os
from pathlib import Path

from midstream.model.errors import MidstreamError


class HeldFolder:
    """A folder with a file `lock`, which goes with the process that holds it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: int | None = None

    def hold(self) -> None:
        """Keep other runs away until `release`, or until this process is gone."""
        self._lock = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            raise MidstreamError(f"checkpoint {self.folder} is in use: {self.in_use()}") from error

    def in_use(self) -> str:
        """Say who holds the folder, or what to do."""
        return "stop the run that goes on from it"

    def release(self) -> None:
        """Let another run begin, or go on from here."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
