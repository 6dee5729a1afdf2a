"""Parallel track: run the old and the new plan side by side until the last old row has expired.

    rows ──▶ old plan ──▶ results with an old row ──────────────▶ out
        └──▶ new plan (starts empty) ──▶ results of new rows only ──▶ held back until the end (or merged at once)

Held back, the output has parallel-track order: everything with an old row leaves first. Merged, it has max order.
"""

import numpy as np

from midstream.migrate.migration import Migration
from midstream.migrate.switch import Switch
from midstream.operators.contract.execution import Execution, Progress, Switched
from midstream.operators.sliding.entry import ROWS, Matrix, in_order, reordered
from midstream.operators.sliding.join import Join
from midstream.operators.source.sources import Renumbering, Taken


def run_side_by_side(switch: Switch) -> Switched:
    """Return both plans at work, until the last old row has expired."""
    both = ParallelTrack(switch)
    return Switched(both, both.progress())


class ParallelTrack(Migration):
    """Two plans at work.

    Invariant: each result leaves once. One that holds a row from before the position comes from the old plan, all
    others from the new one.
    Refuses: buffered output over windows whose old rows may stay for ever (`ROWS n PARTITION BY`).
    Cost: every row is processed twice, for one window.
    """

    divides_work = True

    def __init__(self, switch: Switch) -> None:
        self.old = switch.old
        self.new = switch.new
        self.sources = switch.sources
        self.position = switch.position
        self.buffered = switch.request.output == "buffered"
        self.end_us = switch.last_old_us
        """When the last old row has left its window, if that is a matter of time alone."""
        self.components = switch.new.components
        self.rows_buffered = 0
        self._held: Matrix | None = None

    def on_rows(self, rows: Taken, now_us: int, seq: int) -> Matrix:
        """Run rows through both plans."""
        old = self._with_old_rows(self.old.on_rows(rows, now_us, seq))
        new = self.new.on_rows(rows, now_us, seq)
        if not self.buffered:
            return in_order(np.concatenate([old, new]))
        self._held = new
        self.rows_buffered += len(new)
        return old

    def held_back(self) -> Matrix | None:
        """Return the new plan's results."""
        back, self._held = self._held, None
        return back

    def hold_nothing_back(self) -> None:
        """Merge the results of both plans from now on."""
        self.buffered = False

    def _with_old_rows(self, results: Matrix) -> Matrix:
        """Drop the results of new rows alone, and bring the others into the new plan's layout."""
        old = np.zeros(len(results), np.bool_)
        for k, alias in enumerate(self.old.components):
            old |= results[:, ROWS + k] < self.position.rows[alias]
        return reordered(results[old], self.old.components, self.components)

    def progress(self) -> Progress:
        """Return how many states began empty, and how many results were held back."""
        return Progress(states_incomplete=2 * len(self.new.steps), rows_buffered=self.rows_buffered)

    def next_cut_us(self) -> int | None:
        """Return when the last old row has left its window: what was held back leaves then."""
        return self.end_us

    def released_at_us(self, now_us: int) -> int | None:
        """Return when the last old row has left its window, or `now_us` when that is not a matter of time alone."""
        if not self.buffered:
            return None
        return now_us if self.end_us is None else self.end_us

    def joins(self) -> list[Join]:
        """Return the joins of both plans."""
        return [*self.old.joins(), *self.new.joins()]

    def renumber(self, change: Renumbering) -> None:
        """Follow a row store that has numbered its rows anew."""
        self.old.renumber(change)
        self.new.renumber(change)
        self.position.renumber(change)

    def successor(self, now_us: int, seq: int) -> Execution | None:
        """Return the new plan once no old row is left."""
        if self.end_us is not None:
            return self.new if now_us >= self.end_us else None
        left = any(self.sources.has_old(alias, self.position, now_us, seq) for alias in self.components)
        return None if left else self.new
