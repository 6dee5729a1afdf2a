"""The control log: an append-only folder of control rows in the checkpoint, read as a stream by the running query.

Anyone who can write there can send control. A control row reaches all buckets in the same micro-batch, so it takes
effect at one position in all of them; recovery reads the same rows again, buckets skip those they have obeyed.
"""

import json
import os
import time
import uuid
from pathlib import Path
from typing import Any

from midstream.model.failpoint import reach


class ControlLog:
    """The control rows of one query."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def send(self, do: str, *, identity: str | None = None, **more: Any) -> str:
        """Append a control row, durably and whole; return its id. One sent again under the same id is read once."""
        identity = identity or f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}"
        line = json.dumps({"id": identity, "do": do, **more})
        pending = self.folder / f".{identity}.pending"
        with open(pending, "w", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        reach("control pending")
        os.replace(pending, self.folder / f"{identity}.json")
        reach("control sent")
        return identity

    def since(self, time_ns: int) -> list[dict[str, Any]]:
        """Return the control rows sent at or after a time, oldest first."""
        files = sorted(f for f in self.folder.glob("*.json") if sent_ns(f.stem) >= time_ns)
        return [json.loads(f.read_text(encoding="utf-8")) for f in files]

    def read(self, identity: str) -> dict[str, Any] | None:
        """Return the control row of that id, or None."""
        file = self.folder / f"{identity}.json"
        found: dict[str, Any] | None = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
        return found

    def last_plan(self, version: int) -> str:
        """Return the id of the last control row that has a plan of a version; empty: there is none."""
        rows = (self.read(f.stem) for f in sorted(self.folder.glob("*.json"), reverse=True))
        found = (row for row in rows if row is not None and "plan" in row and row.get("version", 1) == version)
        return next((str(row["id"]) for row in found), "")


def sent_ns(identity: str) -> int:
    """Return when a control row was sent, in nanoseconds.

    >>> sent_ns("00000000000000000042-0badcafe")
    42
    """
    sent = identity.partition("-")[0]
    return int(sent) if sent.isdigit() else 0
