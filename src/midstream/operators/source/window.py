"""Counted windows: which earlier row each arriving row pushes out.

    arriving rows ──▶ state (the rows in the window) ──▶ pushed-out rows ──▶ eviction table

`[RANGE w]` needs no state: a row's deadline is its time plus the width.
"""

from typing import Protocol

import numpy as np

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.window import pack_queues, push_partitioned
from midstream.model.time import FOREVER_US
from midstream.operators.source.tape import Tape, grown_with_zeros
from midstream.operators.source.value_table import ValueTable


class CountedWindowState(Protocol):
    """What is in a counted window: row numbers, with -1 for rows the filters have dropped."""

    in_order: bool
    """Whether rows leave in the order they came."""

    def push(self, rows: Vector, keys: Matrix) -> Vector:
        """Take in rows and return, for each, the row it pushes out, or -1."""

    def renumber(self, places: Vector, base: int) -> None:
        """Follow a row store that has numbered its rows anew."""

    @property
    def nbytes(self) -> int:
        """Return the memory held."""


class RowsWindowState:
    """The last `size` rows of a stream."""

    in_order = True

    def __init__(self, size: int) -> None:
        self.size = size
        self.tail = Tape(np.int64)

    def push(self, rows: Vector, keys: Matrix) -> Vector:
        """Take in rows and return, for each, the row it pushes out, or -1."""
        free = self.size - len(self.tail)
        self.tail.append(rows)
        pushed = np.full(len(rows), -1, np.int64)
        pushed[free:] = self.tail.view()[: max(0, len(rows) - free)]
        self.tail.drop_front(max(0, len(self.tail) - self.size))
        return pushed

    def renumber(self, places: Vector, base: int) -> None:
        """Follow a row store that has numbered its rows anew."""
        self.tail.reset(moved(self.tail.view(), places, base))

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        return self.tail.nbytes


class PartitionedRowsWindowState:
    """The last `size` rows of each key, as linked queues in flat arrays.

    Keys are two 64-bit codes. Invariant: every queue has between 1 and `size` rows.
    """

    in_order = False

    def __init__(self, size: int) -> None:
        self.size = size
        self.keys = ValueTable(2)
        self.queues = np.zeros((16, 3), np.int64)
        self.nodes = np.empty((64, 2), np.int64)
        self.node_count = 0

    def push(self, rows: Vector, keys: Matrix) -> Vector:
        """Take in rows and return, for each, the row it pushes out, or -1."""
        queue_of = self.keys.find(keys)
        self._reserve(len(rows))
        pushed, self.node_count = push_partitioned(queue_of, self.queues, self.nodes, self.node_count, rows, self.size)
        return pushed

    def _reserve(self, count: int) -> None:
        """Make room for that many rows, and for their queues."""
        if len(self.keys) > len(self.queues):
            self.queues = grown_with_zeros(self.queues, len(self.queues), len(self.keys) * 3 // 2)
        if self.node_count + count > len(self.nodes):
            live = int(self.queues[:, 2].sum())
            packed = np.empty(((live + count) * 3 // 2, 2), np.int64)
            self.node_count = pack_queues(self.queues, len(self.keys), self.nodes, packed)
            self.nodes = packed

    def renumber(self, places: Vector, base: int) -> None:
        """Follow a row store that has numbered its rows anew."""
        self.nodes[: self.node_count, 0] = moved(self.nodes[: self.node_count, 0], places, base)

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        return int(self.keys.nbytes + self.queues.nbytes + self.nodes.nbytes)


def moved(rows: Vector, places: Vector, base: int) -> Vector:
    """Return the new numbers of rows; a row that is gone becomes -1.

    >>> moved(np.array([7, -1, 5]), np.array([-1, 0, 1]), 5)
    array([ 1, -1, -1])
    """
    inside = (rows >= base) & (rows < base + len(places))
    return np.where(inside, places[np.where(inside, rows - base, 0)], -1)


class EvictionTable:
    """When each row of each counted window was pushed out: one line per source, one place per row.

    Invariant: `table[line, n - bases[line]]` is the sequence number that pushed out row n, or FOREVER.
    """

    def __init__(self, lines: int) -> None:
        self.table = np.full((lines, 64 if lines else 1), FOREVER_US, np.int64)
        self.bases = np.zeros(lines, np.int64)
        self.ends = np.zeros(lines, np.int64)
        """One past the last row number of each line."""
        self.pushed_out = np.zeros(lines, np.int64)
        """How many rows of each line were pushed out since it was last reset."""

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        return int(self.table.nbytes)

    def view(self, line: int) -> Vector:
        """Return the places of one line that hold rows."""
        return self.table[line, : self.ends[line] - self.bases[line]]

    def add(self, line: int, count: int, keep_from: int) -> None:
        """Give `count` new rows of a line a place each; rows numbered below `keep_from` are no longer asked for."""
        held = int(self.ends[line] - self.bases[line])
        if held + count > self.table.shape[1]:
            gone = int(keep_from - self.bases[line])
            live = held - gone
            self.table[line, :live] = self.table[line, gone:held].copy()
            self.bases[line] = keep_from
            held = live
            if held + count > self.table.shape[1] * 3 // 4:
                grown = np.full((len(self.bases), (held + count) * 2), FOREVER_US, np.int64)
                grown[:, : self.table.shape[1]] = self.table[:, : grown.shape[1]]
                self.table = grown
        self.table[line, held : held + count] = FOREVER_US
        self.ends[line] += count

    def mark(self, line: int, pushed: Vector, seqs: Vector) -> None:
        """Note that the arrival of `seqs[i]` pushed out row `pushed[i]` (-1: none)."""
        some = pushed >= 0
        self.table[line, pushed[some] - self.bases[line]] = seqs[some]
        self.pushed_out[line] += np.count_nonzero(some)

    def mostly_dead(self, line: int) -> bool:
        """Tell whether letting go of the dead rows of a line pays for moving the others."""
        held = self.ends[line] - self.bases[line]
        return bool(2 * self.pushed_out[line] > held + 1024)

    def reset(self, line: int, values: Vector, base: int = 0) -> None:
        """Hold exactly these values for one line, its first row numbered `base`."""
        self.bases[line], self.ends[line], self.pushed_out[line] = base, base, np.count_nonzero(values != FOREVER_US)
        self.add(line, len(values), base)
        self.table[line, : len(values)] = values
