"""The versions of a live query, as its driver follows them: which run, what leaves of them, what became of changes.

before a micro-batch: does something go on? ──▶ results of all versions meet here, or leave from the workers
after it: what has begun or ended ──▶ control rows for the buckets, events, versions that need no rows any more
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, Row

from midstream.change.record import OPEN
from midstream.local.loop import AnyPlan
from midstream.model.errors import MidstreamError
from midstream.model.stream import StreamSchema
from midstream.plan.aggregates import UserAggregate
from midstream.plan.nodes import MethodChoice
from midstream.plan.plan import Plan, ordered_plan
from midstream.plan.tree import parse_tree
from midstream.spark.blobs import from_blob
from midstream.spark.checkpoint import Checkpoint
from midstream.spark.control import CONTROL, DRAIN, ELEMENT
from midstream.spark.events import BatchEvent, event_of
from midstream.spark.meeting import MeetingLog
from midstream.spark.outlet import Outlet
from midstream.spark.records import Records
from midstream.spark.repository import Catalog, load_version, read_catalog, retire, write_catalog
from midstream.spark.version_bucket import EVENT, RESULT, BucketSpec

Event = dict[str, Any]


def open_catalog(
    folder: Path,
    schemas: Sequence[StreamSchema],
    first: AnyPlan,
    streams: Sequence[str],
    aggregates: Mapping[str, UserAggregate],
) -> Catalog:
    """Decide which streams a run reads: what Spark has begun to read stays."""
    names = [s.name for s in schemas]
    for name in streams:
        if name not in names:
            raise MidstreamError(f"there is no stream '{name}' to read; the streams are {', '.join(names)}")
    if (folder / "catalog").is_file():
        known = read_catalog(folder)
        catalog = replace(known, streams=tuple(schemas), aggregates={**known.aggregates, **aggregates})
    else:
        used = {s.stream.name for s in first.query.sources} | set(streams)
        catalog = Catalog(tuple(schemas), tuple(n for n in names if n in used), aggregates, first)
    write_catalog(folder, catalog)
    return catalog


class LiveVersions:
    """The versions of one run."""

    def __init__(self, checkpoint: Checkpoint, labels: tuple[int, ...], first: Plan, outlet: Outlet) -> None:
        self._checkpoint = checkpoint
        self._outlet = outlet
        self._labels = labels
        self._first = first
        self._meetings = MeetingLog(checkpoint.meetings, labels)
        self._meeting = self._meetings.before(1 << 62)
        self.records = Records()
        self.newest = self._meeting.version
        """The newest version that runs, or is to."""

    def plan(self, number: int | None = None) -> Plan:
        """Return the plan a version was started with; without a number that of the newest one."""
        number = self.newest if number is None else number
        return self._first if number == 1 else load_version(self._checkpoint.versions, number).plan

    def running(self, told: BatchEvent) -> Plan:
        """Return the plan that runs, or is being migrated to, when the last micro-batch told this."""
        query = self.plan().query
        if not told.plan:
            return self.plan()
        return ordered_plan(query, parse_tree(told.plan, query.aliases), cast(MethodChoice, told.join))

    def spec(self, lateness_us: dict[int, int], mapped_folder: str) -> BucketSpec:
        """Return what all buckets share."""
        return BucketSpec(
            self._first, lateness_us, mapped_folder, self._outlet.ordered, False, first_label=self._labels[0],
            labels=self._labels, repository=str(self._checkpoint.versions.absolute()),
        )  # fmt: skip

    def on_batch(self, lines: DataFrame, number: int) -> tuple[list[Row], list[Event], list[tuple[str, Event]]]:
        """Give the results of a micro-batch to the sink; return the other lines, the events, and what is new."""
        self._meeting = self._meetings.before(number)
        self.newest = self._meeting.version
        merged = not self._meeting.quiet
        others = self._give_out_merged(lines, number) if merged else self._outlet.write(lines, self.plan(), number)
        events = [event_of(bytes(r.blob)) for r in others if r.kind == EVENT]
        return others, events, self._end(number, events, merged)

    def _give_out_merged(self, lines: DataFrame, number: int) -> list[Row]:
        """Bring the results of all versions together here, and give what leaves to the sink."""
        rows = list(lines.select("kind", "blob").collect())
        tables = [from_blob(bytes(r.blob)) for r in rows if r.kind == RESULT]
        events = [event_of(bytes(r.blob)) for r in rows if r.kind == EVENT]
        draining = any(c["do"] == DRAIN for c in events[0]["controls"])
        batches = self._meeting.on_batch(tables, events, everything=draining)
        self._outlet.write_tables(runs_of_one_schema([b for b in batches if b.num_rows]), self.plan(), number)
        return [r for r in rows if r.kind != RESULT]

    def _end(self, batch: int, events: list[Event], merged: bool) -> list[tuple[str, Event]]:
        """End a micro-batch; return what there is to tell of changes and control elements."""
        meeting = self._meeting
        if not merged:
            meeting.on_batch([], events)
        if len(self._labels) > 1:
            for element in meeting.decided():
                log = self._checkpoint.controls
                log.send(ELEMENT, kind=element.kind, version=element.version, at_us=element.at_us)
        for version in meeting.over():
            retire(self._checkpoint.versions, version)
        self.newest = meeting.version
        self._meetings.after(batch, meeting, merged or not meeting.quiet)
        return self._news(batch, events)

    def _news(self, batch: int, events: list[Event]) -> list[tuple[str, Event]]:
        told: list[tuple[str, Event]] = []
        for item in events[0]["begun"] if events else ():
            if "control" in item:
                more = {"batch": batch, "identity": item["id"], "control": item["control"]}
                state = {"state": "refused", "reason": item["refused"]} if "refused" in item else {"state": "in effect"}
                told.append((CONTROL, {**more, "position_us": item["at_us"], **state}))
        return told + [("change", {"batch": batch, **r}) for r in self.records.see(self.told())]

    def told(self) -> list[Event]:
        """Return what became of each change."""
        return [r.to_dict() for r in self._meeting.control.records()]

    def under_way(self) -> list[Event]:
        """Return the records of changes that are not over."""
        return self.records.under_way(OPEN)


def runs_of_one_schema(batches: list[pa.RecordBatch]) -> list[pa.Table]:
    """Return batches in order as tables, as few as their columns allow."""
    out: list[list[pa.RecordBatch]] = []
    for batch in batches:
        if out and out[-1][-1].schema == batch.schema:
            out[-1].append(batch)
        else:
            out.append([batch])
    return [pa.Table.from_batches(run) for run in out]
