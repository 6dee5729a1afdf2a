"""The versions of a live query, as its driver follows them: which run, what leaves of them, what became of changes.

before a micro-batch: does something go on? ──▶ results of all versions meet here, or leave from the workers
after it: what has begun or ended ──▶ control rows for the buckets, events, versions that need no rows any more
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from midstream.change.record import OPEN
from midstream.model.errors import MidstreamError
from midstream.model.stream import StreamSchema
from midstream.plan.plan import Plan
from midstream.plan.stage import UserAggregate
from midstream.runtime.spark.checkpoint import Checkpoint
from midstream.runtime.spark.control import CONTROL, DRAIN, ELEMENT
from midstream.runtime.spark.meeting import MeetingLog
from midstream.runtime.spark.records import Records
from midstream.runtime.spark.repository import Catalog, load_version, read_catalog, retire, write_catalog

Event = dict[str, Any]


def open_catalog(
    folder: Path,
    schemas: Sequence[StreamSchema],
    first: Plan,
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

    def __init__(self, checkpoint: Checkpoint, labels: tuple[int, ...], first: Plan) -> None:
        self._checkpoint = checkpoint
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

    def begin(self, batch: int) -> bool:
        """Begin a micro-batch; return whether the results of its versions must be brought together."""
        self._meeting = self._meetings.before(batch)
        self.newest = self._meeting.version
        return not self._meeting.quiet

    def leaving(self, tables: list[pa.Table], events: list[Event]) -> list[pa.Table]:
        """Bring the results of all versions together; return what leaves, as few tables as their columns allow."""
        draining = any(c["do"] == DRAIN for c in events[0]["controls"])
        batches = self._meeting.on_batch(tables, events, everything=draining)
        return runs_of_one_schema([b for b in batches if b.num_rows])

    def end(self, batch: int, events: list[Event], merged: bool) -> list[tuple[str, Event]]:
        """End a micro-batch; return what there is to tell of changes and control elements."""
        meeting = self._meeting
        if not merged:
            meeting.on_batch([], events)
        if len(self._labels) > 1:
            for element in meeting.decided():
                more = {"kind": element.kind, "version": element.version, "at_us": element.at_us}
                self._checkpoint.controls.send(ELEMENT, **more)
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
