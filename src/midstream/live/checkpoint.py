"""The checkpoint of a live query: its host's own, the control log, who the query is, how it is doing, what happened.

checkpoint/spark          Spark's offsets, commits and state
checkpoint/control        control rows
checkpoint/midstream.json who: query, plan, buckets; the format
checkpoint/runs           which run of the query began with which micro-batch
checkpoint/status.json    how it is doing, replaced in every micro-batch
checkpoint/heartbeat      written every few seconds by the process that runs the query
checkpoint/events.jsonl   what happened, one line each
checkpoint/decisions.json what was decided of plans by the query itself, and what it has to know to decide again
checkpoint/versions       versions of the query as JSON; in mergers/ how far a change has come
checkpoint/mail           what buckets have sent to each other, a file per micro-batch
checkpoint/late           rows that came too late, a file per micro-batch
checkpoint/lock           held by the process that runs the query
"""

import io
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.engine.world import World, document_bytes
from midstream.live.control_log import ControlLog
from midstream.live.events import EventLog
from midstream.live.kept import Retention
from midstream.live.mailbox import Mailbox
from midstream.live.repository import query_text
from midstream.live.run_log import RunLog
from midstream.local.disk import THIS_MACHINE
from midstream.local.files import writing
from midstream.local.held_folder import HeldFolder
from midstream.local.late import agreeing
from midstream.model.errors import BrokenFileError, MidstreamError
from midstream.model.failpoint import reach
from midstream.model.format import check_format, whole
from midstream.model.names import is_identity, is_moment, is_number
from midstream.model.secrets import masked
from midstream.plan.plan import Plan

FORMAT = 1
"""The form in which a checkpoint is laid out."""
PLACE = "place"
"""What `midstream.json` calls the folder in which the query has begun; an older release did not say it."""
SPARE = "remove it: the query goes on, what it has counted begins at 0"
"""What to do when the status is broken: nothing depends on it."""
PENDING = (".status.json.", ".heartbeat.", ".decisions.json.")
"""What files beside these begin with until they are whole."""
SILENT_S = 60.0
"""A query on another host that has shown no life for so long is taken for dead."""
LONG_DEAD_S = 7 * 86_400.0
"""No clock is so wrong: one that showed life longer ago is dead."""
LOOKS, LOOK_S = 12, 1.0
"""How often, and after how long a pause, a heartbeat is looked at again when its time says nothing."""


