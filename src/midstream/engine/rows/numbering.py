"""Numbering: give the rows of all aliases their place in the one order, and cut them into slices."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from midstream.engine.rows.rows import Rows
from midstream.kernels.arrays import Vector
from midstream.kernels.arrival import merge_arrivals
from midstream.model.batch import Arrival
from midstream.operators.expression.arrays import GROWTH, as_strings, byte_runs, is_text, most_text
from midstream.plan.query import Query

SLICE_ROWS = 1 << 14
"""Rows handed to the operators at a time: enough to amortize calls, few enough to stay in cache."""
MANY_ALIASES = 8
"""From twice as many streams on slices are larger: there are as many more calls."""


@dataclass(frozen=True)
class Slice:
    """Rows that go through the operators at once: from time `now_us` on, after sequence number `seq`."""

    arrivals: dict[str, Arrival]
    now_us: int
    seq: int


def number_rows(query: Query, rows: dict[str, Rows], first: int) -> dict[str, Arrival]:
    """Number rows by time, then stream in declaration order, then offset, then alias in FROM order."""
    aliases = query.aliases
    if len(aliases) == 1:
        mine = rows[aliases[0]]
        numbers = np.arange(first, first + len(mine), dtype=np.int64)
        return {aliases[0]: Arrival(mine.times, mine.offsets, numbers, mine.columns)}
    times = np.concatenate([rows[a].times for a in aliases])
    offsets = np.concatenate([rows[a].offsets for a in aliases])
    starts = np.concatenate([[0], np.cumsum([len(rows[a].times) for a in aliases])]).astype(np.int64)
    positions = np.array([s.position for s in query.sources], np.int64)
    seqs = merge_arrivals(times, offsets, starts, positions, first)
    out = {}
    for k, alias in enumerate(aliases):
        mine = rows[alias]
        out[alias] = Arrival(mine.times, mine.offsets, seqs[starts[k] : starts[k + 1]], mine.columns)
    return out


def slices(arrivals: dict[str, Arrival], first: int, end: int) -> Iterator[Slice]:
    """Cut the rows numbered from `first` to below `end` into slices in order."""
    size, most = SLICE_ROWS * max(1, len(arrivals) // MANY_ALIASES), most_text(GROWTH)
    texts = [(a.seqs, c) for a in arrivals.values() for c in a.columns.values() if is_text(c.type) and c.nbytes > most]
    long = [(seqs, byte_runs(column)[0]) for seqs, column in texts]
    low = first
    while low < end:
        high = min([low + size, end, *(_fitting(seqs, ends, low, end, most) for seqs, ends in long)])
        piece = {}
        for alias, arrival in arrivals.items():
            start, stop = np.searchsorted(arrival.seqs, [low, high])
            piece[alias] = _plain(arrival.between(int(start), int(stop)))
        yield Slice(piece, min(int(a.times[0]) for a in piece.values() if len(a)), low - 1)
        low = high


def _fitting(seqs: Vector, ends: Vector, low: int, end: int, most: int) -> int:
    """Return the number before which the texts of a column from `low` on, given their bounds, are not too long."""
    first = int(np.searchsorted(seqs, low))
    if first == len(seqs):
        return end
    stop = max(int(np.searchsorted(ends, ends[first] + most, side="right")) - 1, first + 1)
    return int(seqs[stop]) if stop < len(seqs) else end


def _plain(arrival: Arrival) -> Arrival:
    """Return rows whose texts are plain strings."""
    if not any(pa.types.is_large_string(c.type) for c in arrival.columns.values()):
        return arrival
    columns = {name: as_strings(c) for name, c in arrival.columns.items()}
    return Arrival(arrival.times, arrival.offsets, arrival.seqs, columns)


def time_of(arrivals: dict[str, Arrival], seq: int) -> int:
    """Return the time of the first row numbered `seq` or later."""
    places = ((a, int(np.searchsorted(a.seqs, seq))) for a in arrivals.values())
    return min(int(a.times[at]) for a, at in places if at < len(a))


def seq_at(arrivals: dict[str, Arrival], time_us: int, otherwise: int) -> int:
    """Return the number of the first row at or after a time, or `otherwise` when there is none."""
    places = ((a, int(np.searchsorted(a.times, time_us))) for a in arrivals.values())
    return min((int(a.seqs[at]) for a, at in places if at < len(a)), default=otherwise)


def stop_at(arrivals: dict[str, Arrival], now_us: int, end: int, cuts: Iterable[int | None]) -> int:
    """Return the number of the first row, after that at `now_us`, before which something is to happen; else `end`."""
    return min((seq_at(arrivals, cut, end) for cut in cuts if cut is not None and cut > now_us), default=end)
