"""Order of results: of all buckets in one order, of each version by itself, and cut at a position."""

from collections.abc import Sequence

import numpy as np

from midstream.change.trigger import left_before, triggers_of
from midstream.engine.results.output import Leaving
from midstream.model.batch import Lineage, Results
from midstream.operators.expression.arrays import taken

ByVersion = dict[int, list[Results]]
"""Results of each version, in order."""


def by_version(leaving: Sequence[Leaving]) -> dict[int, list[Leaving]]:
    """Return what leaves of each version, but for what is empty."""
    found: dict[int, list[Leaving]] = {}
    for item in leaving:
        if len(item.results):
            found.setdefault(item.version, []).append(item)
    return found


def in_one_order(items: Sequence[Leaving]) -> list[Results]:
    """Bring the results of several buckets into one max order."""
    places = [item.place() for item in items]
    assert all(place is not None for place in places), "results of several buckets say where they stand"
    parts = [item.results for item in items]
    place = np.concatenate([p for p in places if p is not None])
    order = np.lexsort(place.T[::-1])
    lines = [p.lineage for p in parts if p.lineage is not None]
    lineage = None
    # What a migration held back says what it depends on, though nobody asks.
    if len(lines) == len(parts):
        oldest = np.concatenate([line.oldest_us for line in lines])
        lineage = Lineage(oldest, np.concatenate([line.prints for line in lines])).where(order)
    out, at = [], 0
    for rows in taken([p.rows for p in parts], order):
        mine = slice(at, at + rows.num_rows)
        out.append(Results(rows, place[order[mine]][:, 2:], None if lineage is None else lineage.where(mine)))
        at = mine.stop
    return out


def cut(given: ByVersion, at_us: int) -> tuple[ByVersion, ByVersion]:
    """Return the results that left before a position, and the others."""
    before: ByVersion = {}
    after: ByVersion = {}
    for version, parts in given.items():
        for results in parts:
            left = left_before(triggers_of(results), at_us)
            for mask, side in ((left, before), (~left, after)):
                if mask.any():
                    side.setdefault(version, []).append(results.where(mask))
    return before, after
