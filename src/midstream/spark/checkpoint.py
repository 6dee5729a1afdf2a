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
import json
import os
import socket
import time
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.local.files import read_json, replace_json, replace_whole, writing
from midstream.local.held_folder import HeldFolder
from midstream.local.late import agreeing
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.model.format import check_format
from midstream.plan.plan import Plan
from midstream.spark.control_log import ControlLog
from midstream.spark.repository import query_text, query_texts

FORMAT = 1
"""The form in which a checkpoint is laid out."""


class Checkpoint(HeldFolder):
    """The folder a query lives in across restarts."""

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
        known = read_json(self.folder / "midstream.json")
        if known is not None:
            check_format(f"checkpoint {self.folder}", known.get("format"), FORMAT)
            if known["buckets"] != buckets:
                raise MidstreamError(
                    f"checkpoint {self.folder} was written with {known['buckets']} buckets and cannot go on with "
                    f"{buckets}; start with buckets = {known['buckets']} or with a new checkpoint"
                )
            if asked["query"] not in (known["query"], *query_texts(self.versions)):
                raise MidstreamError(f"checkpoint {self.folder} belongs to another query; start with a new checkpoint")
            return known
        with writing(f"the checkpoint {self.folder}", MidstreamError):
            self.folder.mkdir(parents=True, exist_ok=True)
        known = {"format": FORMAT, **asked, "labels": list(labels), "id": uuid.uuid4().hex}
        replace_json(self.folder / "midstream.json", known)
        return known

    def in_use(self) -> str:
        """Say which process runs the query."""
        return f"its query is running already, in process {self.read_status().get('pid', 'unknown')}"

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

    def write_status(self, status: dict[str, Any]) -> None:
        """Replace the status."""
        replace_json(self.folder / "status.json", {**status, "updated": time.time()})

    def read_status(self) -> dict[str, Any]:
        """Return the latest status."""
        status = read_json(self.folder / "status.json")
        if status is None:
            return {"state": "not started"}
        here = status.get("host") in (None, socket.gethostname())
        if status.get("state") == "running" and here and not _alive(status.get("pid", 0)):
            status["state"] = "died"
        return status

    def write_late(self, batch: int, tables: list[pa.Table]) -> None:
        """Keep the late rows of a micro-batch as one Parquet file in the folder `late`."""
        folder = self.folder / "late"
        folder.mkdir(exist_ok=True)
        late = pa.concat_tables(agreeing(tables), promote_options="permissive")
        file = folder / f"batch-{batch:08d}.parquet"
        replace_whole(file, lambda pending: pq.write_table(late, pending), "late pending")

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


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # it runs, and belongs to someone else
    except (OSError, OverflowError):
        return False
    return pid > 0
