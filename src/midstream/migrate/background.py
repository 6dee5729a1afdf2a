"""Background state computation: fill the new plan's states in spare time, so that the old plan ends earlier.

lowest incomplete state ──▶ pairs of the entries below, newest first, a budget per micro-batch ──▶ added whole

Newest first: what expires meanwhile is never computed.
"""

import numpy as np

from midstream.migrate.characteristics import CharacteristicsTable, Region
from midstream.migrate.match import Moment, live_entries
from midstream.operators.sliding.entry import LATEST, ROWS, Matrix, in_order
from midstream.operators.sliding.join import LEFT, RIGHT
from midstream.operators.sliding.tree import Step
from midstream.operators.source.sources import Renumbering
from midstream.operators.source.window import moved

BLOCK = 4096
"""Entries taken at a time at most."""


class BackgroundState:
    """The computation of one state: the results of a step that lie in one of its regions.

    Invariant: pairs whose earlier member has its latest row at `done_to` or later have been found.
    """

    def __init__(self, step: Step, regions: list[Region]) -> None:
        self.step = step
        self.regions = regions
        self.before = max(r.seq for r in regions)
        self.done_to = self.before
        self.found: list[Matrix] = []

    def advance(self, budget: int, moment: Moment) -> int:
        """Spend up to so many predicate evaluations; return what is left of them (0 when there is more to do)."""
        join, sources = self.step.join, self.step.join.sources
        lacking = CharacteristicsTable({self.step.parts: self.regions})
        sides = [live_entries(join, side, moment, self.done_to) for side in (LEFT, RIGHT)]
        latest = np.sort(np.concatenate([entries[:, LATEST] for entries in sides]))
        end = len(latest)
        widest = max(1, max(len(entries) for entries in sides))
        while budget > 0:
            if not end:
                return budget
            size = BLOCK if join.spec.hashed else max(1, min(budget // widest, BLOCK))
            start = int(np.searchsorted(latest, latest[max(0, end - size)]))
            upper, self.done_to = self.done_to, int(latest[start])
            end = start
            spent = sources.predicate_evaluations
            for side, entries in zip((LEFT, RIGHT), sides, strict=True):
                low, high = np.searchsorted(entries[:, LATEST], [self.done_to, upper])
                pairs = join.pair(entries[low:high], side, self.before, True, moment.now_us, moment.seq)
                self.found.append(pairs[lacking.needed(pairs, join.spec.components)])
            budget -= max(1, sources.predicate_evaluations - spent)
        return 0

    def entries(self) -> Matrix:
        """Return what was found, in order of the latest row."""
        return in_order(np.concatenate(self.found)) if self.found else np.empty((0, 0), np.int64)

    def renumber(self, change: Renumbering) -> None:
        """Follow a row store that has numbered its rows anew."""
        column = ROWS + self.step.join.spec.components.index(change.alias)
        for entries in self.found:
            entries[:, column] = moved(entries[:, column], change.places, change.base)
