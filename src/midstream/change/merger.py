"""Merger: the output of all versions as one stream.

    append      the results of a version leave when every earlier version is over
    interleave  results leave in the order of what brought them; at the same moment those of the older version first

State: the results held back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.change.trigger import TRIGGER, triggers_of
from midstream.model.batch import Lineage, Results
from midstream.operators.expression.arrays import taken

Matrix = npt.NDArray[np.int64]
BLOCK_ROWS = 1 << 16
"""Batches of up to so many rows share the column that says which version gave them."""


@dataclass(frozen=True)
class Emission:
    """Results that leave together, in order; those of one stretch of versions that interleave.

    Invariant: `versions`, `triggers` and the lineage have a line per row; triggers do not decrease.
    """

    batches: list[pa.RecordBatch]
    versions: Matrix
    triggers: Matrix
    lineage: Lineage
    held: bool = False
    """They were held back until now."""

    def __len__(self) -> int:
        return len(self.versions)


class Merger:
    """What waits, per version."""

    def __init__(self) -> None:
        self.held: dict[int, list[Results]] = {}

    @property
    def rows_held(self) -> int:
        """Return how many results are held back."""
        return sum(len(r) for parts in self.held.values() for r in parts)

    def merge(
        self, given: dict[int, list[Results]], appended: set[int], alive: set[int], everything: bool = False
    ) -> list[Emission]:
        """Return what leaves now, given the results of each version in this round.

        `appended` are versions that wait for all earlier ones, `alive` those that may give more; `everything` leaves
        when there is nothing more to come.
        """
        out = []
        open_before = False
        for stretch in stretches(sorted({*given, *self.held, *alive}), appended):
            waits = open_before and not everything
            held = any(self.held.get(v) for v in stretch)
            parts = {v: [r for r in (*self.held.pop(v, []), *given.get(v, [])) if len(r)] for v in stretch}
            if waits:
                self.held |= parts
            elif any(parts.values()):
                out.append(interleaved(parts, held))
            open_before |= any(v in alive for v in stretch)
        return out


def stretches(versions: Sequence[int], appended: set[int]) -> list[list[int]]:
    """Return the versions in stretches that interleave; each stretch is appended to the one before.

    >>> stretches([1, 2, 3], {2})
    [[1], [2, 3]]
    """
    out: list[list[int]] = []
    for version in versions:
        if version in appended or not out:
            out.append([])
        out[-1].append(version)
    return out


def interleaved(parts: dict[int, list[Results]], held: bool = False) -> Emission:
    """Bring the results of several versions into the order of what brought them."""
    flat = [(version, result) for version, results in parts.items() for result in results]
    versions = np.concatenate([np.full(len(r), v, np.int64) for v, r in flat])
    triggers = np.concatenate([triggers_of(r) for _, r in flat])
    lines = [_lineage(r) for _, r in flat]
    lineage = Lineage(
        np.concatenate([line.oldest_us for line in lines]),
        np.concatenate([line.prints for line in lines]),
        np.concatenate([line.with_values().prints for line in lines]),
    )
    batches = [versioned(r.rows, v) for v, r in flat]
    if len({v for v, _ in flat}) > 1:
        # Results of one version keep their order.
        place = np.lexsort((np.arange(len(versions)), versions, *(triggers[:, k] for k in reversed(range(TRIGGER)))))
        versions, triggers, lineage = versions[place], triggers[place], lineage.where(place)
        batches = _rearranged(batches, place)
    return Emission(batches, versions, triggers, lineage, held)


def _lineage(results: Results) -> Lineage:
    if results.lineage is not None:
        return results.lineage
    return Lineage(np.full(len(results), -(2**63), np.int64), np.zeros(len(results), np.int64))


def _rearranged(batches: list[pa.RecordBatch], place: Matrix) -> list[pa.RecordBatch]:
    """Return rows of several batches in another order: as one batch when they have the same columns."""
    if all(b.schema == batches[0].schema for b in batches):
        return taken(batches, place)
    which = np.concatenate([np.full(b.num_rows, k) for k, b in enumerate(batches)])[place]
    starts = np.cumsum([0, *(b.num_rows for b in batches)])
    at = place - starts[which]
    cuts = [0, *(np.flatnonzero(np.diff(which)) + 1).tolist(), len(place)]
    return [batches[which[a]].take(pa.array(at[a:b])) for a, b in pairwise(cuts)]


def versioned(rows: pa.RecordBatch, version: int) -> pa.RecordBatch:
    """Add after the time of each result which version of the query gave it."""
    place, count = rows.schema.get_field_index("_time") + 1, rows.num_rows
    column = _block(version).slice(0, count) if count <= BLOCK_ROWS else _repeated(version, count)
    return rows.add_column(place, "_version", column)


@lru_cache(maxsize=8)
def _block(version: int) -> pa.Array:
    """Return a version's number for as many rows as most batches have: made once, and shared by all of them."""
    return _repeated(version, BLOCK_ROWS)


def _repeated(version: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(version, pa.int64()), count)
