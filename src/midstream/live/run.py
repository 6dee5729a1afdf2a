"""A live run: a query in its checkpoint, as whoever brings micro-batches drives it.

    begin ──▶ on_batch, on_batch, ... ──▶ end        by the host: Spark, or a simulation
    migrate, change, control, status, events         by users, from any thread

State: what the last micro-batch reported, and sums over all of them. All that must last is in the checkpoint.
"""

import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

from midstream.change.record import OPEN
from midstream.change.request import DRAIN as drain_method
from midstream.change.request import ChangeRequest, ControlRequest
from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.control.controls import CHANGE, CONTROL, DRAIN, MAIL, MIGRATE, SNAPSHOT, STOP
from midstream.engine.control.runs import Runs
from midstream.engine.planning.optimizing import optimizing_of
from midstream.engine.results.records import Records
from midstream.engine.results.reports import BatchSummary, held_back, total
from midstream.engine.world import World
from midstream.live.change import prepare_change, prepare_known, stored_versions
from midstream.live.checkpoint import Checkpoint
from midstream.live.earlier import earlier_totals, reported_before
from midstream.live.lines import Lines
from midstream.live.load import LiveLoad, live_policy
from midstream.live.planned import PlannedLive
from midstream.live.query import MOST_RECORDS, LiveQuery, open_catalog
from midstream.live.rates import Rates
from midstream.live.repository import read_catalog, register, registered, remove_registered
from midstream.live.retention import ReadControls
from midstream.live.settings import LiveSettings
from midstream.live.sink import BatchSink, Owner
from midstream.local.changes import ask_change
from midstream.local.declared import check_declared
from midstream.local.disk import on_this_machine
from midstream.local.explain import explain_plan
from midstream.local.files import opening
from midstream.local.loop import check_buckets
from midstream.migrate.record import QUEUED, RUNNING
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.model.secrets import mask
from midstream.model.timing import Timing
from midstream.operators.build import SITES
from midstream.plan.plan import Plan

ENDING = (STOP, DRAIN)
EVENTS = {CHANGE: "change asked"}
"""What reading a control row is called in the events, where that is not what it asks for."""
LOOK_S = 0.05
SHOWN = 4
"""Decisions in the status, the last ones."""
NAMED_STRAYS = 20
"""What is no control row and is named in the events, in a micro-batch."""


class EndOfRun(Exception):
    """A micro-batch came after the last one of a run: it is not run, and the next run begins with it."""


