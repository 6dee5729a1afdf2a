"""The report of a run: what went in, what came out, what it cost, batch by batch."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from midstream.change.control import ControlManager
from midstream.change.record import unreached
from midstream.change.request import ChangeRequest
from midstream.engine.results.reports import BatchSummary
from midstream.local.arrivals import StreamReader

OF_SUMMARY = (
    "predicate_evaluations", "entries_kept", "probes", "state_tuples", "state_bytes", "plan", "phase", "hops", "flips",
)  # fmt: skip
"""What a report says of a micro-batch as its summary does."""


@dataclass(frozen=True)
class BatchReport:
    """One micro-batch; `end` is the event time it ends before, in microseconds."""

    end: int
    rows_in: int
    rows_out: int
    predicate_evaluations: int
    state_tuples: int
    state_bytes: int
    wall_ms: float
    plan: str
    phase: str
    output_delay_us: int = 0
    """The most a result that left in this batch was held back, in event time."""
    hops: int = 0
    """Hops of a hopping query that were answered, those without rows included."""
    lag_us: int = 0
    """How far behind its input a machine of the capacity given would be after it."""
    flips: int = 0
    """How often values came into differences or left them before their time."""
    entries_kept: int = 0
    """Entries put into the states of joins, rows of sources included."""
    probes: int = 0
    """Entries of joins that have looked for partners in a state."""


@dataclass
class Report:
    """A whole run. The keys of its JSON form are a contract: new ones may come, these keep their meaning."""

    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    wall_s: float = 0.0
    batches: list[BatchReport] = field(default_factory=list)
    migrations: list[dict[str, Any]] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    runtime: str = "local"
    batch: str = ""
    """How far micro-batches go: so much event time, or about so many rows of a stream."""
    buckets: int = 1
    partitioning: str = ""
    late_by_stream: dict[str, int] = field(default_factory=dict)
    ahead: int = 0
    """Rows that were too far ahead."""
    ahead_by_stream: dict[str, int] = field(default_factory=dict)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    """What was decided of plans: when, from which to which, why, what was expected and what was measured."""
    load: list[dict[str, Any]] = field(default_factory=list)
    """When the query fell behind, was behind or had caught up, and what gave."""
    sites: dict[str, Any] | None = None
    """Of a join over sites: messages by kind, bytes by link, modifications of the plan."""

    def add(self, end: int, rows_in: int, rows_out: int, summary: BatchSummary, delay_us: int, wall_s: float) -> None:
        """Add a micro-batch, and its rows to those that went in; `summary` is what all buckets report of it."""
        known = {name: getattr(summary, name) for name in OF_SUMMARY}
        batch = BatchReport(end, rows_in, rows_out, wall_ms=wall_s * 1000, output_delay_us=delay_us, **known)
        self.batches.append(batch)
        self.rows_in += rows_in

    def set_aside(self, readers: Mapping[str, StreamReader]) -> None:
        """Count the rows of each stream that did not take part."""
        self.late_by_stream = {name: reader.late for name, reader in readers.items()}
        self.ahead_by_stream = {name: reader.ahead for name, reader in readers.items()}
        self.late, self.ahead = sum(self.late_by_stream.values()), sum(self.ahead_by_stream.values())

    def end(self, started: float) -> None:
        """Complete a report of a run that began at a reading of the clock."""
        self.wall_s = time.perf_counter() - started

    @property
    def peak_state_bytes(self) -> int:
        """Return the most memory the states held at the end of a batch."""
        return max((b.state_bytes for b in self.batches), default=0)

    def to_json(self) -> str:
        """Return the report as JSON text."""
        plain = asdict(self) | {"peak_state_bytes": self.peak_state_bytes}
        if self.sites is None:
            del plain["sites"]
        return json.dumps(plain, indent=1) + "\n"


def change_records(control: ControlManager, schedule: Iterable[object]) -> list[dict[str, Any]]:
    """Return what became of each change, those of the schedule included that were not reached."""
    begun = control.records()
    rest = [r for r in schedule if isinstance(r, ChangeRequest)][len(begun) :]
    return [r.to_dict() for r in (*begun, *unreached(rest, len(begun) + 2))]
