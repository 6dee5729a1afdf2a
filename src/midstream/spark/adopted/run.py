"""An adopted query that runs: its tee, its versions and its gate, in one process.

    sources ──▶ tee ──▶ journal ──▶ versions ──▶ gate ──▶ sink
                  └──────◀── no faster than the version that answers

The gate goes on in a thread of its own, whenever there is news. State: what the last status said.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from midstream.engine.control.controls import CONTROL, STOP
from midstream.engine.results.merger import Departure
from midstream.live.adopted.ask import ask_deploy, ask_rollback
from midstream.live.adopted.build import is_in_file, source_of
from midstream.live.adopted.gate import DEPLOY, Gate
from midstream.live.adopted.gate_log import BEFORE_SWITCH, GateLog
from midstream.live.adopted.journal import Journal, JournalStream
from midstream.live.adopted.progress import Progress
from midstream.live.adopted.record import describe
from midstream.live.adopted.request import deploy_request
from midstream.live.checkpoint import Checkpoint
from midstream.live.sink import Owner
from midstream.local.disk import THIS_MACHINE, on_this_machine
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.spark.adopted.fleet import Build, SparkFleet
from midstream.spark.adopted.tee import all_rows
from midstream.spark.failure import readable_by_spark, sentence_of
from midstream.spark.query import SparkStream
from midstream.spark.run import check_path
from midstream.spark.session import check_session, one_sentence
from midstream.spark.sinks import sink_of

MODES = ("append", "update")
LOOK_S = 0.2
"""How long the gate waits for news."""
STATUS_S, BEAT_S = 0.5, 5.0
IDLE_S = 1.0
"""After so long without rows a tick lets time go on, as Spark's micro-batches without rows do."""
END_S = 10.0
"""How long a stop waits for micro-batches that run."""
LEAD = 2
"""Segments the journal may be ahead of the version that answers."""


@dataclass(frozen=True)
class AdoptedSettings:
    """How an adopted query is to be run."""

    name: str
    build: str
    """What names its program."""
    builds: dict[str, Build]
    """Programs that are functions of this process, by name."""
    checkpoint: Path
    mode: str
    trigger: dict[str, Any]
    keep_us: int | None
    """How much of the input is kept, in event time; None: all of it."""