class Checkpoint(HeldFolder):
    """The folder a query lives in across restarts."""

    def __init__(self, folder: Path, world: World = THIS_MACHINE, kept: Retention | None = None) -> None:
        super().__init__(folder, world)
        self._kept = kept or Retention()
        self.controls = ControlLog(folder / "control", world)
        self.runs = RunLog(folder / "runs", world)
        self.events = EventLog(folder / "events.jsonl", world, self._kept.event_bytes)
        self._late: list[str] | None = None
        """The files with late rows, in order; None: nobody has looked."""

    @staticmethod
    def existing(folder: Path, world: World = THIS_MACHINE) -> "Checkpoint":
        """Open the checkpoint of a query that has run before."""
        if not world.files.exists(folder / "midstream.json"):
            raise MidstreamError(f"{folder} is not the checkpoint of a query")
        return Checkpoint(folder, world)

    @property
    def spark(self) -> Path:
        """Return Spark's own checkpoint folder."""
        return self.folder / "spark"

    @property
    def versions(self) -> Path:
        """Return the folder of later versions."""
        return self.folder / "versions"

    @property
    def mergers(self) -> Path:
        """Return the folder in which the driver keeps how far a change has come."""
        return self.folder / "versions" / "mergers"

    @property
    def decisions(self) -> Path:
        """Return the file with what was decided of plans."""
        return self.folder / "decisions.json"

    @property
    def mail(self) -> Mailbox:
        """Return the messages of buckets to each other."""
        return Mailbox(self.folder / "mail", self.world)

    def known(self) -> dict[str, Any] | None:
        """Return who the query is, or None before that is written down."""
        known = self.world.read_json(self.folder / "midstream.json")
        if known is not None:
            check_format(f"checkpoint {self.folder}", known.get("format"), FORMAT)
            self._check_names(known)
        return known

    def _check_names(self, known: dict[str, Any]) -> None:
        """Refuse names that nobody has written there who runs queries: they become parts of paths."""
        labels = known.get("labels")
        is_right = {
            "id": is_identity(known.get("id")),
            "buckets": is_number(known.get("buckets"), least=1),
            "labels": isinstance(labels, list) and bool(labels) and all(map(is_number, labels)),
        }
        for name, right in is_right.items():
            if not right and (name == "id" or name in known):
                raise MidstreamError(
                    f"checkpoint {self.folder} was tampered with: midstream.json has {name} = {known.get(name)!r}"
                )

    def identify(
        self, name: str, plan: Plan, buckets: int, labels: tuple[int, ...], later: Sequence[str]
    ) -> dict[str, Any]:
        """Write down who the query is, or check that it is still the same one, or one of the `later` queries."""
        text = query_text(plan)
        asked = {"name": name, "query": text, "plan": str(plan), "join": plan.method, "buckets": buckets}
        known = self.known() or self._introduce({"format": FORMAT, **asked, "labels": list(labels)})
        with whole(self.folder / "midstream.json"):
            if not {"id", "query", "buckets", "labels"} <= known.keys():
                raise KeyError("id")
        if known["buckets"] != buckets:
            raise MidstreamError(
                f"checkpoint {self.folder} was written with {known['buckets']} buckets and cannot go on with "
                f"{buckets}; start with buckets = {known['buckets']} or with a new checkpoint"
            )
        if asked["query"] not in (known["query"], *later):
            raise MidstreamError(f"checkpoint {self.folder} belongs to another query; start with a new checkpoint")
        return known

    def identify_adopted(self, name: str, streams: Sequence[str]) -> dict[str, Any]:
        """Write down that a program of the user's lives here, over which streams, or check that it is so."""
        said = {"format": FORMAT, "name": name, "adopted": True, "streams": list(streams)}
        known = self.known() or self._introduce(said)
        if not known.get("adopted"):
            raise MidstreamError(f"checkpoint {self.folder} belongs to another query; start with a new checkpoint")
        if known.get("streams") != list(streams):
            raise MidstreamError(
                f"checkpoint {self.folder} has a journal of the streams {', '.join(known.get('streams', ()))}; declare "
                "these, in this order, or start with a new checkpoint"
            )
        return known

    def _introduce(self, who: dict[str, Any]) -> dict[str, Any]:
        """Write down who the query is; return what is there. Of two that begin at once the first one counts."""
        document = document_bytes({**who, "id": self.world.names.new(), PLACE: str(self.folder.absolute())})
        with writing(f"the checkpoint {self.folder}", MidstreamError):
            self.world.files.make_folder(self.folder)
            self.world.add(self.folder / "midstream.json", document, lambda: reach("midstream.json pending"))
        known = self.known()
        assert known is not None, "it was written just now"
        return known

    def check_place(self) -> None:
        """Refuse a checkpoint that was moved: Spark finds what it keeps by the place where the query began."""
        place = (self.known() or {}).get(PLACE)
        if isinstance(place, str) and not self.world.files.exists(Path(place) / "midstream.json"):
            raise MidstreamError(
                f"checkpoint {self.folder} was moved: Spark's own files in it name {place}; move it back there, or "
                "start with a new checkpoint"
            )

    def in_use(self) -> str:
        """Say which process runs the query."""
        return f"its query is running already, in process {self._written_status().get('pid', 'unknown')}"

    def check_free(self) -> None:
        """Refuse when the query is running already."""
        if self.taken:
            raise MidstreamError(f"checkpoint {self.folder} is in use: {self.in_use()}")

    def write_status(self, status: dict[str, Any]) -> None:
        """Replace the status."""
        written = {"format": FORMAT, **status, "updated": self.world.clock.now_ns() / 1e9}
        text = document_bytes(masked(written))
        self.world.put(self.folder / "status.json", text, point=lambda: reach("status.json pending"))

    def read_status(self) -> dict[str, Any]:
        """Return the latest status. A query runs when somebody holds its checkpoint; "died": nobody does any more."""
        status = self._written_status()
        if status.get("state") == "running" and not self._alive(status):
            status["state"] = "died"
        return status

    def _written_status(self) -> dict[str, Any]:
        file = self.folder / "status.json"
        status = self.world.read_json(file, SPARE)
        if status is None:
            return {"state": "not started"}
        check_format(f"{file}", status.pop("format", FORMAT), FORMAT)
        status.setdefault("state", "not started")
        last, aliases = status.get("last_batch"), status.get("aliases", [])
        senseless = {
            "state": not isinstance(status["state"], str),
            "name": not isinstance(status.get("name", ""), str),
            "aliases": not (isinstance(aliases, list) and all(isinstance(alias, str) for alias in aliases)),
            "updated": "updated" in status and not is_moment(status["updated"]),
            "last_batch": not (last is None or (isinstance(last, dict) and is_number(last.get("batch", 0)))),
            **{name: not is_number(status.get(name, 0)) for name in ("rows_in", "rows_out", "late", "ahead")},
        }
        for name, wrong in senseless.items():
            if wrong:
                raise BrokenFileError(f"{file} is broken, its {name} is {str(status.get(name))[:40]!r}; {SPARE}")
        return status

    def _alive(self, status: dict[str, Any]) -> bool:
        """Return whether the process that wrote a status lives: a lock says so on this host, a heartbeat on others."""
        if status.get("host") in (None, socket.gethostname()):
            return self.taken
        signs, now_s = self._signs(status), self.world.clock.now_ns() / 1e9
        if any(abs(now_s - sign) < SILENT_S for sign in signs):
            return True
        # Long dead; or a clock is wrong, here or there: does its heart beat?
        for _ in range(LOOKS if max(signs, default=0.0) > now_s - LONG_DEAD_S else 0):
            self.world.clock.pause(LOOK_S)
            if self._signs(self._written_status()) != signs:
                return True
        return False

    def _signs(self, status: dict[str, Any]) -> list[float]:
        """Return when the process that runs the query last showed life, by its clock; a power cut may take a beat."""
        beat: Any = None
        with suppress(BrokenFileError):
            beat = (self.world.read_json(self.folder / "heartbeat") or {}).get("at")
        return [float(sign) for sign in (beat, status.get("updated")) if is_moment(sign)]

    def beat(self) -> None:
        """Show that the process that runs the query lives."""
        said = {"format": FORMAT, "at": self.world.clock.now_ns() / 1e9}
        self.world.put_json(self.folder / "heartbeat", said, lasting=False)

    def remove_pending(self) -> None:
        """Remove what drivers that were killed were about to put in its place; only the one that runs writes these."""
        for folder, begins in ((self.folder, PENDING), (self.folder / "late", "."), (self.mergers, ".")):
            for name in self.world.files.names(folder):
                if name.startswith(begins) and name.endswith(".pending"):
                    self.world.files.remove(folder / name)

    def write_late(self, batch: int, tables: list[pa.Table]) -> None:
        """Keep the late rows of a micro-batch as one Parquet file in the folder `late`."""
        folder = self.folder / "late"
        self.world.files.make_folder(folder)
        late = pa.concat_tables(agreeing(tables), promote_options="permissive")
        held = io.BytesIO()
        pq.write_table(late, held)
        file = folder / f"batch-{batch:08d}.parquet"
        self.world.put(file, held.getvalue(), point=lambda: reach("late pending"))
        if self._kept.late_files is not None:
            self._remove_late(folder, file.name, self._kept.late_files)

    def _remove_late(self, folder: Path, newest: str, kept: int) -> None:
        """Remove the oldest files with late rows, but for so many."""
        if self._late is None:
            self._late = [name for name in self.world.files.names(folder) if name.startswith("batch-")]
        self._late = sorted({*self._late, newest})
        for name in self._late[:-kept]:
            self.world.files.remove(folder / name)
        del self._late[:-kept]
