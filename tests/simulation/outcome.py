"""What a run leaves: results, late rows, counts, events, as far as they must not depend on faults."""

import io
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from engine.mail_toy import heard

from midstream.live.blobs import from_blob
from simulation.disk import File, Folder
from simulation.machine import Found

if TYPE_CHECKING:
    from simulation.simulation import Simulation

REMEMBERED = 1
"""Changes, and versions that are over, that are remembered: so that it is seen whether somebody needs more."""
CLOCKS = ("at", "asked_us", "response_ms", "two_versions_ms", "wall_ms", "longest_gap_s")
"""What events say of the clock."""
OF_FAULTS = ("started", "stopped", "failed", "rebuilt", "shared memory is not used", "stop", "drain")
"""Events that are about faults, or about runs."""


@dataclass
class Outcome:
    """What a run leaves."""

    results: dict[str, list[str]] = field(default_factory=dict)
    """Rows by file."""
    answers: dict[str, list[str]] = field(default_factory=dict)
    late: Counter[str] = field(default_factory=Counter)
    counts: dict[str, int] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    changes: list[Any] = field(default_factory=list)
    mail: dict[int, Any] = field(default_factory=dict)
    """What buckets have heard from each other, and when."""

    @property
    def rows(self) -> int:
        return sum(map(len, self.results.values())) + sum(map(len, self.answers.values()))

    def compare(self, expected: "Outcome", two_drivers: bool = False, disk_full: bool = False) -> None:
        """Found when this is not what is expected.

        Of two drivers that live at once, since the lock of one was lost, each writes the status and notes events. A
        disk that is full to the end has no room for the last status: that the query is over says its lock.
        """
        if disk_full and self.counts["state"] == "running":
            self.counts["state"] = expected.counts["state"]
        if two_drivers:
            self.counts = expected.counts
            self.events = expected.events
        for name in sorted(self.results.keys() | expected.results.keys()):
            got, wanted = self.results.get(name, []), expected.results.get(name, [])
            if got != wanted:
                lost, more = Counter(wanted) - Counter(got), Counter(got) - Counter(wanted)
                what = f"{lost.total()} lost, {more.total()} too many" if lost or more else "another order"
                raise Found(f"results in {name}: {what} of {len(wanted)}; lost {list(lost)[:3]}, more {list(more)[:3]}")
        # Of changes that are long over a driver that began later does not know, be it in the undisturbed run.
        known = max(min(len(self.changes), len(expected.changes)), REMEMBERED)
        self.changes, expected.changes = self.changes[-known:], expected.changes[-known:]
        for what in ("answers", "late", "counts", "events", "changes", "mail"):
            got, wanted = getattr(self, what), getattr(expected, what)
            if got != wanted:
                if isinstance(got, Counter):
                    got, wanted = dict(got - wanted), dict(wanted - got)
                raise Found(f"{what}: {got} where {wanted} is expected")


def outcome_of(sim: "Simulation") -> Outcome:
    """Return what a run has left on the disk."""
    from simulation.simulation import CHECKPOINT, RESULTS

    disk, out = sim.machine.disk, Outcome()
    folder = disk.find(RESULTS)
    for name, node in sorted(folder.names.items()) if isinstance(folder, Folder) else ():
        if not isinstance(node, File) or name.startswith((".", "_")):
            continue
        if name.endswith(".arrow"):
            out.results[name] = [repr(row) for row in from_blob(node.data).to_pylist()]
        else:
            table = pq.ParquetFile(io.BytesIO(node.data)).read()
            rows = [repr(row) for row in table.to_pylist()]
            (out.results if name.startswith("batch-") else out.answers)[name] = rows
    late = disk.find(CHECKPOINT / "late")
    late_files = sorted(name for name in late.names if not name.startswith(".")) if isinstance(late, Folder) else []
    kept = sim.script.kept.late_files
    # That older ones were removed may be undone by a power cut, until rows come too late again.
    for name in late_files if kept is None else late_files[-kept:]:
        node = disk.find(CHECKPOINT / "late" / name)
        assert isinstance(node, File)
        table = pq.ParquetFile(io.BytesIO(node.data)).read()
        rows = table.drop_columns(["_offset"]) if sim.script.reorders else table
        out.late.update(map(repr, rows.to_pylist()))
    status = json.loads(disk.file(CHECKPOINT / "status.json").data)
    out.counts = {key: status[key] for key in ("rows_in", "rows_out", "late", "ahead", "version", "state")}
    for line in sim.events.lines():
        try:
            event = json.loads(line)
        except ValueError:  # cut short by a crash
            continue
        if "event" in event and event["event"] not in OF_FAULTS:  # the first line names the format
            text = _event(event)
            # Where operators that were rebuilt take a migration up is theirs to say: one in two states is one.
            out.events[text] = 1 if event["event"] == "migration" else out.events[text] + 1
    if sim.script.reorders:
        for found in (*out.results.values(), *out.answers.values()):
            found.sort()
    assert sim.last is not None
    if sim.script.framework == "toy":
        last = max(sim.log.commits)
        heads = {label: sim.log.states[label, last][0] for label in sim.last.labels}
        out.mail = {label: heard(head) for label, head in heads.items() if head is not None}
    out.changes = [{k: v for k, v in c.items() if k not in CLOCKS} for c in sim.last.live.changes()]
    return out


def _event(event: dict[str, Any]) -> str:
    if event["event"] == "statistics":
        event = {k: event[k] for k in ("event", "batch", "rows_in", "rows_out", "late", "plan")}
    if event["event"] == "migration":
        event = {k: event.get(k) for k in ("event", "identity", "plan", "strategy", "reason")}
    if ":" in (event.get("plan") or ""):
        # Plans with modes are chosen by what is known of the rows: after a crash that is less for a while.
        event = {**event, "plan": ""}
    return json.dumps({k: v for k, v in event.items() if k not in CLOCKS}, sort_keys=True)
