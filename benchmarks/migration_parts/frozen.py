"""Frozen run: a run stopped at a moment, from which any number of others can go on with the same states."""

from collections.abc import Iterable, Sequence

from benchmarks.direct import DirectRun
from midstream.engine.rows.rows import Rows
from midstream.engine.snapshot.form import put_together, take_apart
from midstream.migrate.request import MigrationRequest


class FrozenRun:
    """A run at a moment.

    Invariant: what is thawed shares no array with what is frozen.
    """

    def __init__(self, runtime: DirectRun) -> None:
        self.plan = runtime.plan
        description, arrays = take_apart(runtime.migrators)
        self._description = description
        self._arrays = [a.copy() for a in arrays]
        self._next_seq = runtime.next_seq

    def thaw(self, schedule: Sequence[MigrationRequest] = ()) -> DirectRun:
        """Return a run that goes on from here."""
        runtime = DirectRun(self.plan, 1, schedule)
        runtime.migrators = put_together(self._description, [a.copy() for a in self._arrays])
        runtime.next_seq = self._next_seq
        return runtime


def freeze_after(runtime: DirectRun, batches: Iterable[dict[str, Rows]]) -> FrozenRun:
    """Run micro-batches and stop."""
    for rows in batches:
        for _ in runtime.on_rows(rows):
            pass
    return FrozenRun(runtime)
