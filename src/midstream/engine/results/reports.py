"""Reports: what each bucket reports of each micro-batch, as plain values, and their sum."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from midstream.migrate.record import MigrationRecord, over_buckets


@dataclass
class BatchSummary:
    """One micro-batch over all buckets."""

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    ahead: int = 0
    """Rows that were too far ahead."""
    waiting: int = 0
    held_by: dict[str, Any] | None = None
    """The stream that holds the others back: `lag_us` of event time, since its last row `silent_us`."""
    silent: list[str] = field(default_factory=list)
    """Streams that the others do not wait for."""
    seen: dict[str, int] = field(default_factory=dict)
    """The largest time of each stream that the newest version reads."""
    released_us: int = 0
    predicate_evaluations: int = 0
    entries_kept: int = 0
    """Entries put into the states of joins, rows of sources included."""
    probes: int = 0
    """Entries of joins that have looked for partners."""
    state_tuples: int = 0
    state_bytes: int = 0
    rebuilt: int = 0
    """Buckets whose states were rebuilt from their window rows."""
    unshared: int = 0
    """Buckets whose states are not in shared memory and will be rebuilt."""
    why_unshared: str = ""
    bucket_ms: float = 0.0
    """The slowest bucket."""
    controls: list[dict[str, Any]] = field(default_factory=list)
    version: int = 0
    """The newest version that runs; 0: none does."""
    plan: str = ""
    join: str = "auto"
    phase: str = "steady"
    migrations: list[dict[str, Any]] = field(default_factory=list)
    """Records of migrations under way or just ended, over all buckets."""
    hops: int = 0
    """Hops of a hopping query there were, those without rows included."""
    flips: int = 0
    """How often values came into differences or left them before their time."""
    row: str = ""
    """The control row that has the plan that runs, where there is one."""
    messages: int = 0
    """Messages that buckets have sent to each other."""
    mail_bytes: int = 0
    sites: list[dict[str, Any]] = field(default_factory=list)
    """Of a join over sites: what each site reports."""

    def to_dict(self) -> dict[str, Any]:
        """Return the micro-batch as plain values."""
        return {**vars(self), "migrations": [dict(record) for record in self.migrations]}

    def after(self, earlier: "BatchSummary") -> "BatchSummary":
        """Return the sums of this round of a micro-batch and those before it."""
        sums = {name: getattr(self, name) + getattr(earlier, name) for name in SUMMED}
        phase = self.phase if earlier.phase == "steady" else earlier.phase
        return replace(self, **sums, phase=phase, migrations=[*earlier.migrations, *self.migrations])


COUNTS = ("rows_in", "rows_out", "late", "ahead", "predicate_evaluations", "entries_kept", "probes")
SUMMED = (*COUNTS, "hops", "flips", "messages", "mail_bytes")


def total(reports: Sequence[dict[str, Any]]) -> BatchSummary:
    """Sum the reports of all buckets of one micro-batch. Broadcast rows count in every bucket that got them."""
    out = BatchSummary()
    for report in reports:
        for name in (*COUNTS, "waiting", "state_tuples", "state_bytes", "messages", "mail_bytes"):
            setattr(out, name, getattr(out, name) + report[name])
        out.flips += report["flips"]
        out.held_by, out.silent, out.seen = report["held_by"], report["silent"], report["seen"]
        out.hops, out.row = report["hops_passed"], report["row"]
        out.batches = report["batches"]
        out.released_us = report["released_us"]
        out.rebuilt += bool(report["rebuilt"])
        out.unshared += bool(report["unshared"])
        out.why_unshared = out.why_unshared or report["unshared"]
        out.bucket_ms = max(out.bucket_ms, report["wall_ms"])
        out.controls = report["controls"]
        out.version, out.plan, out.join = report["version"], report["plan"], report["join"]
        out.sites += [report["run"]] if report["run"] else []
        out.phase = report["phase"] if out.phase == "steady" else out.phase
    out.migrations = over_all_buckets([report["migrations"] for report in reports])
    return out


def held_back(held_by: dict[str, Any] | None) -> str:
    """Say which stream holds the others back.

    >>> held_back({"stream": "b", "lag_us": 90_500_000, "silent_us": 0})
    "stream 'b' holds the others back by 90.5 s of event time"
    >>> held_back({"stream": "b", "lag_us": 90_000_000, "silent_us": 95_000_000})
    "stream 'b' holds the others back by 90.0 s of event time: no row of it has come for 95.0 s"
    """
    if held_by is None:
        return "rows wait for others that may come late"
    since = f": no row of it has come for {held_by['silent_us'] / 1e6:,.1f} s" if held_by["silent_us"] else ""
    return (
        f"stream '{held_by['stream']}' holds the others back by {held_by['lag_us'] / 1e6:,.1f} s of event time{since}"
    )


def over_all_buckets(reported: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Sum the records of each migration over all buckets."""
    found: dict[str, list[MigrationRecord]] = {}
    for records in reported:
        for record in records:
            values = {k: v for k, v in record.items() if k != "duration_us"}
            found.setdefault(record["identity"], []).append(MigrationRecord(**values))
    return [over_buckets(records).to_dict() for records in found.values()]
