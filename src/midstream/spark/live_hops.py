"""A live hopping query, as its driver follows it: the answers of all buckets meet and leave; which plan runs."""

from typing import Any

from pyspark.sql import DataFrame, Row

from midstream.local.hop_plans import NOT_CHANGED
from midstream.migrate.request import MigrationRequest
from midstream.optimize.hopping.statistics import HopStatistics
from midstream.plan.plan import Plan
from midstream.spark.blobs import from_blob
from midstream.spark.control import CHANGE, CONTROL
from midstream.spark.events import BatchEvent, event_of
from midstream.spark.hop_bucket import HopBucketSpec
from midstream.spark.hop_meeting import HopMeeting
from midstream.spark.hop_planner import HopPlanner
from midstream.spark.hop_sinks import HopSink
from midstream.spark.records import Records
from midstream.spark.version_bucket import EVENT, RESULT

Event = dict[str, Any]


class LiveHops:
    """One run of a hopping query: it has one version."""

    newest = 1

    def __init__(self, plan: Plan, labels: tuple[int, ...], sink: HopSink, planner: HopPlanner) -> None:
        self._plan = plan
        self._labels = labels
        self._sink = sink
        self._meeting = HopMeeting(plan, labels)
        self._planner = planner
        self.records = Records()
        """Records of changes: there are none."""

    def plan(self) -> Plan:
        """Return the plan the query was started with."""
        return self._plan

    def running(self, told: BatchEvent) -> Plan:
        """Return the plan that runs, when the last micro-batch told this."""
        return self._planner.plan_of(told.runs)

    def check(self, request: MigrationRequest) -> None:
        """Refuse a migration that cannot be planned."""
        self._planner.planned(request)

    def statistics(self) -> HopStatistics | None:
        """Return what the buckets have last told of their rows."""
        return self._planner.statistics

    def spec(self, lateness_us: dict[int, int], mapped_folder: str) -> HopBucketSpec:
        """Return what all buckets share."""
        return HopBucketSpec(self._plan, lateness_us, mapped_folder, False, self._labels, looks=self._planner.looks)

    def on_batch(self, lines: DataFrame, number: int) -> tuple[list[Row], list[Event], list[tuple[str, Event]]]:
        """Give the answers of a micro-batch to the sink; return the other lines, the events, and what is new."""
        rows = list(lines.select("kind", "blob").collect())
        events = [event_of(bytes(r.blob)) for r in rows if r.kind == EVENT]
        answers = self._meeting.on_batch([from_blob(bytes(r.blob)) for r in rows if r.kind == RESULT], events)
        self._sink.write(answers, number)
        if events:
            self._planner.on_batch(events)
        for place, event in enumerate(events):
            # What comes in one bucket and goes in another does not leave.
            event["rows_out"] = 0 if place else sum(a.rows.num_rows for a in answers)
            event["controls"] = [_in_short(c) for c in event["controls"]]
        return [r for r in rows if r.kind != RESULT], events, self._refused(number, events)

    def _refused(self, number: int, events: list[Event]) -> list[tuple[str, Event]]:
        """Tell of changes and control elements that somebody sent nevertheless."""
        told = []
        for control in events[0]["controls"] if events else ():
            if control["do"] in (CHANGE, CONTROL):
                more = {"batch": number, "identity": control["id"], "control": control.get("control")}
                told.append((control["do"], {**more, "state": "refused", "reason": NOT_CHANGED}))
        return told

    def told(self) -> list[Event]:
        """Return what became of each change."""
        return []

    def under_way(self) -> list[Event]:
        """Return the records of changes that are not over."""
        return []


def _in_short(control: Event) -> Event:
    """Return a control row without the plan it has: people read that elsewhere."""
    return {k: v for k, v in control.items() if k != "plan"}
