"""Tuples: what an edge between two operators carries, a delta or a complete relation, as rows of 64-bit codes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.operators.source.memory import check_room

Chosen = slice | Vector
"""Some rows, by their places."""
FOREVER = 2**62
"""The end of tuples that time alone does not end: who gave them takes them back."""


@dataclass(frozen=True)
class Tuples:
    """Rows of codes, and the last time each is valid.

    A delta says by `signs` which rows come (+1) and which go before their time (-1); those whose time is over are
    left out, since everybody can tell. In a complete relation `signs` is None.
    """

    rows: Matrix
    until: Vector
    signs: Vector | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, chosen: Mask | Vector) -> "Tuples":
        """Return the chosen rows."""
        places = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        rows, until = self.rows.take(places, axis=0), self.until.take(places)
        return Tuples(rows, until, None if self.signs is None else self.signs.take(places))

    def signed(self, sign: int = 1) -> "Tuples":
        """Return the rows of a complete relation as a delta."""
        return Tuples(self.rows, self.until, np.full(len(self), sign, np.int64))


def nothing(width: int, signed: bool) -> Tuples:
    """Return no rows at all."""
    return Tuples(
        np.empty((0, width), np.int64), np.empty(0, np.int64), np.empty(0, np.int64) if signed else None
    )  # fmt: skip


def valid(tuples: Tuples, now_us: int) -> Tuples:
    """Return tuples without those whose time is over; it may be a view."""
    if not len(tuples) or int(tuples.until.min()) >= now_us:
        return tuples
    chosen = in_one_piece(np.flatnonzero(tuples.until >= now_us))
    if not isinstance(chosen, slice):
        return tuples.where(chosen)
    return Tuples(tuples.rows[chosen], tuples.until[chosen], None if tuples.signs is None else tuples.signs[chosen])


def in_one_piece(places: Vector) -> Chosen:
    """Return places as a slice, if they are one.

    >>> in_one_piece(np.array([3, 4, 5])), in_one_piece(np.array([3, 5]))
    (slice(3, 6, None), array([3, 5]))
    """
    if not len(places) or places[-1] - places[0] + 1 != len(places):
        return places
    return slice(int(places[0]), int(places[-1]) + 1)


def together(parts: Sequence[Tuples]) -> Tuples:
    """Return several relations, or several deltas, as one."""
    held = [p for p in parts if len(p)] or list(parts[:1])
    if len(held) == 1:
        return held[0]
    check_room(8 * (held[0].rows.shape[1] + 2) * sum(map(len, held)), "the tuples that an operator is given")
    signs = None
    if held[0].signs is not None:
        signs = np.concatenate([p.signs for p in held if p.signs is not None])
    return Tuples(np.concatenate([p.rows for p in held]), np.concatenate([p.until for p in held]), signs)
