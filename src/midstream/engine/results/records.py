"""Records of migrations, as buckets report them, micro-batch by micro-batch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from midstream.engine.results.output import Leaving
from midstream.migrate.record import NOT_REACHED, QUEUED, RUNNING, MigrationRecord
from midstream.migrate.request import MigrationRequest


class Records:
    """The latest record of each migration; those of a schedule that nobody has reported were not reached."""

    def __init__(self, schedule: Sequence[MigrationRequest] = (), plan: str = "", most: int | None = None) -> None:
        """`most`: how many are kept of those that nobody reports any more; None: all."""
        self._most = most
        self._records: dict[str, dict[str, Any]] = {
            r.identity: MigrationRecord.of(r, from_plan=plan, state=NOT_REACHED).to_dict() for r in schedule
        }
        self._last_us: dict[str, int] = {}
        """When something last left, of migrations under way."""

    def see(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Note records; return those whose state has changed."""
        changed = []
        for record in records:
            before = self._records.get(record["identity"])
            if before is None or before["state"] != record["state"]:
                changed.append(record)
            for name in ("longest_gap_us", "output_delay_us"):
                if before is not None and name in before:
                    record[name] = max(record[name], before[name])
            self._records[record["identity"]] = record
        if self._most is not None and len(self._records) > self._most:
            reported = {record["identity"] for record in records}
            for name in [name for name in self._records if name not in reported][: -self._most]:
                del self._records[name]
        return changed

    def watch(self, records: list[dict[str, Any]], leaving: Sequence[Leaving]) -> None:
        """Note how long nothing left, and how long results were held back, while migrations lasted."""
        records = [r for r in records if r["identity"] in self._records and r["position_us"] is not None]
        if not records:
            return
        left = [(_left(item), item.results.rows.column("_time").to_numpy()) for item in leaving if len(item.results)]
        times = np.sort(np.concatenate([at for at, _ in left])) if left else np.empty(0, np.int64)
        delay_us = max((int((at - time).max()) for at, time in left), default=0)
        for record in records:
            name, ended_us = record["identity"], record["ended_us"]
            last_us = self._last_us.get(name, record["position_us"])
            mine = times[times >= last_us]
            if ended_us is not None:
                mine = np.append(mine[mine <= ended_us], ended_us)
            if len(mine):
                gap_us = int(np.diff(np.append(last_us, mine)).max())
                record["longest_gap_us"] = max(record["longest_gap_us"], gap_us)
                self._last_us[name] = int(mine[-1])
            record["output_delay_us"] = max(record["output_delay_us"], delay_us)

    def all(self) -> list[dict[str, Any]]:
        """Return all records, in the order they were first reported."""
        return list(self._records.values())

    def to_plain(self) -> dict[str, Any]:
        """Return the records, and when something last left, as plain values."""
        return {"records": self.all(), "last_us": self._last_us}

    def load(self, plain: dict[str, Any]) -> None:
        """Be as `to_plain` said."""
        self._records = {record["identity"]: record for record in plain["records"]}
        self._last_us = dict(plain["last_us"])

    def under_way(self, states: Sequence[str] = (RUNNING, QUEUED)) -> list[dict[str, Any]]:
        """Return the records of what is not over."""
        return [r for r in self._records.values() if r["state"] in states]


def _left(item: Leaving) -> npt.NDArray[np.int64]:
    """Return when each result leaves."""
    times: npt.NDArray[np.int64] = item.results.rows.column("_time").to_numpy()
    if item.held_until_us is None:
        return times
    return np.maximum(times, min(item.held_until_us, int(times.max())))
