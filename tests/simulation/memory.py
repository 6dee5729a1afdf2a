"""Simulated shared memory: what `live/mapped.py` promises, without files: operators under a stamp, one attempt each.

The arrays are those that operators work on, so an attempt that dies has spoiled them; the stamp is gone by then.
"""

from typing import Any

import numpy.typing as npt

from midstream.engine.snapshot.form import put_together, take_apart
from midstream.plan.json import own_aggregates
from midstream.plan.plan import Plan
from simulation.process import Process

Stamped = tuple[str, bytes, list[npt.NDArray[Any]]]


class SharedMemory:
    """What all workers of a host share: it outlasts a kill, not a power cut."""

    def __init__(self) -> None:
        self.stamps: dict[tuple[str, int, int], Stamped] = {}
        self.holders: dict[tuple[str, int, int], Process] = {}
        self.none_left = False
        """There is no room."""

    def lose(self) -> None:
        """Forget everything; there is room again."""
        self.stamps.clear()
        self.none_left = False


class TaskMemory:
    """The operators of one bucket in shared memory, for one attempt at a task."""

    def __init__(self, memory: SharedMemory, query: str, label: int, process: Process) -> None:
        self._memory, self._query, self._label, self._process = memory, query, label, process
        self.trouble = ""
        self._held: set[tuple[str, int, int]] = set()

    def _hold(self, version: int) -> tuple[str, int, int] | None:
        """Keep other attempts away; None: another one does."""
        key = (self._query, self._label, version)
        holder = self._memory.holders.get(key)
        if key not in self._held and (holder is None or not holder.alive):
            self._memory.holders[key] = self._process
            self._held.add(key)
        return key if key in self._held else None

    def take(self, version: int, token: str, plan: Plan) -> Any | None:
        key = self._hold(version)
        self._process.step("take memory")
        stamped = None if key is None else self._memory.stamps.pop(key, None)
        if stamped is None or stamped[0] != token:
            return None
        return put_together(stamped[1], stamped[2], own_aggregates(plan.query.root))

    def publish(self, version: int, token: str, exported: Any) -> bool:
        key = self._hold(version)
        self._process.step("publish memory")
        if key is None or self._memory.none_left:
            self.trouble = "shared memory is full" if self._memory.none_left else ""
            return False
        self._memory.stamps[key] = (token, *take_apart(exported))
        return True

    def forget(self, version: int) -> None:
        self._memory.stamps.pop((self._query, self._label, version), None)

    def release(self) -> None:
        for key in self._held:
            if self._memory.holders.get(key) is self._process:
                del self._memory.holders[key]
