"""The checkpoint of a query: Spark's own, the control log, who the query is, how it is doing, what happened to it.

checkpoint/spark          Spark's offsets, commits and state
checkpoint/control        control rows
checkpoint/midstream.json who: query, plan, buckets; the format
checkpoint/status.json    how it is doing, replaced in every micro-batch
checkpoint/events.jsonl   what happened, one line each
checkpoint/versions       versions of the query as JSON; in mergers/ how far a change has come
checkpoint/late           rows that came too late, a file per micro-batch
checkpoint/lock           held by the process that runs the query
"""

import contextlib
import fcntl
import json
import os
import socket
import time
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.local.late import agreeing
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.model.format import check_format
from midstream.plan.plan import Plan
from midstream.spark.control_log import ControlLog
from midstream.spark.repository import query_text, query_texts

FORMAT = 1
"""The form in which a checkpoint is laid out."""


class Checkpoint:
    """The folder a query lives in across restarts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: int | None = None

    @staticmethod
    def existing(folder: Path) -> "Checkpoint":
        """Open the checkpoint of a query that has run before."""
        if not (folder / "midstream.json").is_file():
            raise MidstreamError(f"{folder} is not the checkpoint of a query")
        return Checkpoint(folder)

    @property
    def spark(self) -> str:
        """Return Spark's own checkpoint folder."""
        return str(self.folder / "spark")

    @property
    def controls(self) -> ControlLog:
        """Return the control log."""
        return ControlLog(self.folder / "control")

    @property
    def versions(self) -> Path:
        """Return the folder of later versions."""
        return self.folder / "versions"

    @property
    def mergers(self) -> Path:
        """Return the folder in which the driver keeps how far a change has come."""
        return self.folder / "versions" / "mergers"

    def identify(self, name: str, plan: Plan, buckets: int, labels: tuple[int, ...]) -> dict[str, Any]:
        """Write down who the query is, or check that it is still the same one."""
        text = query_text(plan)
        asked = {"name": name, "query": text, "plan": str(plan), "join": plan.method, "buckets": buckets}
        file = self.folder / "midstream.json"
        if file.is_file():
            known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            check_format(f"checkpoint {self.folder}", known.get("format"), FORMAT)
            if known["buckets"] != buckets:
                raise MidstreamError(
                    f"checkpoint {self.folder} was written with {known['buckets']} buckets and cannot go on with "
                    f"{buckets}; start with buckets = {known['buckets']} or with a new checkpoint"
                )
            if asked["query"] not in (known["query"], *query_texts(self.versions)):
                raise MidstreamError(f"checkpoint {self.folder} belongs to another query; start with a new checkpoint")
            return known
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MidstreamError(f"cannot write the checkpoint {self.folder}: {error.strerror}") from error
        known = {"format": FORMAT, **asked, "labels": list(labels), "id": uuid.uuid4().hex}
        self._replace("midstream.json", known)
        return known

    def read_identity(self) -> dict[str, Any]:
        """Return who the query is."""
        known: dict[str, Any] = json.loads((self.folder / "midstream.json").read_text(encoding="utf-8"))
        return known

    def hold(self) -> None:
        """Keep other runs of this query away until `release`, or until this process is gone."""
        self._lock = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            pid = self.read_status().get("pid", "unknown")
            raise MidstreamError(
                f"checkpoint {self.folder} is in use: its query is running already, in process {pid}"
            ) from error

    def check_free(self) -> None:
        """Refuse when the query is running already."""
        if (self.folder / "lock").exists():
            self.hold()
            self.release()

    def clear_broken_start(self) -> None:
        """Remove what a driver left that was killed while it wrote its first offsets: Spark begins in empty folders."""
        offsets = self.folder / "spark" / "offsets"
        if offsets.is_dir() and not any(file.name.isdigit() for file in offsets.iterdir()):
            for file in [*offsets.glob(".*.tmp"), *offsets.glob(".*.crc")]:
                file.unlink()

    def release(self) -> None:
        """Let another run of this query begin."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write_status(self, status: dict[str, Any]) -> None:
        """Replace the status."""
        self._replace("status.json", {**status, "updated": time.time()})

    def read_status(self) -> dict[str, Any]:
        """Return the latest status."""
        try:
            status: dict[str, Any] = json.loads((self.folder / "status.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"state": "not started"}
        here = status.get("host") in (None, socket.gethostname())
        if status.get("state") == "running" and here and not _alive(status.get("pid", 0)):
            status["state"] = "died"
        return status

    def write_late(self, batch: int, tables: list[pa.Table]) -> None:
        """Keep the late rows of a micro-batch as one Parquet file in the folder `late`."""
        folder = self.folder / "late"
        folder.mkdir(exist_ok=True)
        pending = folder / f".batch-{batch:08d}.pending"
        pq.write_table(pa.concat_tables(agreeing(tables), promote_options="permissive"), pending)
        os.replace(pending, folder / f"batch-{batch:08d}.parquet")

    def add_event(self, event: dict[str, Any]) -> None:
        """Append an event."""
        reach(f"event {event['event']}")
        with open(self.folder / "events.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"at": time.time(), **event}) + "\n")

    def read_events(self) -> list[dict[str, Any]]:
        """Return all events, oldest first; a line cut short by a crash is left out."""
        events = []
        with contextlib.suppress(FileNotFoundError), open(self.folder / "events.jsonl", encoding="utf-8") as file:
            for line in file:
                with contextlib.suppress(ValueError):
                    events.append(json.loads(line))
        return events

    def _replace(self, name: str, document: dict[str, Any]) -> None:
        pending = self.folder / f".{name}.{os.getpid()}.pending"
        pending.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        reach(f"{name} pending")
        os.replace(pending, self.folder / name)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # it runs, and belongs to someone else
    except (OSError, OverflowError):
        return False
    return pid > 0
