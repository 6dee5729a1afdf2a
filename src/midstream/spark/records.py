"""Records of migrations, as the driver hears of them from the buckets, micro-batch by micro-batch."""

from collections.abc import Sequence
from typing import Any

from midstream.migrate.record import NOT_REACHED, QUEUED, RUNNING, MigrationRecord
from midstream.migrate.request import MigrationRequest


class Records:
    """The latest record of each migration; those of a schedule that nobody has told of were not reached."""

    def __init__(self, schedule: Sequence[MigrationRequest] = (), plan: str = "") -> None:
        self._told: dict[str, dict[str, Any]] = {
            r.identity: MigrationRecord(
                r.identity, r.plan, r.strategy, r.options, r.at_us, plan, NOT_REACHED
            ).to_dict()
            for r in schedule
        }  # fmt: skip

    def see(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Note records; return those whose state has changed."""
        changed = []
        for record in records:
            before = self._told.get(record["identity"])
            if before is None or before["state"] != record["state"]:
                changed.append(record)
            self._told[record["identity"]] = record
        return changed

    def told(self) -> list[dict[str, Any]]:
        """Return all records, in the order they were first heard of."""
        return list(self._told.values())

    def under_way(self, states: Sequence[str] = (RUNNING, QUEUED)) -> list[dict[str, Any]]:
        """Return the records of what is not over."""
        return [r for r in self._told.values() if r["state"] in states]
