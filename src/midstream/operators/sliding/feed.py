"""Feed: make results, or entries held elsewhere, the input of a join, by looking up keys and comparison values.

results of a join ──▶ look up codes by row number ──▶ drop rows with a null ──▶ batch for the join above
"""

from dataclasses import dataclass

import numpy as np

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.codes import combine
from midstream.kernels.entries import KEY, ROWS, gather, keep_valid, values_of
from midstream.operators.source.scan import Scan


@dataclass(frozen=True)
class StoredCode:
    """Where a code is found: a component of the results, the scan that keeps it, and which of its codes it is."""

    component: int
    scan: Scan
    index: int


@dataclass(frozen=True)
class Feed:
    """The codes a join needs from results with the given components.

    `key` is looked up for a key of one part; with `combined` > 1 the first that many values are hashed to the key;
    with neither, the results carry the right key already.
    """

    components: tuple[str, ...]
    key: StoredCode | None
    combined: int
    values: tuple[StoredCode, ...]

    @property
    def width(self) -> int:
        """Return how many numbers an entry has."""
        return ROWS + len(self.components) + len(self.values)

    def prepare(self, batch: Matrix) -> Matrix:
        """Fill in the key and values of results, in place; return those that can match."""
        first = ROWS + len(self.components)
        wanted = [(first + k, code) for k, code in enumerate(self.values)]
        if self.key is not None:
            wanted.append((KEY, self.key))
        kept = len(batch)
        for _, code in wanted:
            valid = code.scan.store.codes[code.index].valid
            if valid is not None:
                kept = keep_valid(batch, kept, ROWS + code.component, valid, code.scan.store.base)
        batch = batch[:kept]
        for target, code in wanted:
            values = code.scan.store.codes[code.index].values.view()
            gather(batch, ROWS + code.component, values, code.scan.store.base, target)
        if self.combined > 1:
            batch[:, KEY] = combine(np.ascontiguousarray(batch[:, first : first + self.combined]), 0)
        return batch

    def keys_of(self, entries: Matrix, components: tuple[str, ...]) -> tuple[Vector, Mask]:
        """Return the keys in this layout of entries from another one, and which have one: rows may be gone."""
        codes = self.values[: self.combined] if self.key is None else (self.key,)
        if not codes:
            return entries[:, KEY].copy(), np.ones(len(entries), np.bool_)
        found, there = [], np.ones(len(entries), np.bool_)
        for code in codes:
            column = ROWS + components.index(self.components[code.component])
            store = code.scan.store
            values, held = values_of(entries, column, store.codes[code.index].values.view(), store.base)
            found.append(values)
            there &= held
        return found[0] if len(found) == 1 else combine(np.column_stack(found), 0), there

    def arrange(self, entries: Matrix, components: tuple[str, ...]) -> Matrix:
        """Return a copy of entries with other components' order, laid out for this feed, values not filled in."""
        out = np.empty((len(entries), self.width), np.int64)
        out[:, :ROWS] = entries[:, :ROWS]
        for k, alias in enumerate(self.components):
            out[:, ROWS + k] = entries[:, ROWS + components.index(alias)]
        return out
