"""What the host keeps itself, and never loses: which micro-batches were planned and committed, and states of buckets.

As Spark does: offsets are written before a micro-batch, the commit after it; a state has a version per micro-batch, and
a micro-batch that is run again begins with the one before it and writes the same version anew.
"""

from dataclasses import dataclass, field

import pyarrow as pa

from midstream.engine.bucket.store import Key


class ConcurrentDriver(Exception):
    """Another driver has planned or committed the same micro-batch."""


@dataclass(frozen=True)
class Planned:
    """What was planned for a micro-batch: its control rows, by the names of their files. Its rows go by its number."""

    controls: tuple[str, ...]


@dataclass
class HostLog:
    """Offsets, commits, states."""

    offsets: dict[int, Planned] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)
    states: dict[tuple[int, int], tuple[str | None, dict[Key, pa.Table]]] = field(default_factory=dict)
    """By bucket and micro-batch: head and tables after it."""

    @property
    def planned(self) -> int:
        return max(self.offsets, default=-1)

    def plan(self, batch: int, planned: Planned) -> None:
        if batch in self.offsets:
            raise ConcurrentDriver(f"micro-batch {batch} is planned already")
        self.offsets[batch] = planned

    def commit(self, batch: int) -> None:
        if batch in self.commits:
            raise ConcurrentDriver(f"micro-batch {batch} is committed already")
        self.commits.add(batch)

    def read(self) -> set[str]:
        """Return the names of the control rows that any micro-batch reads."""
        return {name for planned in self.offsets.values() for name in planned.controls}


class TaskStore:
    """The store of a bucket during one attempt at a task: nothing lasts before `commit`."""

    def __init__(self, log: HostLog, label: int, batch: int) -> None:
        self._log, self._label, self._batch = log, label, batch
        self._head, tables = log.states.get((label, batch - 1), (None, {}))
        self._tables = dict(tables)

    def read_state(self) -> str | None:
        return self._head

    def write_state(self, state: str) -> None:
        self._head = state

    def read(self, key: Key) -> pa.Table:
        return self._tables[key]

    def write(self, key: Key, table: pa.Table) -> None:
        self._tables[key] = table

    def remove(self, key: Key) -> None:
        del self._tables[key]

    def commit(self) -> None:
        self._log.states[self._label, self._batch] = (self._head, self._tables)
