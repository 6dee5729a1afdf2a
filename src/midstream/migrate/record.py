"""The record of a migration: what was asked, where it took effect, when it ended, what it cost."""

from dataclasses import asdict, dataclass, field
from typing import Any

from midstream.migrate.request import MigrationRequest
from midstream.operators.contract.execution import Progress

QUEUED, RUNNING, FINISHED, NO_OP, SUPERSEDED, UNFINISHED, NOT_REACHED, REFUSED = (
    "queued", "running", "finished", "no-op", "superseded", "unfinished", "not reached", "refused",
)  # fmt: skip
"""States of a migration. Superseded: another one took over what it left incomplete. Unfinished: the run ended first."""


@dataclass
class MigrationRecord(Progress):
    """One migration in one bucket, or summed over all: what was asked, and how far it has come."""

    identity: str
    plan: str
    strategy: str
    options: dict[str, Any] = field(default_factory=dict)
    asked_us: int | None = None
    from_plan: str = ""
    state: str = QUEUED
    reason: str = ""
    """Why it was refused."""
    position_us: int | None = None
    """The event time it took effect at: rows before it are old."""
    position_seq: int | None = None
    ended_us: int | None = None
    predicate_evaluations: int = 0
    """While it lasted, by whatever ran."""
    start_ms: float = 0.0
    """What the switch itself took, on the clock."""
    longest_gap_us: int = 0
    """The longest event time without output while it lasted."""
    output_delay_us: int = 0
    """The most a result was held back."""
    rows_old: int = 0
    """Rows from before the position that the new plan of a general strategy took in."""
    rows_new: int = 0
    """Rows from there on that it took in before it answered."""
    batches: int = 0
    """Micro-batches at whose end it was under way."""
    work_ms: float = 0.0
    """What both plans of a general strategy took of the clock while it lasted, the switch included."""
    predicted: dict[str, float] = field(default_factory=dict)
    """What was expected of a general strategy when it started."""

    @staticmethod
    def of(request: MigrationRequest, strategy: str | None = None, **known: Any) -> "MigrationRecord":
        """Return the record of what a request asks for, with what else is known of it by field."""
        asked = (request.identity, request.plan, strategy or request.strategy, request.options, request.at_us)
        return MigrationRecord(*asked, **known)

    def note(self, progress: Progress) -> None:
        """Write down what the switch of plans has done so far."""
        for name, value in asdict(progress).items():
            setattr(self, name, value)

    @property
    def duration_us(self) -> int | None:
        """Return how long it lasted, in event time."""
        if self.position_us is None or self.ended_us is None:
            return None
        return self.ended_us - self.position_us

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values."""
        return {**asdict(self), "duration_us": self.duration_us}


SUMMED = (
    "states_completed", "entries_completed", "entries_demoted", "keys_attempted", "rows_buffered",
    "predicate_evaluations", "rows_old", "rows_new", "work_ms",
)  # fmt: skip
LARGEST = ("start_ms", "longest_gap_us", "output_delay_us", "batches")
SUMMED_UP = ("rows", "predicate_evaluations")
"""Of what was predicted; of the rest the largest counts."""
ORDER = (RUNNING, QUEUED, UNFINISHED, NOT_REACHED, SUPERSEDED, FINISHED, NO_OP, REFUSED)


def over_buckets(records: list[MigrationRecord]) -> MigrationRecord:
    """Sum the records of one migration over all buckets: it is over when it is over everywhere."""
    out = MigrationRecord(**asdict(records[0]))
    for other in records[1:]:
        for name in SUMMED:
            setattr(out, name, getattr(out, name) + getattr(other, name))
        for name in LARGEST:
            setattr(out, name, max(getattr(out, name), getattr(other, name)))
        out.predicted = {
            name: value + other.predicted.get(name, 0)
            if name in SUMMED_UP
            else max(value, other.predicted.get(name, 0))
            for name, value in out.predicted.items()
        }
        out.state = min(out.state, other.state, key=ORDER.index)
        ends = (out.ended_us, other.ended_us)
        out.ended_us = None if None in ends else max(e for e in ends if e is not None)
        if out.position_us is None:
            out.position_us = other.position_us
    out.states_completed = min(out.states_completed, out.states_incomplete) if records[1:] else out.states_completed
    return out
