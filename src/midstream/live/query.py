"""A live query as its driver follows it: which versions and plan run, what leaves, what became of changes.

before a micro-batch: does something go on? ──▶ results meet here, or leave from the workers
after it: what has begun or ended ──▶ control rows for the buckets, events, versions that need no rows any more
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from midstream.change.forget import forget_settled
from midstream.change.record import OPEN
from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.control.controls import CONTROL, ELEMENT, MAIL, MET
from midstream.engine.control.runs import Runs
from midstream.engine.planning.adapt import Adaptation
from midstream.engine.planning.advisers import Advisers
from midstream.engine.planning.optimizing import Optimizing
from midstream.engine.planning.planner import Planner, looks_of
from midstream.engine.results.output import BucketOutput
from midstream.engine.results.records import Records
from midstream.engine.results.reports import BatchSummary
from midstream.engine.results.schema import output_schema
from midstream.engine.run.contract import Framework, RunSpec
from midstream.engine.run.family import family_of, run_of
from midstream.live.checkpoint import Checkpoint
from midstream.live.decision_file import DecisionFile
from midstream.live.lines import Lines, of_lines
from midstream.live.mailbox import MailWriter
from midstream.live.merger_log import MergerLog
from midstream.live.repository import Catalog, StoredVersions, read_catalog, write_catalog
from midstream.live.sink import BatchSink
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import MidstreamError
from midstream.model.failpoint import reach
from midstream.model.format import whole
from midstream.model.statistics import Statistics
from midstream.model.stream import StreamSchema
from midstream.model.timing import Timing
from midstream.plan.aggregates import UserAggregate
from midstream.plan.nodes import MethodChoice
from midstream.plan.plan import Plan, ordered_plan
from midstream.plan.tree import parse_tree

Event = dict[str, Any]
MOST_RECORDS = 100
"""Records of changes, and of migrations, that a run keeps when they are over; all of them are in the events."""


def open_catalog(
    checkpoint: Checkpoint,
    schemas: Sequence[StreamSchema],
    first: Plan,
    streams: Sequence[str],
    aggregates: Mapping[str, UserAggregate],
) -> Catalog:
    """Decide which streams a run reads: what has been read once stays; see `check_declared`."""
    names = [s.name for s in schemas]
    for name in streams:
        if name not in names:
            raise MidstreamError(f"there is no stream '{name}' to read; the streams are {', '.join(names)}")
    known = read_catalog(checkpoint.versions, aggregates, checkpoint.world)
    if known is not None:
        catalog = replace(known, streams=tuple(schemas))
    else:
        used = {s.stream.name for s in first.query.sources} | set(streams)
        catalog = Catalog(tuple(schemas), tuple(n for n in names if n in used), aggregates, first)
    write_catalog(checkpoint.versions, catalog, checkpoint.world)
    return catalog


class LiveQuery:
    """The versions of one run."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        versions: StoredVersions,
        labels: tuple[int, ...],
        sink: BatchSink,
        ordered: bool = False,
        adaptation: Adaptation | None = None,
        framework: Framework | None = None,
        optimizing: Optimizing | None = None,
    ) -> None:
        self._checkpoint = checkpoint
        self._sink = sink
        self._ordered = ordered
        self._labels = labels
        self._adaptation = adaptation
        self._framework = framework or Framework()
        self.versions = versions
        self._log = MergerLog(checkpoint.mergers, labels, versions.plan_of, checkpoint.world)
        self._merger = self._log.before(1 << 62)
        self.records = Records(most=MOST_RECORDS)
        """Records of changes."""
        self.newest = self._merger.version
        """The newest version that runs, or is to."""
        self._optimizing = optimizing or Optimizing()
        self._decided = DecisionFile(checkpoint.decisions, checkpoint.world)
        self.advisers = Advisers(self._optimizing, checkpoint.controls, versions.plan_of, self._decided.write)
        """Who looks for better orders of joins, and what was decided."""
        self._told: dict[str, str] = {}
        """The states of decisions that events have."""
        self._planners: dict[int, Planner] = {}
        self._retired = versions.files.over()
        """The versions that results remember, and that need no rows any more."""
        self._in_buckets: list[set[int]] = []
        """The versions that buckets remembered after each of the last two micro-batches."""
        self._begun = False
        """A micro-batch of this run has come."""
        sends_mail = run_of(versions.plan_of(1), self._framework).sends_mail
        self.mail = MailWriter(checkpoint.mail) if sends_mail else None
        """Where messages of buckets to each other go; None: buckets send none."""
        self.unread: frozenset[str] = frozenset()
        """Control rows that say what buckets have caused together, and that they have not read."""

    def begin(self) -> None:
        """Know what runs before have decided of plans; ask for what they could not ask for any more."""
        known = self._decided.read()
        if known is not None and self._optimizing.looks:
            with whole(self._checkpoint.decisions):
                self.advisers.load(known)
            self._decisions(0)

    def plan(self) -> Plan:
        """Return the plan the newest version was started with."""
        return self.versions.plan_of(self.newest)

    @property
    def planner(self) -> Planner | None:
        """Return who plans the migrations of the newest version, where that is done here."""
        plan = self.plan()
        if not family_of(plan).chosen_by_cost:
            return None
        if self.newest not in self._planners:
            log = self._checkpoint.controls
            how = self._adaptation, self.newest, self._optimizing.mode, self.advisers.decisions
            self._planners[self.newest] = Planner(plan, log, *how)
        return self._planners[self.newest]

    def running(self, summary: BatchSummary) -> Plan:
        """Return the plan that runs, or is being migrated to, after a micro-batch that reported this."""
        if self.planner is not None:
            return self.planner.plan_of(summary.row)
        query = self.plan().query
        if not summary.plan or summary.version != self.newest:
            return self.plan()
        return ordered_plan(query, parse_tree(summary.plan, query.aliases), cast(MethodChoice, summary.join))

    def check(self, request: MigrationRequest, summary: BatchSummary) -> None:
        """Refuse a migration that the running plan cannot make."""
        if self.planner is not None:
            self.planner.planned(request)
        else:
            request.checked(self.running(summary))

    def statistics(self) -> Statistics | None:
        """Return what the buckets have last reported of their rows."""
        return None if self.planner is None else self.planner.statistics

    def spec(self, timings: dict[int, Timing], runs: Runs) -> BucketSpec:
        """Return what all buckets share."""
        looks, optimizes = looks_of(self._adaptation), self._optimizing.looks
        run = RunSpec(self._ordered, self._framework, looks, optimizes=optimizes)
        return BucketSpec(self.versions.plan_of, timings, False, self._labels, run, runs=runs)

    def on_batch(self, lines: Lines, number: int) -> tuple[list[BucketOutput], list[tuple[str, Event]]]:
        """Hand the results of a micro-batch to the sink; return what buckets emitted besides, and what is new."""
        self._merger = merger = self._log.before(number)
        self.newest = merger.version
        # Not those that this micro-batch ends: run again after a crash, it needs the same rows.
        over = merger.over()
        if not self._begun:
            self.records.see(self._records())  # runs before have noted what was over then
            self._begun = True
        forget_settled(merger.control)
        meets = merger.meets
        schema = output_schema(self.plan())
        if meets:
            outputs = of_lines(lines.collect())
            departures = merger.on_batch(outputs, everything=any(o.report["drains"] for o in outputs))
            reach("results met")
            self._sink.write(departures, schema, number)
            for place, output in enumerate(outputs):
                output.report["rows_out"] = 0 if place else sum(d.rows.num_rows for d in departures)
        else:
            outputs = of_lines(self._sink.write_lines(lines, schema, number, self._ordered))
            merger.on_batch(outputs)
        reach("results written")
        if self.mail is not None:
            self.mail.write(number, [message for output in outputs for message in output.mail])
        reports = [output.report for output in outputs]
        self._in_buckets = [*self._in_buckets[-1:], {n for r in reports for n in r["known"]}]
        self.unread -= {c["id"] for report in reports[:1] for c in report["controls"]}
        if reports and self.planner is not None:
            self.planner.on_batch(reports)
        if reports:
            self.advisers.on_batch(reports, merger.control.phase == "steady")
        for report in reports:
            # People read plans elsewhere.
            report["controls"] = [{k: v for k, v in c.items() if k != "plan"} for c in report["controls"]]
        for version in set(over) - self._retired:
            self.versions.files.retire(version)
        self._retired = set(over)
        return outputs, [*self._end(number, reports, meets), *self._decisions(number)]

    def _decisions(self, batch: int) -> list[tuple[str, Event]]:
        """Return what is new of what was decided of plans."""
        news = []
        for decision in self.advisers.decisions.to_plain():
            # They are named by when they were made: those that are only advice have led to nothing.
            identity = decision["identity"] or f"{decision['when']}-advice"
            if self._told.get(identity) != decision["state"]:
                self._told[identity] = decision["state"]
                news.append(("decision", {"batch": batch, **decision, "identity": identity}))
        return news

    def _end(self, batch: int, reports: list[Event], meets: bool) -> list[tuple[str, Event]]:
        """End a micro-batch; return what there is to say of changes and control elements."""
        merger = self._merger
        rows = [(ELEMENT, element) for element in merger.decided()]
        rows += [(MET, {"of": r["meets_for"]}) for r in reports[:1] if r["meets_for"] is not None]
        for place, (do, row) in enumerate(rows):
            # A micro-batch that is run again sends the same rows.
            self.unread |= {self._checkpoint.controls.send(do, identity=f"{batch:08d}-{place}", **row)}
            reach("buckets told")
        self.newest = merger.version
        self._log.after(batch, merger, (meets and merger.changed) or not merger.quiet)
        return self._news(batch, reports)

    def _news(self, batch: int, reports: list[Event]) -> list[tuple[str, Event]]:
        news: list[tuple[str, Event]] = []
        for item in reports[0]["begun"] if reports else ():
            if "control" in item:
                more = {"batch": batch, "identity": item["id"], "control": item["control"]}
                state = {"state": "refused", "reason": item["refused"]} if "refused" in item else {"state": "in effect"}
                news.append((CONTROL, {**more, "position_us": item["at_us"], **state}))
        for site in (report["run"] for report in reports if report["run"]):
            for over in site["migrated"]:
                news.append(("plan modified", {"batch": batch, "identity": f"{over['number']}-{over['node']}", **over}))
        return news + [("change", {"batch": batch, **r}) for r in self.records.see(self._records())]

    def mail_waits(self) -> bool:
        """Return whether buckets have sent messages that the next micro-batch is to read."""
        return self.mail_of() is not None

    def mail_of(self) -> int | None:
        """Return the micro-batch whose messages wait, or None."""
        return None if self.mail is None else self.mail.waiting()

    def nudge(self) -> str | None:
        """Let another micro-batch come, be there rows or not, if messages wait for it; return the control row.

        It is sent once for each micro-batch that has sent messages, whoever asks again.
        """
        waits = self.mail_of()
        return None if waits is None else self._checkpoint.controls.send(MAIL, identity=f"{waits:08d}-mail")

    def changes(self) -> list[Event]:
        """Return what became of each change of this run, and of the last ones before it."""
        known = {record["identity"]: record for record in [*self.records.all(), *self._records()]}
        return list(known.values())

    def known(self) -> set[int]:
        """Return the versions that are remembered, here or in a bucket: they run, or changes name them."""
        control = self._merger.control
        named = {number for change in control.changes for number in (*change.old, change.new)}
        # A micro-batch that is run again begins with what buckets remembered before it.
        return {*control.lives, *named}.union(*self._in_buckets)

    def _records(self) -> list[Event]:
        return [r.to_dict() for r in self._merger.control.records()]

    def under_way(self) -> list[Event]:
        """Return the records of changes that are not over."""
        return self.records.under_way(OPEN)
