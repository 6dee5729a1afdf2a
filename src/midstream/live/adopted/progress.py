"""Progress: how far an adopted query and its deployment are, in numbers that people ask for.

State: when the versions were how far, as far back as a rate needs.
"""

from collections import deque
from typing import Any

from midstream.engine.world import World
from midstream.live.adopted.gate import Gate
from midstream.live.adopted.gate_log import BEFORE_SWITCH, CATCHING_UP
from midstream.live.adopted.record import record_of

LOOKS = 20
"""Segments that a rate is made of."""
PACE = 2.0
"""While a version catches up, a segment is so many times as long as that version takes for one."""


class Progress:
    """Looks at a gate now and then."""

    def __init__(self, gate: Gate, world: World) -> None:
        self._gate, self._world = gate, world
        self._looks: deque[tuple[float, int, int]] = deque(maxlen=LOOKS)
        """When the new version got how far, and how far the journal was then."""
        self._of: int | None = None

    def look(self) -> None:
        """Note how far the new version is."""
        deployment = self._gate.state.deployment
        if deployment is None or deployment.state not in BEFORE_SWITCH:
            self._looks.clear()
            return
        at = self._answered(deployment.to_version)
        if self._of != deployment.to_version:
            self._looks.clear()
            self._of = deployment.to_version
        if at is not None and (not self._looks or at > self._looks[-1][1]):
            self._looks.append((self._world.clock.elapsed_s(), at, self._gate.journal.last))

    def pace_s(self) -> float:
        """Return how long a segment should be now, so that a version that catches up comes closer."""
        deployment = self._gate.state.deployment
        if deployment is None or deployment.state != CATCHING_UP or len(self._looks) < 2:
            return 0.0
        (begun_s, first, _), (now_s, last, _) = self._looks[0], self._looks[-1]
        return min(PACE * (now_s - begun_s) / (last - first), 30.0) if last > first else 0.0

    def ends_in_s(self) -> float | None:
        """Return in how many seconds the new version will have caught up, as things go; None: nobody knows."""
        if len(self._looks) < 2:
            return None
        (begun_s, first, before), (now_s, last, after) = self._looks[0], self._looks[-1]
        closer = (last - first) - (after - before)
        left = self._gate.journal.last - last
        if left <= 0:
            return 0.0
        return left * (now_s - begun_s) / closer if closer > 0 else None

    def _answered(self, number: int) -> int | None:
        entry = next((v for v in self._gate.state.versions if v.number == number), None)
        return None if entry is None or entry.first is None else self._gate.answered(number)

    def to_dict(self) -> dict[str, Any]:
        """Return what the status says."""
        gate, state = self._gate, self._gate.state
        last = gate.journal.last
        versions = []
        for entry in state.versions:
            answered = self._answered(entry.number)
            role = "answers" if entry.number == state.active else "kept" if self._is_kept(entry.number) else "new"
            behind = None if answered is None else last - answered
            said = {"version": entry.number, "build": entry.build, "role": role, "first": entry.first}
            versions.append({**said, "answered": answered, "behind": behind})
        found: dict[str, Any] = {
            "version": state.active, "segment": last, "published": state.published, "rows_in": gate.journal.rows_in,
            "rows_out": state.rows_out, "versions": versions, "turns": [list(turn) for turn in state.turns],
        }  # fmt: skip
        if state.deployment is not None:
            found["deployment"] = {**record_of(state.deployment), **self._caught_up()}
        return found

    def _is_kept(self, number: int) -> bool:
        deployment = self._gate.state.deployment
        return deployment is not None and deployment.from_version == number

    def _caught_up(self) -> dict[str, Any]:
        """Return how much of what it has to read a new version has read, and when it will be there."""
        deployment = self._gate.state.deployment
        assert deployment is not None, "there is one"
        if deployment.state not in BEFORE_SWITCH:
            return {}
        answered = self._answered(deployment.to_version)
        if answered is None:
            return {"caught_up": 0.0}
        first, last = self._gate.state.entry(deployment.to_version).first or 0, self._gate.journal.last
        share = (answered - first + 1) / max(last - first + 1, 1)
        return {"caught_up": round(min(share, 1.0), 3), "ends_in_s": self.ends_in_s()}
