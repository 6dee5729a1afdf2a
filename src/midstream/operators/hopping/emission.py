"""Emission: the answer at a hop as it leaves: complete, or the change of each value since the last answer.

Rows leave in the order of their values, so that the output does not depend on plan, modes, batches or buckets.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Matrix, Vector
from midstream.operators.hopping.bag import Bag
from midstream.operators.hopping.coding import Coding
from midstream.operators.hopping.convert import cancelled, own
from midstream.operators.hopping.tuples import FOREVER, Tuples, nothing
from midstream.operators.source.memory import check_room
from midstream.plan.expr import Column

PLACE_BYTES = 32
"""For each row that leaves: its place, its time, its hop and its sign."""


class Stamp(NamedTuple):
    """What the rows of an answer say of it: its time, and which hop it is of."""

    time_us: int
    hop: int
    """The same time again; where rows are counted, how many there were before the answer."""


class Emission:
    """What leaves of the root's tuples. State of delta output: the answer before, to say what has ended."""

    def __init__(self, columns: tuple[Column, ...], coding: Coding) -> None:
        self._columns = columns
        self._coding = coding
        self.bag = Bag(len(columns), np.arange(len(columns)))
        self._last = nothing(len(columns), False)

    def load(self, hop_us: int, answer: Tuples, by_deltas: bool) -> None:
        """Take the last answer from elsewhere; deltas against it will come, or the next one whole."""
        if by_deltas:
            self.bag.expire(hop_us)
            self.bag.add(answer.where(answer.until < FOREVER))
        else:
            self._last = own(answer)

    def change_to(self, answer: Tuples) -> tuple[Matrix, Vector]:
        """Return how the answer differs from the last one, given whole: rows and their signs."""
        last, self._last = self._last, own(answer)
        return _net(answer.rows, last.rows)

    def change_by(self, hop_us: int, delta: Tuples) -> tuple[Matrix, Vector]:
        """Return how the answer differs from the last one, given what comes and what goes before its time."""
        assert delta.signs is not None, "a change is a delta"
        ended = self.bag.ending(hop_us)
        coming, going = delta.signs > 0, (delta.signs < 0) & (delta.until >= hop_us)
        # What only its giver takes back need not be held.
        self.bag.apply(delta.where(delta.until < FOREVER), now_us=hop_us)
        came = delta.rows if coming.all() else delta.where(coming).rows
        return _net(came, np.concatenate([ended.rows, delta.where(going).rows]))

    @property
    def tuples(self) -> int:
        """Return how many tuples are held."""
        return self.bag.tuples + len(self._last)

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        return self.bag.nbytes + self._last.rows.nbytes

    def leaving(self, stamp: Stamp, rows: Matrix, signs: Vector | None = None) -> list[pa.RecordBatch]:
        """Return the answer at a hop, or with signs its change, in the order of its values; long texts in pieces."""
        fields = [pa.field(c.name, c.type) for c in self._columns]
        return decoded(self._coding, stamp, rows, fields, signs)


def value_order(coding: Coding, rows: Matrix, types: Sequence[pa.DataType], signs: Vector | None) -> Vector:
    """Return the places of rows in the order of their values, what goes before what comes."""
    keys = [coding.ranks(np.ascontiguousarray(rows[:, k]), t) for k, t in enumerate(types)]
    if signs is None:
        return _order(keys)
    parts = [np.flatnonzero(signs < 0), np.flatnonzero(signs > 0)]
    return np.concatenate([part[_order([k.take(part) for k in keys])] for part in parts])


def _order(keys: Sequence[Vector]) -> Vector:
    """Return the places of lines in the order of their keys. Mostly the first one tells; the others are for ties."""
    order = np.argsort(keys[0])
    first = keys[0].take(order)
    same = first[1:] == first[:-1]
    tied = np.flatnonzero(np.r_[False, same] | np.r_[same, False]) if len(keys) > 1 else order[:0]
    if len(tied):
        lines = order.take(tied)
        order[tied] = lines.take(np.lexsort([k.take(lines) for k in keys[::-1]]))
    return order


def decoded(
    coding: Coding, stamp: Stamp, rows: Matrix, fields: Sequence[pa.Field], signs: Vector | None
) -> list[pa.RecordBatch]:
    """Return rows of codes as they leave at a hop: in order, in one batch or, of long texts, in several."""
    types = [f.type for f in fields]
    # Of every row the values, their ranks and its place, and the row again, in its place.
    check_room(coding.decoded_bytes(rows, types) + 2 * rows.nbytes + PLACE_BYTES * len(rows), "the answer at a hop")
    order = value_order(coding, rows, types, signs)
    rows = rows.take(order, axis=0)
    names = [*(f.name for f in fields), "_time", "_hop", *([] if signs is None else ["_sign"])]
    out = []
    for piece in coding.pieces(rows, types):
        arrays = [coding.decode(np.ascontiguousarray(rows[piece, k]), t) for k, t in enumerate(types)]
        stamped = [pa.array(np.full(piece.stop - piece.start, value, np.int64)) for value in stamp]
        arrays += [*stamped, *([] if signs is None else [pa.array(signs[order[piece]])])]
        out.append(pa.RecordBatch.from_arrays(arrays, names=names))
    return out


def merged(answers: Sequence[pa.RecordBatch], columns: int) -> list[pa.RecordBatch]:
    """Return the answers of all buckets at a hop as one, in the order of its values; long texts in pieces."""
    if len(answers) == 1:
        return list(answers)
    coding, schema = Coding(), answers[0].schema
    stamp = Stamp(*(answers[0].column(name)[0].as_py() for name in ("_time", "_hop")))
    rows = np.empty((sum(a.num_rows for a in answers), columns), np.int64)
    for k in range(columns):
        rows[:, k] = np.concatenate([coding.encode(a.column(k)) for a in answers])
    fields = [schema.field(k) for k in range(columns)]
    if "_sign" not in schema.names:
        return decoded(coding, stamp, rows, fields, None)
    signs = np.concatenate([a.column("_sign").to_numpy() for a in answers])
    # What comes in one bucket may go in another.
    rows, signs = _net(rows[signs > 0], rows[signs < 0])
    return decoded(coding, stamp, rows, fields, signs)


def _net(new: Matrix, old: Matrix) -> tuple[Matrix, Vector]:
    """Return the rows that come and go when equal ones cancel out, and their signs."""
    no_ends = np.empty(0, np.int64)
    came, went = (np.flatnonzero(left) for left in cancelled(new, no_ends, old, no_ends, False))
    signs = np.concatenate([np.ones(len(came), np.int64), np.full(len(went), -1, np.int64)])
    return np.concatenate([new.take(came, axis=0), old.take(went, axis=0)]), signs