class LiveRun:
    """A query that runs until it is stopped, fails, or its sources end."""

    def __init__(self, query: PlannedLive, settings: LiveSettings, world: World) -> None:
        self.name = query.name
        self._asked = query
        self._world = world
        self.ends_by_itself = settings.ends_by_itself
        self._optimizing, self._adaptation = optimizing_of(settings.optimize, settings.adapt, query.plan)
        if settings.framework.name == SITES and self._optimizing.looks:
            raise MidstreamError("a join over sites follows its streams by itself: it does not go with optimize")
        self._policy = None if settings.load is None else live_policy(settings.load, query.plan.query.text)
        self._settings = settings
        self._checkpoint = checkpoint = Checkpoint(settings.checkpoint, world, settings.kept)
        # A restart may name a later version; the number of buckets is that of the first one.
        with opening(checkpoint.folder):
            known = read_catalog(checkpoint.versions, query.aggregates, world)
        self.plan = query.plan if known is None else known.first
        if self.plan.sites != query.plan.sites:
            found = self.plan.partitioning if self.plan.sites else "join its streams in one place"
            raise MidstreamError(f"checkpoint {checkpoint.folder} was written for {found}; start with a new checkpoint")
        self.buckets = self.plan.partitioning.buckets or check_buckets(settings.buckets)
        self.runs = Runs()
        self._rates = Rates()
        self._records = Records(most=MOST_RECORDS)
        """Records of migrations."""
        self._noted: tuple[list[dict[str, Any]], list[dict[str, Any]]] = [], []
        """What users see of migrations and of changes: who has waited for one finds all of it in events and status."""
        self._unshared: set[str] = set()
        """Why buckets could not share their states, as far as the events of this run say."""
        self._end_after: int | None = None
        """The micro-batch that carried a stop."""
        self._drains = False
        """A micro-batch has carried a drain."""
        self._leaves_off = False
        """No micro-batch is to run after the one that runs, if one does."""
        self._failure: str | None = None
        """Why the run has ended, if it has failed."""

    def _open(self, sink: BatchSink, labels: tuple[int, ...]) -> None:
        """Take the checkpoint and the sink for this query, or refuse; from here on nobody else has them."""
        with opening(self._checkpoint.folder):
            self._take(sink, labels)

    def _take(self, sink: BatchSink, labels: tuple[int, ...]) -> None:
        query, checkpoint, settings, world = self._asked, self._checkpoint, self._settings, self._world
        known = read_catalog(checkpoint.versions, query.aggregates, world)
        if known is not None:  # before the query is compared: its text says less of what differs
            check_declared(checkpoint.folder, known.streams, [s.schema for s in query.streams])
        identity = (checkpoint.known() or {}).get("id", "")
        later = stored_versions(checkpoint, identity, self.plan, query.aggregates).texts()
        resumed = bool(identity)
        self.who = checkpoint.identify(self.name, query.plan, self.buckets, labels, later)
        checkpoint.hold()
        reach("checkpoint held")
        try:
            schemas = [s.schema for s in query.streams]
            self.catalog = open_catalog(checkpoint, schemas, self.plan, settings.streams, query.aggregates)
            checkpoint.controls.make()
            sink.begin(Owner(self.who["id"], self.name, checkpoint.folder.absolute(), resumed))
            versions = stored_versions(checkpoint, self.who["id"], self.plan, self.catalog.aggregates)
            names = tuple(self.who["labels"])
            reach("sink begun")
            self._sink = sink
            how = settings.ordered, self._adaptation, settings.framework, self._optimizing
            self.live = LiveQuery(checkpoint, versions, names, sink, *how)
            self.live.begin()
            self._load = LiveLoad(self._policy, query.plan.query.text, self.live.plan().query.text)
            self.live.mail_waits()  # a mailbox that is broken is named at once
            self._read = ReadControls(checkpoint.controls, versions, settings.kept.control_rows)
            self._now = reported_before(checkpoint, self.live)
            self._totals, self._counted = earlier_totals(self._checkpoint)
            self._last_output_s = world.clock.elapsed_s()
            self._gap_s: dict[str, float] = {}
            self._noted = self._records.all(), self.live.changes()
            self._silent = set((self._checkpoint.read_status().get("last_batch") or {}).get("silent", ()))
            self._first: int | None = None
            """A micro-batch of this run."""
        except BaseException:
            checkpoint.release()
            raise

    def _begin(self, planned: Callable[[], int]) -> None:
        """Begin a run; `planned` returns the last micro-batch that a run before has planned, -1 if there was none."""
        with opening(self._checkpoint.folder):
            self.runs = self._checkpoint.runs.begin(planned, self._timings())
            reach("run begun")
            self._sink.fence(self.runs.begun[-1][1], self._check_newest)
            self._checkpoint.remove_pending()
            self._checkpoint.beat()
            self._add_event("started", {"run": self.runs.latest, "plan": str(self.plan), "buckets": self.buckets})
            self._write_status("running", None)

    def _end(self, failure: str | None) -> None:
        """Note that the run is over, and let another one begin.

        A full disk may have room for the event or the status; where not, the lock says that nobody runs the query.
        """
        self._failure = failure
        state, more = ("stopped", {}) if failure is None else ("failed", {"error": failure})
        try:
            if self._overtaken():
                return  # the events and the status are those of the other run
            with contextlib.suppress(OSError):
                self._add_event(state, more)
            with contextlib.suppress(OSError):
                self._write_status(state, None, failure)
            reach("end noted")
        finally:
            self._checkpoint.release()

    def _overtaken(self) -> bool:
        """Return whether another run has begun, though this one goes on: its process was stopped, its lock lost."""
        return self._checkpoint.runs.latest() != self.runs.latest

    def _check_newest(self) -> None:
        if self._overtaken():
            raise MidstreamError(f"query '{self.name}' runs in another process: run {self.runs.latest} is not the last")

    def places(self) -> tuple[str, str]:
        """Return where the host reads control rows and keeps what is its own; with schemes, whatever its default is."""
        folders = self._checkpoint.controls.folder, self._checkpoint.spark
        return on_this_machine(folders[0]), on_this_machine(folders[1])

    def bucket_spec(self) -> BucketSpec:
        """Return what all buckets share."""
        return self.live.spec(self._timings(), self.runs)

    def _timings(self) -> dict[int, Timing]:
        """Return what is allowed of the times of rows, by the position of the stream."""
        return {k: s.timing for k, s in enumerate(self._asked.streams) if s.schema.name in self.catalog.read}

    def on_batch(self, lines: Lines, number: int) -> None:
        """Hand one micro-batch's results to the sink, and note how it went."""
        if self._leaves_off or (self._end_after is not None and number > self._end_after):
            reach("batch after the end")
            raise EndOfRun(f"micro-batch {number} is the first of the next run")
        self._check_newest()
        reach("batch begun")
        clock = self._world.clock
        started_s = clock.elapsed_s()
        outputs, news = self.live.on_batch(lines, number)
        summary = total([output.report for output in outputs])
        late = [table for output in outputs for table in output.late]
        if late:
            self._checkpoint.write_late(number, late)
        reach("sink written")
        took_s = clock.elapsed_s() - started_s
        now = clock.now_ns() / 1e9
        if number > self._counted:
            self._counted = number
            for key in self._totals:
                self._totals[key] += getattr(summary, key)
            self._rates.add(clock.elapsed_s(), summary.rows_in, summary.rows_out, took_s)
        self._now = summary if outputs else self._now
        batch = {"batch": number, "at": now, **summary.to_dict(), "wall_ms": took_s * 1000}
        self._note_silence(summary, number)
        self._note_trouble(summary, number, [text for output in outputs[:1] for text in output.report["strays"]])
        self._note_controls(summary, number, batch)
        self._note_migrations(summary, number)
        for what, more in news:
            self._add_event(what, more)
        for told in self._load.on_batch(summary, clock.now_ns() // 1000, clock.elapsed_s(), took_s, self.change):
            self._add_event("load", {"batch": number, "identity": told["what"], **told})
        self._write_status("running", batch)
        self._noted = self._records.all(), self.live.changes()
        self._check_waiting(summary, number)
        unreadable = self._read.on_batch(summary.controls, self._now.row, self.live.known(), self.live.unread)
        self._note_strays(number, [f"{name}: cannot be read" for name in unreadable])
        reach("batch noted")
        if batch["phase"] != "steady":
            reach("busy batch noted")

    def _note_silence(self, summary: BatchSummary, number: int) -> None:
        """Write into the events which streams the others wait for no longer, and for which they do again."""
        for name in sorted(set(summary.silent) ^ self._silent):
            what = "stream is silent" if name in summary.silent else "stream is back"
            self._add_event(what, {"batch": number, "stream": name})
        self._silent = set(summary.silent)

    def _check_waiting(self, summary: BatchSummary, number: int) -> None:
        """Fail before the rows that wait fill the memory: nothing is lost, and the sentence says what to do.

        The first micro-batch of a run is let through: it may be one that failed before, and the next one may be the one
        that brings what the others wait for. Nor does a run fail that ends here because somebody has stopped it.
        """
        first, self._first = self._first, number
        if first is None or self._end_after is not None or summary.waiting <= self._settings.waiting:
            return
        raise MidstreamError(
            f"{summary.waiting:,} rows wait, and no more than {self._settings.waiting:,} may: "
            f"{held_back(summary.held_by)}; nothing is lost: start the query again when the stream goes on, with "
            "idle = ... for that stream, or with a larger waiting = ..."
        )

    def _note_trouble(self, summary: BatchSummary, number: int, strays: Sequence[str]) -> None:
        if summary.rebuilt:
            self._add_event("rebuilt", {"batch": number, "buckets": summary.rebuilt})
        if summary.unshared and summary.why_unshared not in self._unshared:
            self._unshared.add(summary.why_unshared)
            said = {"batch": number, "buckets": summary.unshared, "reason": summary.why_unshared}
            self._add_event("shared memory is not used", said)
        self._note_strays(number, strays)

    def _note_strays(self, number: int, strays: Sequence[str]) -> None:
        """Write into the events what is no control row: the first ones, for each event is synced, and how many more."""
        for text in strays[:NAMED_STRAYS]:
            self._add_event("no control row", {"batch": number, "id": text, "folder": "control"})
        if len(strays) > NAMED_STRAYS:
            more = len(strays) - NAMED_STRAYS
            self._add_event("more that are no control rows", {"batch": number, "count": more, "folder": "control"})

    def _note_controls(self, summary: BatchSummary, number: int, batch: dict[str, Any]) -> None:
        for control in summary.controls:
            if control["do"] == MAIL:
                continue
            what = EVENTS.get(control["do"], control["do"])
            at = {"id": control["id"], "batch": number, "position_us": summary.released_us}
            self._add_event(what, at)
            if control["do"] == SNAPSHOT:
                self._add_event("statistics", batch)
            if control["do"] in ENDING and control.get("run", self.runs.latest) == self.runs.latest:
                self._drains |= control["do"] == DRAIN
                self._end_after = number if control["do"] == STOP else self._end_after
        if self._drains and self._end_after is None and not self.live.mail_waits():
            self._end_after = number  # what is on its way between buckets has come there

    def _note_migrations(self, summary: BatchSummary, number: int) -> None:
        """Write into the events what became of migrations, and how long nothing came out meanwhile."""
        now_s = self._world.clock.elapsed_s()
        for record in summary.migrations:
            name = record["identity"]
            self._gap_s[name] = max(self._gap_s.get(name, 0.0), now_s - self._last_output_s)
            record["longest_gap_s"] = round(self._gap_s[name], 3)
        if summary.rows_out:
            self._last_output_s = now_s
        for record in self._records.see(summary.migrations):
            self._add_event("migration", {"batch": number, **record})
        under_way = {record["identity"] for record in self._records.under_way()}
        self._gap_s = {name: gap_s for name, gap_s in self._gap_s.items() if name in under_way}

    def _asked_to_end(self) -> bool:
        """Return whether somebody has asked a run that ends by itself to end earlier."""
        rows = self._checkpoint.controls.rows() if self.ends_by_itself else []
        return any(row["do"] in ENDING and row.get("run") == self.runs.latest for row in rows)

    def _add_event(self, what: str, more: dict[str, Any]) -> None:
        self._checkpoint.events.add({"event": what, **more})

    def _write_status(self, state: str, batch: dict[str, Any] | None, error: str | None = None) -> None:
        plan, totals = self.live.plan(), self._totals
        if batch is None:
            # Counts go with the micro-batch they are of: one that could not be noted is counted when it is run again.
            totals, _ = earlier_totals(self._checkpoint)
            batch = self._checkpoint.read_status().get("last_batch")
        status = {
            "name": self.name, "state": state, "run": self.runs.latest, "pid": os.getpid(),
            "host": socket.gethostname(),
            "plan": self._now.plan, "phase": self._now.phase, "migrations": self._records.under_way(),
            "version": self.live.newest, "changes": self.live.under_way(),
            "aliases": list(plan.query.aliases), "hopping": self.live.planner is not None,
            "buckets": self.buckets, "partitioning": str(plan.partitioning),
            "decisions": self.decisions()[-SHOWN:], "load": self._load.status(),
            "ends_by_itself": self.ends_by_itself, **totals, **self._rates.per_second(), "error": error,
            "last_batch": batch,
        }  # fmt: skip
        self._checkpoint.write_status(status)

    def status(self) -> dict[str, Any]:
        """Return how the query is doing."""
        return self._checkpoint.read_status()

    def events(self) -> list[dict[str, Any]]:
        """Return what has happened to the query, over all its runs."""
        return self._checkpoint.events.all()

    def explain(self) -> str:
        """Return the plan that runs, or is being migrated to, as people read it."""
        return mask(explain_plan(self.running_plan(), statistics=self.live.statistics()))

    def running_plan(self) -> Plan:
        """Return the plan that runs, or is being migrated to."""
        return self.live.running(self._now)

    def migrate(self, plan: str, strategy: str | None = None, **options: Any) -> str:
        """Ask for another plan of the same meaning; return the id of the control row, which names it in the events.

        It takes effect at the same position in all buckets, in the micro-batch that reads it; that of a hopping query
        after the next hop that is answered. `strategy` is chosen when not given; see `midstream migrate --help` for
        the strategies and their options.
        """
        self._check_running()
        request = MigrationRequest.of(plan, strategy, options)
        self.live.check(request, self._now)
        return self._checkpoint.controls.send(MIGRATE, migration=request.to_dict())

    def migrations(self) -> list[dict[str, Any]]:
        """Return what became of each migration of this run."""
        return self._noted[0]

    def decisions(self) -> list[dict[str, Any]]:
        """Return what was decided of plans: when, from which to which, why, what was expected and what was measured."""
        return self.live.advisers.decisions.to_plain()

    def wait_for_migration(self, identity: str, timeout_s: float = 60.0) -> dict[str, Any] | None:
        """Wait until a migration is over, or refused; return its record, or None when time is up."""
        return self._wait_for_record(self.migrations, identity, (RUNNING, QUEUED), timeout_s)

    def change(self, query: Any, method: str = drain_method, order: str | None = None, **options: Any) -> str:
        """Ask for another query; return the id of the control row, which names the change in the events.

        It takes effect at the same position in all buckets, after every row that has been read when the control row
        is. `method` is immediate, delayed-drain, drain (with `order`, "query" or "stream"), graceful-immediate or
        graceful-drain. A change of the output's columns needs `allow_schema_change=True`.
        """
        self._check_running()
        asked = {"method": method, "order": order, **options}
        if isinstance(query, int):
            return prepare_known(self._checkpoint, self.catalog, query, ChangeRequest.of("", asked)).send()
        request, plan = ask_change(query, self._asked.planner, asked)
        return prepare_change(self._checkpoint, self.catalog, plan, request).send()

    def register(self, query: Any, plan: str | None = None, join: str = "auto") -> int:
        """Plan and check a query to change to later, without changing; return its number. It outlives the run."""
        request, made = ask_change(query, self._asked.planner, {"plan": plan, "join": join})
        self.catalog.check(made)
        return register(self._checkpoint.versions, request.sql, made, self._world)

    def registered(self) -> list[dict[str, Any]]:
        """Return the queries that can be changed to by number; 1 is the one first started."""
        return [v.to_dict() for v in registered(self._checkpoint.versions, self.catalog, self._world).values()]

    def remove(self, number: int) -> None:
        """Forget a registered query; what runs is not touched."""
        remove_registered(self._checkpoint.versions, number, self.catalog, self._world)

    def control(self, control: str) -> str:
        """Give the whole query a control element: fstart, istop, dstop; or abort the last change. Return its id."""
        self._check_running()
        return self._checkpoint.controls.send(CONTROL, control=ControlRequest(control).control)

    def changes(self) -> list[dict[str, Any]]:
        """Return what became of each change of this run, and of the last ones before it."""
        return self._noted[1]

    def wait_for_change(self, identity: str, timeout_s: float = 60.0) -> dict[str, Any] | None:
        """Wait until a change is over, or refused; return its record, or None when time is up."""
        return self._wait_for_record(self.changes, identity, OPEN, timeout_s)

    def snapshot(self) -> str:
        """Ask for statistics in the events; return the id of the control row."""
        return self._checkpoint.controls.send(SNAPSHOT)

    def ask_to_end(self, drain: bool = False) -> str:
        """Ask this run, and no later one, to end after the micro-batch that reads it."""
        return self._checkpoint.controls.send(DRAIN if drain else STOP, run=self.runs.latest)

    def _wait_for_record(
        self, records: Callable[[], list[dict[str, Any]]], identity: str, unsettled: Sequence[str], timeout_s: float
    ) -> dict[str, Any] | None:
        clock = self._world.clock
        deadline_s = clock.elapsed_s() + timeout_s
        while True:
            last_look = clock.elapsed_s() >= deadline_s or not self.lives()
            found = next((r for r in records() if r["identity"] == identity), None)
            if found is not None and found["state"] not in unsettled:
                return found
            if last_look:
                return None
            clock.pause(LOOK_S)

    def lives(self) -> bool:
        """Return whether micro-batches may still come."""
        raise NotImplementedError

    def _check_running(self) -> None:
        if self.ends_by_itself:
            raise MidstreamError(f"query '{self.name}' ends by itself and reads no control while it runs")
        if not self.lives():
            raise MidstreamError(f"query '{self.name}' is not running")
