"""The record of a change: what was asked, where it took effect, when it ended, what really happened."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from midstream.change.request import DRAIN, ChangeRequest

WAITING, UNDER_WAY, FINISHED, SUPERSEDED, STOPPED, ABORTED, UNFINISHED, NOT_REACHED, REFUSED = (
    "waiting", "under way", "finished", "superseded", "stopped", "aborted", "unfinished", "not reached", "refused",
)  # fmt: skip
"""States of a change. Superseded: another change came before the new version had started. Stopped: the whole query was
stopped, drained or started anew meanwhile. Unfinished: the run ended first."""
OPEN = (WAITING, UNDER_WAY)


@dataclass
class ChangeRecord:
    """One change, over all buckets."""

    identity: str
    sql: str
    method: str
    order: str | None = None
    from_version: int = 0
    to_version: int = 0
    asked_us: int | None = None
    state: str = WAITING
    reason: str = ""
    """Why it was refused, or could not be."""
    position_us: int | None = None
    """The event time it took effect at: rows before it are old."""
    started_us: int | None = None
    """The event time from which the new version takes rows."""
    first_result_us: int | None = None
    """The event time at which the new version first answered."""
    ended_us: int | None = None
    """The event time from which the new version is alone."""
    schema_change: list[str] = field(default_factory=list)
    loss: int | None = None
    """Results of the reference (the old version drained, the new one started at once) that never left; None: ?."""
    extra: int = 0
    """Results of the old version from after the position that hold no older row: more than the reference has."""
    query_disorder: int = 0
    """Results of the old version that left after the first of the new one."""
    stream_disorder: int = 0
    """Results that left after one that a later row had brought."""
    duplicates: int = 0
    """Pairs of results of both versions over exactly the same rows."""
    old_results: int = 0
    """Results of the old version that left after the position."""
    new_results: int = 0
    """Results of the new version that left while the change lasted."""
    rows_held: int = 0
    """The most results held back for the sake of order."""
    response_us: int | None = None
    """From the last result of the old version to the first of the new one, in event time; negative: they overlap."""
    response_ms: float | None = None
    """The same on the clock."""
    two_versions_us: int = 0
    """How long both versions ran, in event time."""
    two_versions_ms: float = 0.0
    """The same on the clock."""

    @property
    def duration_us(self) -> int | None:
        """Return how long it lasted, in event time."""
        if self.position_us is None or self.ended_us is None:
            return None
        return self.ended_us - self.position_us

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values."""
        return {**vars(self), "schema_change": list(self.schema_change), "duration_us": self.duration_us}


def unreached(requests: Iterable[object], number: int) -> list[ChangeRecord]:
    """Return records of changes whose position was never reached; the first is to version `number`."""
    out = []
    for request in requests:
        if isinstance(request, ChangeRequest):
            order = request.ordering if request.method == DRAIN else None
            record = ChangeRecord(request.identity, request.sql, request.method, order, number - 1, number)
            record.asked_us, record.state = request.at_us, NOT_REACHED
            out.append(record)
            number += 1
    return out
