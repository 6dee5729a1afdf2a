"""A running query on Spark: start it, watch it, send it control."""

import os
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from midstream.change.record import OPEN
from midstream.change.request import DRAIN as drain_method
from midstream.change.request import ChangeRequest, ControlRequest
from midstream.engine.control.controls import CHANGE, CONTROL, DRAIN, MIGRATE, SNAPSHOT, STOP
from midstream.engine.planning.adapt import adaptation_of
from midstream.engine.results.records import Records
from midstream.engine.results.reports import BatchSummary, total
from midstream.engine.results.schema import output_schema
from midstream.local.changes import ask_change
from midstream.local.explain import explain_plan
from midstream.local.loop import check_buckets
from midstream.migrate.record import QUEUED, RUNNING
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.plan.plan import Plan
from midstream.spark.change import prepare_change, prepare_known
from midstream.spark.checkpoint import Checkpoint
from midstream.spark.control_log import sent_ns
from midstream.spark.failure import sentence_of
from midstream.spark.graph import Input, labels_of, output_lines
from midstream.spark.kept_table import KeptTable
from midstream.spark.live import LiveQuery, open_catalog
from midstream.spark.mapped import forget_query
from midstream.spark.query import PlannedOnSpark
from midstream.spark.rates import Rates
from midstream.spark.repository import read_catalog, register, registered, remove_registered
from midstream.spark.settings import shared_memory, with_settings
from midstream.spark.sinks import sink_of
from midstream.spark.writer import ResultWriter

ENDING = (STOP, DRAIN)
EVENTS = {CHANGE: "change asked"}
"""What reading a control row is called in the events, where that is not what it asks for."""


