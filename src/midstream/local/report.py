"""The report of a run: what went in, what came out, what it cost, batch by batch."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any


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
    flips: int = 0
    """How often values came into differences or left them before their time."""


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
    buckets: int = 1
    partitioning: str = ""
    late_by_stream: dict[str, int] = field(default_factory=dict)

    @property
    def peak_state_bytes(self) -> int:
        """Return the most memory the states held at the end of a batch."""
        return max((b.state_bytes for b in self.batches), default=0)

    def to_json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps(asdict(self) | {"peak_state_bytes": self.peak_state_bytes}, indent=1) + "\n"
