"""Lines of groups: what leaves with the aggregates of a group of rows; its time, its place and its lineage."""

from dataclasses import dataclass

import numpy as np

from midstream.kernels.aggregate import find_extremes
from midstream.kernels.arrays import Vector
from midstream.model.row_sets import RowSets, expand, starts_of
from midstream.operators.aggregate.groups import Groups
from midstream.operators.aggregate.instances import Closing
from midstream.operators.aggregate.stage_rows import StageRows


@dataclass(frozen=True)
class Lines:
    """About each group: the place of its latest row, its latest time, and the lineage of all its rows."""

    latest: Vector
    times: Vector
    oldest_us: Vector
    prints: Vector


def describe(rows: StageRows, places: Vector, starts: Vector, ends: Vector, traced: bool) -> Lines:
    """Describe the rows of each range of places, with their lineage when `traced`; an empty range gets any line."""
    none = np.zeros(len(starts), np.int64)
    if not len(places):
        return Lines(none, none.copy(), none.copy(), none.copy())
    times = rows.times.view()[places]
    latest, newest = places[np.maximum(ends, 1) - 1], times[find_extremes(times, starts, ends, -1)]
    if not traced:
        return Lines(latest, newest, none, none)
    oldest = rows.oldest_us.view()[places]
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows.prints.view()[places])])
    return Lines(latest, newest, oldest[find_extremes(oldest, starts, ends, 1)], sums[ends] - sums[starts])


def describe_groups(rows: StageRows, groups: Groups, closing: Closing, traced: bool = True) -> Lines:
    """Describe the rows of each group; for one without rows, those of its instance."""
    lines = describe(rows, groups.places, groups.starts, groups.ends, traced)
    empty = np.flatnonzero(groups.starts == groups.ends)
    if len(empty):
        of = groups.instances[empty]
        whole = describe(rows, closing.places, closing.lows[of], closing.highs[of], traced)
        for mine, all_rows in zip(vars(lines).values(), vars(whole).values(), strict=True):
            mine[empty] = all_rows
    return lines


def row_sets(rows: StageRows, groups: Groups, closing: Closing) -> RowSets:
    """Return the rows that each group is made of; for one without rows, those of its instance."""
    empty, of = groups.starts == groups.ends, groups.instances
    firsts = np.where(empty, len(groups.places) + closing.lows[of], groups.starts)
    ends = np.where(empty, len(groups.places) + closing.highs[of], groups.ends)
    places = np.concatenate([groups.places, closing.places])
    if rows.sets is not None:
        return rows.sets.view().where(places).united(firsts, ends)
    return RowSets(starts_of(ends - firsts), rows.prints.view()[places[expand(firsts, ends)]])


def oldest_rows(rows: StageRows, closing: Closing) -> Vector:
    """Return the time of the oldest row that any row of each instance depends on."""
    oldest = rows.oldest_us.view()[closing.places]
    found: Vector = oldest[find_extremes(oldest, closing.lows, closing.highs, 1)]
    return found