class AdoptedRun:
    """A program of the user's that runs until it is stopped, fails, or its sources end."""

    def __init__(
        self, spark: SparkSession, streams: Sequence[SparkStream], sink: Any, settings: AdoptedSettings
    ) -> None:
        if settings.mode not in MODES:
            raise MidstreamError(
                f"output mode '{settings.mode}' writes whole answers over one another; it can be {' or '.join(MODES)}"
            )
        check_path(settings.checkpoint)
        check_session(spark)
        self.name = settings.name
        self._spark, self._settings, self._streams = spark, settings, streams
        self._ends_by_itself = bool(settings.trigger.get("availableNow") or settings.trigger.get("once"))
        world = self._world = THIS_MACHINE
        self._checkpoint = checkpoint = Checkpoint(settings.checkpoint, world)
        checkpoint.check_place()
        known = checkpoint.known() is not None
        who = checkpoint.identify_adopted(self.name, [s.schema.name for s in streams])
        checkpoint.hold()
        reach("checkpoint held")
        self._news = threading.Event()
        self._over = threading.Event()
        self._failure: str | None = None
        try:
            checkpoint.controls.make()
            self._sink = sink_of(sink, pa.schema([]), spark, settings.checkpoint)
            self._sink.begin(Owner(who["id"], self.name, checkpoint.folder.absolute(), known))
            folder = checkpoint.folder.absolute()
            self._journal = Journal(
                folder / "journal", world, [JournalStream(s.schema.name, s.schema.time) for s in streams]
            )
            self._fleet = SparkFleet(
                spark, folder / "versions", world, self._journal, streams, settings.builds, self.name, settings.mode,
                self._news.set,
            )  # fmt: skip
            log = GateLog(folder, world)
            if log.read() is None and is_in_file(settings.build):
                self._fleet.keep_source(1, source_of(settings.build))
            self._gate = Gate(
                world, log, checkpoint.controls, self._journal, self._fleet, self._publish, self._note, settings.keep_us
            )
            self._progress = Progress(self._gate, world)
            self._gate.begin(settings.build)
            self._note("started", {"version": self._gate.state.active})
            self._write_status("running")
            with one_sentence():
                self._tee = self._start_tee(folder / "tee")
            reach("query started")
        except BaseException:
            if hasattr(self, "_fleet"):
                self._fleet.stop_all()
            checkpoint.release()
            raise
        self._watch = threading.Thread(target=self._run, name=f"midstream-{self.name}", daemon=True)
        self._watch.start()

    # The tee

    def _start_tee(self, place: Path) -> Any:
        writer = all_rows(self._streams).writeStream.queryName(self.name).foreachBatch(self._on_rows)
        writer = writer.option("checkpointLocation", on_this_machine(place))
        trigger = self._settings.trigger or {"processingTime": "1 second"}
        try:
            return writer.trigger(**trigger).start()
        except TypeError as error:
            raise MidstreamError(f"Spark has no trigger {trigger!r}; one is {{'availableNow': True}}") from error

    def _on_rows(self, rows: DataFrame, batch: int) -> None:
        """Write what a micro-batch has read into the journal; wait until the version that answers has caught up."""
        reach("rows read")
        with readable_by_spark():
            table = rows.toArrow()
        if table.num_rows:
            self._journal.append(table, batch)
        reach("rows in the journal")
        self._news.set()
        clock = self._world.clock
        begun_s = clock.elapsed_s()
        while not self._over.is_set() and not self._gate.stop_asked:
            if self._gate.lag() < LEAD and clock.elapsed_s() - begun_s >= self._progress.pace_s():
                return
            clock.pause(0.02)

    # The gate

    def _publish(self, rows: pa.Table, segment: int) -> None:
        parts = rows.combine_chunks().to_batches()
        self._sink.write([Departure(part) for part in parts if part.num_rows], rows.schema, segment)

    def _run(self) -> None:
        """Go on until the end."""
        failure: str | None = None
        try:
            failure = self._until_the_end()
        except MidstreamError as error:
            failure = str(error)
        except Exception as error:
            failure = sentence_of(str(error))
        self._over.set()
        with contextlib.suppress(Exception):
            self._tee.stop()
        self._fleet.stop_all()
        self._end(failure)

    def _until_the_end(self) -> str | None:
        clock = self._world.clock
        beat_s = status_s = -BEAT_S
        rows_s, last, state = clock.elapsed_s(), -1, None
        while True:
            self._news.clear()
            self._gate.step()
            self._progress.look()
            now_s = clock.elapsed_s()
            if self._journal.last != last:
                rows_s, last = now_s, self._journal.last
            under_way = self._gate.state.deployment and self._gate.state.deployment.state
            if now_s - status_s > STATUS_S or under_way != state:
                self._write_status("running")
                status_s, state = now_s, under_way
            if now_s - beat_s > BEAT_S:
                self._checkpoint.beat()
                beat_s = now_s
            if self._gate.failure is not None:
                return f"version {self._gate.state.active}: {self._gate.failure}"
            if self._gate.stop_asked:
                self._wait_for_versions()
                return None
            if not self._tee.isActive:
                failure = self._tee.exception()
                if failure is not None:
                    return sentence_of(str(failure))
                if not self._journal.ticked and self._journal.last:
                    self._journal.tick()
                elif self._gate.idle:
                    return None
            elif now_s - rows_s > IDLE_S and (not self._journal.ticked or self._gate.waits_for_rows):
                self._journal.tick()
            self._news.wait(LOOK_S)

    def _wait_for_versions(self) -> None:
        """Let micro-batches that run come to their end, if that does not take long."""
        with contextlib.suppress(Exception):
            self._tee.stop()
        deadline_s = self._world.clock.elapsed_s() + END_S
        while not self._gate.idle and self._world.clock.elapsed_s() < deadline_s:
            self._gate.step()
            self._news.wait(0.05)
            self._news.clear()
            if self._gate.failure is not None:
                return

    def _end(self, failure: str | None) -> None:
        self._failure = failure
        state, more = ("stopped", {}) if failure is None else ("failed", {"error": failure})
        try:
            with contextlib.suppress(OSError):
                self._note(state, more)
            with contextlib.suppress(OSError):
                self._write_status(state)
        finally:
            self._checkpoint.release()

    def _note(self, what: str, more: dict[str, Any]) -> None:
        self._checkpoint.events.add({"event": what, **more})

    def _write_status(self, state: str) -> None:
        said: dict[str, Any] = {
            "name": self.name, "state": state, "adopted": True, "pid": os.getpid(), "host": socket.gethostname(),
            "ends_by_itself": self._ends_by_itself, "error": self._failure, **self._progress.to_dict(),
        }  # fmt: skip
        self._checkpoint.write_status({key: value for key, value in said.items() if value is not None})

    # For users

    def migrate(self, build: "Build | str", strategy: str | None = None, **options: Any) -> str:
        """Go on with another program of the same meaning; return the id of the deployment.

        `build` is a function, or text `file.py:function`, which a restart finds by itself. `strategy` is
        general-hybrid, general-parallel-track or general-moving-state. Options: `history`, how much event time the
        state of the program reaches back (all of the journal when not given); `verify`, True or "report"; `segments`
        to compare; `timeout`; `grace`, how long the old version stays for `rollback`.
        """
        return self._deploy(build, False, strategy, options)

    def change(self, build: "Build | str", method: str | None = None, **options: Any) -> str:
        """Go on with a program of another meaning; return the id of the deployment.

        `method` is immediate or graceful-immediate. With `history` the new program first reads that much of the
        journal, and answers from the position on as if it had always run. Other options are those of `migrate`;
        `allow_schema_change` where the columns are others.
        """
        return self._deploy(build, True, method, options)

    def _deploy(self, build: "Build | str", change: bool, how: str | None, options: dict[str, Any]) -> str:
        self._check_running()
        if isinstance(build, str):
            return ask_deploy(self._checkpoint, build, change, how, options)
        name = function_name(build)
        request = deploy_request(name, change, how, options)
        if self._fleet.builds.get(name, build) is not build and self._runs(name):
            raise MidstreamError(
                f"'{name}' is the name of a program that runs, and this is another one: give it a name of its own, by "
                "which a restart finds it"
            )
        self._fleet.builds[name] = build
        return self._checkpoint.controls.send(CONTROL, control=DEPLOY, deployment=request.to_dict())

    def _runs(self, build: str) -> bool:
        return any(entry.build == build for entry in self._gate.state.versions)

    def rollback(self) -> str:
        """Give the new version up: before the switch the old one goes on, after it the old one answers again."""
        self._check_running()
        return ask_rollback(self._checkpoint)

    def _check_running(self) -> None:
        if not self._watch.is_alive():
            raise MidstreamError(f"query '{self.name}' is not running")

    def deployments(self) -> list[dict[str, Any]]:
        """Return what became of each deployment."""
        return describe(self.events())

    def wait_for_deployment(self, identity: str, timeout_s: float = 120.0) -> dict[str, Any] | None:
        """Wait until the new version answers, or was given up; return the record, or None when time is up."""
        clock = self._world.clock
        deadline_s = clock.elapsed_s() + timeout_s
        while True:
            found = next((d for d in self.deployments() if d["identity"] == identity), None)
            if found is not None and found["state"] not in BEFORE_SWITCH:
                return found
            if clock.elapsed_s() >= deadline_s or not self._watch.is_alive():
                return None
            clock.pause(0.05)

    def versions(self) -> list[dict[str, Any]]:
        """Return the versions that run: what each is, how far it has come."""
        found: list[dict[str, Any]] = self._checkpoint.read_status().get("versions", [])
        return found

    def status(self) -> dict[str, Any]:
        """Return how the query is doing, as plain values."""
        return self._checkpoint.read_status()

    def events(self) -> list[dict[str, Any]]:
        """Return what has happened, oldest first."""
        return self._checkpoint.events.all()

    def stop(self, timeout_s: float = 60.0) -> None:
        """Stop through the control log; what was read and not answered is answered by the next run."""
        if self._watch.is_alive():
            self._checkpoint.controls.send(STOP)
            self._watch.join(timeout_s)
            if self._watch.is_alive():
                raise MidstreamError(f"query '{self.name}' has not stopped within {timeout_s:g} s; it will")

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the query ends; return whether it has. A failure is raised."""
        self._watch.join(timeout_s)
        if self._watch.is_alive():
            return False
        if self._failure is not None:
            raise MidstreamError(f"query '{self.name}' failed: {self._failure}")
        return True


def function_name(build: Any) -> str:
    """Return the name by which a restart finds a function.

    >>> function_name(print)
    'print'
    """
    name = getattr(build, "__qualname__", type(build).__name__)
    if not callable(build) or ":" in name:
        raise MidstreamError(f"a program is a function of (spark, streams), or text file.py:function, not {build!r}")
    return str(name)
