"""The control log: an append-only folder of control rows in the checkpoint, read as a stream by the running query.

Anyone who can write there can send control. A control row reaches all buckets in the same micro-batch, so it takes
effect at one position in all of them; recovery reads the same rows again, buckets skip those they have obeyed.
"""

import contextlib
import json
from pathlib import Path
from typing import Any

from midstream.engine.control.controls import FORMAT, control_row
from midstream.engine.world import World
from midstream.local.disk import THIS_MACHINE
from midstream.model.failpoint import reach
from midstream.model.names import digits, is_name

DIGITS = 20
"""An id begins with a number of so many digits; rows that are read together take effect in the order of their ids."""
FAR_NS = 100 * 365 * 86_400 * 10**9
"""A hundred years: no clock is so wrong, and ids that come after a stray file there would all have one number."""


class ControlLog:
    """The control rows of one query."""

    def __init__(self, folder: Path, world: World = THIS_MACHINE) -> None:
        self.folder = folder
        self._world = world

    def make(self) -> None:
        """Make its folder: whoever reads it as a stream wants one."""
        self._world.files.make_folder(self.folder)

    def new_id(self, once: str | None = None) -> str:
        """Return an id after all those in the log, whatever the clock says; that of `once`, if it was sent before."""
        ids = self.ids()
        for known in ids if once is not None else ():
            if known.endswith(f"-{once}"):
                return known
        now_ns = self._world.clock.now_ns()
        last = max((n for n in map(number_of, ids) if n < now_ns + FAR_NS), default=0)
        return f"{max(now_ns, last + 1):0{DIGITS}d}-{once or self._world.names.new()[:8]}"

    def send(self, do: str, *, identity: str | None = None, once: str | None = None, **more: Any) -> str:
        """Append a control row, durably and whole; return its id. One sent again under the same id is read once."""
        files = self._world.files
        identity = identity or self.new_id(once)
        file = self.folder / f"{identity}.json"
        if not files.exists(file):
            self.make()
            pending = self.folder / f".{identity}.{self._world.names.new()[:8]}.pending"
            files.write(pending, (json.dumps({"format": FORMAT, "id": identity, "do": do, **more}) + "\n").encode())
            reach("control pending")
            files.move(pending, file)
            reach("control sent")
        return identity

    def has(self, identity: str) -> bool:
        """Return whether a control row of that id was sent."""
        return is_name(identity) and self._world.files.exists(self.folder / f"{identity}.json")

    def rows(self) -> list[dict[str, Any]]:
        """Return the control rows that are in the log, in the order of their ids; what is none is left out."""
        found = (self.read(name.removesuffix(".json")) for name in self._names())
        return [row for row in found if row is not None]

    def read(self, identity: str) -> dict[str, Any] | None:
        """Return the control row of that id, or None."""
        if not is_name(identity):
            return None
        try:
            row = control_row(self._world.files.read(self.folder / f"{identity}.json"))
        except OSError:  # not there, a folder, or not for this user to read
            return None
        return row if row is not None and row["id"] == identity else None

    def last_plan(self, version: int) -> str:
        """Return the id of the last control row that has a plan of a version; empty: there is none."""
        rows = (self.read(name.removesuffix(".json")) for name in reversed(self._names()))
        found = (row for row in rows if row is not None and "plan" in row and row.get("version", 1) == version)
        return next((str(row["id"]) for row in found), "")

    def remove(self, identity: str) -> None:
        """Forget a control row that all buckets have obeyed."""
        if is_name(identity):
            with contextlib.suppress(IsADirectoryError, PermissionError):  # nobody's: it stays
                self._world.files.remove(self.folder / f"{identity}.json")

    def unreadable(self) -> list[str]:
        """Return the names of what looks like a control row and cannot be read: a folder, a file of somebody else."""
        found = []
        for name in self._names():
            try:
                self._world.files.read(self.folder / name)
            except FileNotFoundError:
                continue
            except OSError:
                found.append(name)
        return found

    def ids(self) -> list[str]:
        """Return the ids of the control rows in the log, in order."""
        return [name.removesuffix(".json") for name in self._names()]

    def _names(self) -> list[str]:
        names = self._world.files.names(self.folder)
        return [name for name in names if name.endswith(".json") and not name.startswith((".", "_"))]


def number_of(identity: str) -> int:
    """Return the number an id begins with; 0 for what the query sends itself, and for what is no id.

    >>> number_of("00000000000000000042-0badcafe"), number_of("00000012-0"), number_of("notes")
    (42, 0, 0)
    """
    number = identity.partition("-")[0]
    return (digits(number) or 0) if len(number) == DIGITS else 0