class SparkRun:
    """A query that runs on Spark until it is stopped, fails, or its sources end."""

    def __init__(
        self,
        query: PlannedOnSpark,
        sink: Any,
        checkpoint: Path,
        buckets: int | None,
        ordered: bool,
        trigger: dict[str, Any],
        streams: Sequence[str],
        adapt: str | None,
    ) -> None:
        self.name = query.name
        self._asked = query
        adaptation = adaptation_of(adapt, query.plan)
        spark, schemas = query.spark, [s.schema for s in query.streams]
        asked = check_buckets(buckets if buckets is not None else spark.sparkContext.defaultParallelism)
        self._checkpoint = Checkpoint(checkpoint)
        known = self._checkpoint.versions
        # A restart may name a later version; the number of buckets is that of the first one.
        first = read_catalog(known, query.aggregates).first if (known / "catalog.json").is_file() else query.plan
        self.plan = first
        self.buckets = 1 if first.partitioning.one_bucket else asked
        given = sink_of(sink, output_schema(first), spark)
        who = self._checkpoint.identify(self.name, query.plan, self.buckets, labels_of(spark, self.buckets))
        self._mapped = shared_memory() / who["id"]
        self._catalog = open_catalog(known, schemas, first, streams, query.aggregates)
        if isinstance(given, KeptTable):
            given.begin(who["id"])
        writer = ResultWriter(given, ordered)
        self._live = LiveQuery(
            self._checkpoint, tuple(who["labels"]), first, writer, adaptation, self._catalog.aggregates
        )
        self._trigger = trigger
        self._rates = Rates()
        self._records = Records()
        self._now = self._reported_before()
        """What the last micro-batch reported."""
        self._last_output = time.time()
        self._gap_s: dict[str, float] = {}
        """The longest time without output of each migration under way."""
        self._end_after: int | None = None
        self._checkpoint.hold()
        try:
            self._checkpoint.clear_broken_start()
            self._totals, self._counted = self._earlier_totals()
            self._started_ns = time.time_ns()
            self._query = self._start_query()
            self._add_event("started", {"plan": str(self.plan), "buckets": self.buckets})
            self._write_status("running", None)
        except BaseException:
            self._checkpoint.release()
            raise
        self._watch = threading.Thread(target=self._wait_for_end, name=f"midstream-{self.name}", daemon=True)
        self._watch.start()

    def _reported_before(self) -> BatchSummary:
        """Return what is known of the plan before the first micro-batch of this run."""
        last = self._checkpoint.read_status().get("last_batch") or {}
        summary = BatchSummary(row=last.get("row", ""), join=self._live.plan().method)
        return replace(summary, plan=str(self._live.running(summary)))

    def _earlier_totals(self) -> tuple[dict[str, int], int]:
        """Return what earlier runs have counted, and the last micro-batch in it: recovery may run that one again."""
        status = self._checkpoint.read_status()
        last = status.get("last_batch") or {}
        return {k: int(status.get(k, 0)) for k in ("rows_in", "rows_out", "late")}, int(last.get("batch", -1))

    def _start_query(self) -> StreamingQuery:
        spark, streams = self._asked.spark, self._asked.streams
        read = {k: stream for k, stream in enumerate(streams) if stream.schema.name in self._catalog.read}
        spec = self._live.spec({position: stream.lateness_us for position, stream in read.items()})
        inputs = [Input(stream.schema, position, stream.frame) for position, stream in read.items()]
        controls = spark.readStream.text(str(self._checkpoint.controls.folder.absolute()))
        with with_settings(spark, self.buckets):
            lines = output_lines(self._live.versions.wanted, inputs, spec, str(self._mapped), controls)
            writer = lines.writeStream.queryName(self.name).foreachBatch(self._on_batch)
            writer = writer.option("checkpointLocation", str(Path(self._checkpoint.spark).absolute()))
            return (writer.trigger(**self._trigger) if self._trigger else writer).start()

    def _on_batch(self, lines: DataFrame, number: int) -> None:
        """Hand one micro-batch's results to the sink, and note how it went."""
        started = time.perf_counter()
        outputs, news = self._live.on_batch(lines, number)
        summary = total([output.report for output in outputs])
        late = [table for output in outputs for table in output.late]
        if late:
            self._checkpoint.write_late(number, late)
        reach("sink written")
        now = time.time()
        if number > self._counted:
            self._counted = number
            for key in self._totals:
                self._totals[key] += getattr(summary, key)
            self._rates.add(now, summary.rows_in, summary.rows_out, time.perf_counter() - started)
        self._now = summary if outputs else self._now
        batch = {"batch": number, "at": now, **asdict(summary), "wall_ms": (time.perf_counter() - started) * 1000}
        if summary.rebuilt:
            self._add_event("rebuilt", {"batch": number, "buckets": summary.rebuilt})
        if summary.unshared:
            self._add_event("shared memory is full", {"batch": number, "buckets": summary.unshared})
        self._note_migrations(summary, number, now)
        for what, more in news:
            self._add_event(what, more)
        for control in summary.controls:
            self._add_event(
                EVENTS.get(control["do"], control["do"]),
                {"id": control["id"], "batch": number, "position_us": summary.released_us},
            )
            if control["do"] == SNAPSHOT:
                self._add_event("statistics", batch)
            if control["do"] in ENDING and self._is_for_this_run(control["id"]):
                self._end_after = number
        self._write_status("running", batch)
        reach("batch noted")
        if batch["phase"] != "steady":
            reach("busy batch noted")

    def _note_migrations(self, summary: BatchSummary, number: int, now: float) -> None:
        """Write into the events what became of migrations, and how long nothing came out meanwhile."""
        for record in summary.migrations:
            name = record["identity"]
            self._gap_s[name] = max(self._gap_s.get(name, 0.0), now - self._last_output)
            record["longest_gap_s"] = round(self._gap_s[name], 3)
        if summary.rows_out:
            self._last_output = now
        for record in self._records.see(summary.migrations):
            self._add_event("migration", {"batch": number, **record})

    def _is_for_this_run(self, control: str) -> bool:
        """Return whether a control row was sent since the start: a stop ends the run it was sent to, no later one."""
        return sent_ns(control) >= self._started_ns

    @property
    def ends_by_itself(self) -> bool:
        """Return whether the query reads what is there and ends; it then does not see control rows that come later."""
        return bool(self._trigger.get("availableNow") or self._trigger.get("once"))

    def _asked_to_end(self) -> bool:
        rows = self._checkpoint.controls.since(self._started_ns) if self.ends_by_itself else []
        return any(row["do"] in ENDING for row in rows)

    def _wait_for_end(self) -> None:
        """Wait until the query ends, and start it again where buckets have to hear of something; write the status."""
        self._stop_in_time(frozenset())
        if self.ends_by_itself:
            # It has read only the control rows that were there when it started.
            heard: frozenset[str] = frozenset()
            while (unheard := self._live.unheard) - heard and not self._query.exception() and not self._asked_to_end():
                self._query = self._start_query()
                self._stop_in_time(unheard)
                heard = unheard
        failure = self._query.exception()
        if failure is not None:
            why = sentence_of(str(failure))
            self._add_event("failed", {"error": why})
            self._write_status("failed", None, why)
        else:
            self._add_event("stopped", {})
            self._write_status("stopped", None)
            forget_query(self._mapped)
        self._checkpoint.release()

    def _stop_in_time(self, sent: frozenset[str]) -> None:
        """Stop the query after the micro-batch that carried a stop, or to start it again; it reads what was sent."""
        while self._query.isActive:
            progress = self._query.lastProgress
            done = progress is not None and self._end_after is not None and progress["batchId"] >= self._end_after
            again = self.ends_by_itself and self._live.unheard - sent
            if done or again or self._asked_to_end():
                self._query.stop()
            time.sleep(0.05)

    def _add_event(self, what: str, more: dict[str, Any]) -> None:
        self._checkpoint.add_event({"event": what, **more})

    def _write_status(self, state: str, batch: dict[str, Any] | None, error: str | None = None) -> None:
        before = self._checkpoint.read_status()
        status = {
            "name": self.name, "state": state, "pid": os.getpid(), "host": socket.gethostname(),
            "plan": self._now.plan, "phase": self._now.phase, "migrations": self._records.under_way(),
            "version": self._live.newest, "changes": self._live.under_way(),
            "aliases": list(self._live.plan().query.aliases),
            "hopping": self._live.planner is not None,
            "buckets": self.buckets, "partitioning": str(self._live.plan().partitioning),
            "ends_by_itself": self.ends_by_itself, **self._totals, **self._rates.per_second(), "error": error,
            "last_batch": batch or before.get("last_batch"),
        }  # fmt: skip
        self._checkpoint.write_status(status)

    def status(self) -> dict[str, Any]:
        """Return how the query is doing."""
        return self._checkpoint.read_status()

    def events(self) -> list[dict[str, Any]]:
        """Return what has happened to the query, over all its runs."""
        return self._checkpoint.read_events()

    def progress(self) -> list[Any]:
        """Return Spark's own reports of the latest micro-batches."""
        return list(self._query.recentProgress)

    def explain(self) -> str:
        """Return the plan that runs, or is being migrated to, as people read it."""
        return explain_plan(self.running_plan(), statistics=self._live.statistics())

    def running_plan(self) -> Plan:
        """Return the plan that runs, or is being migrated to."""
        return self._live.running(self._now)

    def migrate(self, plan: str, strategy: str | None = None, **options: Any) -> str:
        """Ask for another plan of the same meaning; return the id of the control row, which names it in the events.

        It takes effect at the same position in all buckets, in the micro-batch that reads it; that of a hopping query
        after the next hop that is answered. `strategy` is chosen when not given; see `midstream migrate --help` for
        the strategies and their options.
        """
        self._check_running()
        request = MigrationRequest.of(plan, strategy, options)
        self._live.check(request, self._now)
        return self._checkpoint.controls.send(MIGRATE, migration=request.to_dict())

    def migrations(self) -> list[dict[str, Any]]:
        """Return what became of each migration of this run."""
        return self._records.all()

    def wait_for_migration(self, identity: str, timeout_s: float = 60.0) -> dict[str, Any] | None:
        """Wait until a migration is over, or refused; return its record, or None when time is up."""
        return self._wait_for_record(self._records, identity, (RUNNING, QUEUED), timeout_s)

    def change(self, query: Any, method: str = drain_method, order: str | None = None, **options: Any) -> str:
        """Ask for another query; return the id of the control row, which names the change in the events.

        It takes effect at the same position in all buckets, after every row that has been read when the control row
        is. `method` is immediate, delayed-drain, drain (with `order`, "query" or "stream"), graceful-immediate or
        graceful-drain. A change of the output's columns needs `allow_schema_change=True`.
        """
        self._check_running()
        asked = {"method": method, "order": order, **options}
        if isinstance(query, int):
            return prepare_known(self._checkpoint, self._catalog, query, ChangeRequest.of("", asked)).send()
        request, plan = ask_change(query, self._asked.planner, asked)
        return prepare_change(self._checkpoint, self._catalog, plan, request).send()

    def register(self, query: Any, plan: str | None = None, join: str = "auto") -> int:
        """Plan and check a query to change to later, without changing; return its number. It outlives the run."""
        request, made = ask_change(query, self._asked.planner, {"plan": plan, "join": join})
        self._catalog.check(made)
        return register(self._checkpoint.versions, request.sql, made)

    def registered(self) -> list[dict[str, Any]]:
        """Return the queries that can be changed to by number; 1 is the one first started."""
        return [v.to_dict() for v in registered(self._checkpoint.versions, self._catalog).values()]

    def remove(self, number: int) -> None:
        """Forget a registered query; what runs is not touched."""
        remove_registered(self._checkpoint.versions, number, self._catalog)

    def control(self, control: str) -> str:
        """Give the whole query a control element: fstart, istop, dstop; or abort the last change. Return its id."""
        self._check_running()
        return self._checkpoint.controls.send(CONTROL, control=ControlRequest(control).control)

    def changes(self) -> list[dict[str, Any]]:
        """Return what became of each change of this run."""
        return self._live.changes()

    def wait_for_change(self, identity: str, timeout_s: float = 60.0) -> dict[str, Any] | None:
        """Wait until a change is over, or refused; return its record, or None when time is up."""
        return self._wait_for_record(self._live.records, identity, OPEN, timeout_s)

    def _wait_for_record(
        self, records: Records, identity: str, unsettled: Sequence[str], timeout_s: float
    ) -> dict[str, Any] | None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self._watch.is_alive():
            found = next((r for r in records.all() if r["identity"] == identity), None)
            if found is not None and found["state"] not in unsettled:
                return found
            time.sleep(0.05)
        return None

    def _check_running(self) -> None:
        if self.ends_by_itself:
            raise MidstreamError(f"query '{self.name}' ends by itself and reads no control while it runs")
        if not self._query.isActive:
            raise MidstreamError(f"query '{self.name}' is not running")

    def snapshot(self) -> str:
        """Ask for statistics in the events; return the id of the control row."""
        return self._checkpoint.controls.send(SNAPSHOT)

    def stop(self, drain: bool = False, timeout_s: float = 60.0) -> None:
        """Stop through the control log, after the micro-batch that reads it; `drain`: waiting rows take part first."""
        if drain and self.ends_by_itself:
            raise MidstreamError(f"query '{self.name}' ends by itself and cannot be drained while it runs")
        if self._watch.is_alive():
            self._checkpoint.controls.send(DRAIN if drain else STOP)
            self._query.awaitTermination(timeout_s)
            if self._query.isActive:
                self._query.stop()
        self._watch.join(timeout_s)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the query ends; return whether it has. A failure is raised."""
        self._watch.join(timeout_s)
        if self._watch.is_alive():
            return False
        self._query.awaitTermination()
        return True
