"""Events: what each bucket tells of each micro-batch, and their sum."""

import json
from dataclasses import dataclass, field
from typing import Any

from midstream.migrate.record import MigrationRecord, over_buckets


@dataclass
class BatchEvent:
    """One micro-batch over all buckets."""

    version: int = 0
    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    waiting: int = 0
    released_us: int = 0
    predicate_evaluations: int = 0
    state_tuples: int = 0
    state_bytes: int = 0
    rebuilt: int = 0
    """Buckets whose states were rebuilt from their window rows."""
    unshared: int = 0
    """Buckets whose states did not fit into shared memory and will be rebuilt."""
    bucket_ms: float = 0.0
    """The slowest bucket."""
    controls: list[dict[str, Any]] = field(default_factory=list)
    plan: str = ""
    join: str = "auto"
    phase: str = "steady"
    migrations: list[dict[str, Any]] = field(default_factory=list)
    """Records of migrations under way or just ended, over all buckets."""
    hops: int = 0
    """Hops of a hopping query there were, those without rows included."""
    flips: int = 0
    """How often values came into differences or left them before their time."""
    runs: str = ""
    """The control row that has the plan of a hopping query that runs; none: the query was started with it."""


def event_of(blob: bytes) -> dict[str, Any]:
    """Read one bucket's event."""
    told: dict[str, Any] = json.loads(blob)
    return told


def total(events: list[dict[str, Any]]) -> BatchEvent:
    """Sum the events of all buckets of one micro-batch. Broadcast rows count in every bucket that got them."""
    out = BatchEvent()
    for event in events:
        for name in ("rows_in", "rows_out", "late", "waiting", "predicate_evaluations", "state_tuples", "state_bytes"):
            setattr(out, name, getattr(out, name) + event[name])
        out.flips += event.get("flips", 0)
        out.hops, out.runs = event.get("passed", 0), event.get("runs", "")
        out.version = event["version"]
        out.released_us = event["released_us"]
        out.rebuilt += bool(event["rebuilt"])
        out.unshared += not event["shared"]
        out.bucket_ms = max(out.bucket_ms, event["wall_ms"])
        out.controls = event["controls"]
        out.plan, out.join = event["plan"], event["join"]
        out.phase = event["phase"] if out.phase == "steady" else out.phase
    out.migrations = _over_buckets(events)
    return out


def _over_buckets(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sum the records of each migration over all buckets."""
    found: dict[str, list[MigrationRecord]] = {}
    for event in events:
        for told in event["migrations"]:
            values = {k: v for k, v in told.items() if k != "duration_us"}
            found.setdefault(told["identity"], []).append(MigrationRecord(**values))
    return [over_buckets(records).to_dict() for records in found.values()]
