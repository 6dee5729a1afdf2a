"""Feed: make the results of one join the input of the next, by looking up keys and comparison values.

results of a join ──▶ look up codes by row number ──▶ drop rows with a null ──▶ batch for the join above
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from midstream.kernels.codes import combine
from midstream.kernels.entries import KEY, ROWS, gather, keep_valid
from midstream.operators.scan import Scan

Matrix = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StoredCode:
    """Where a code is found: a component of the results, the scan that keeps it, and which of its codes it is."""

    component: int
    scan: Scan
    index: int


@dataclass(frozen=True)
class Feed:
    """The codes a join needs from the results of the join below it.

    `key` is looked up for a key of one part; with `combined` > 1 the first that many values are hashed to the key;
    with neither, the results carry the right key already.
    """

    components: int
    key: StoredCode | None
    combined: int
    values: tuple[StoredCode, ...]

    def prepare(self, batch: Matrix) -> Matrix:
        """Fill in the key and values of results, in place; return those that can match."""
        first = ROWS + self.components
        wanted = [(first + k, code) for k, code in enumerate(self.values)]
        if self.key is not None:
            wanted.append((KEY, self.key))
        kept = len(batch)
        for _, code in wanted:
            valid = code.scan.store.code_valid[code.index]
            if valid is not None:
                kept = keep_valid(batch, kept, ROWS + code.component, valid.view(), code.scan.store.base)
        batch = batch[:kept]
        for target, code in wanted:
            values = code.scan.store.codes[code.index].view()
            gather(batch, ROWS + code.component, values, code.scan.store.base, target)
        if self.combined > 1:
            batch[:, KEY] = combine(np.ascontiguousarray(batch[:, first : first + self.combined]), 0)
        return batch
