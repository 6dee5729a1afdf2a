"""Backlog: rows that a new run has yet to take in, a queue for each input.

rows ──▶ add, in order of time ──▶ queues by alias ──▶ take: the first of all of them, in order of time
"""

from collections import deque
from collections.abc import Mapping

import numpy as np

from midstream.engine.rows.rows import Rows, in_arrival_order
from midstream.model.time import FOREVER


class Backlog:
    """Queues of rows by alias. Rows of one time are taken together, so that a time says how far it has come."""

    def __init__(self, rows: Mapping[str, Rows]) -> None:
        self._queues: dict[str, deque[Rows]] = {}
        self._count = 0
        self.add(rows)

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Mapping[str, Rows]) -> None:
        """Add rows that come after all others."""
        for alias, mine in rows.items():
            if len(mine):
                self._queues.setdefault(alias, deque()).append(mine)
                self._count += len(mine)

    def take(self, count: int) -> tuple[dict[str, Rows], int]:
        """Take the first rows of all queues, `count` and those of the same time; also return before which time all are.

        >>> rows = {"a": Rows(np.array([1, 4, 4]), np.arange(3), {}), "b": Rows(np.array([2, 3]), np.arange(2), {})}
        >>> backlog = Backlog(rows)
        >>> taken, before_us = backlog.take(4)
        >>> {alias: mine.times.tolist() for alias, mine in taken.items()}, before_us, len(backlog)
        ({'a': [1, 4, 4], 'b': [2, 3]}, 5, 0)
        """
        before_us = self._time_of(count - 1) + 1 if count < self._count else FOREVER
        taken = {}
        for alias, queue in self._queues.items():
            parts = []
            while queue and queue[0].times[0] < before_us:
                rows = queue.popleft()
                cut = int(np.searchsorted(rows.times, before_us))
                parts.append(rows.between(0, cut))
                if cut < len(rows):
                    queue.appendleft(rows.between(cut, len(rows)))
            if parts:
                taken[alias] = in_arrival_order(parts)
                self._count -= len(taken[alias])
        return taken, before_us

    def _time_of(self, place: int) -> int:
        """Return the time of the row at a place among those of all queues."""
        first = []
        for queue in self._queues.values():
            wanted = place + 1
            for rows in queue:
                first.append(rows.times[:wanted])
                wanted -= len(first[-1])
                if wanted <= 0:
                    break
        return int(np.partition(np.concatenate(first), place)[place])
