"""Join: pairs of tuples with equal keys for which further conditions are true.

deltas:    ΔA with what B held, and what A holds now with ΔB; both sides are held, by key
complete:  the right side is hashed, the left side looks its partners up; nothing is held
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from midstream.kernels.arrays import Vector
from midstream.kernels.bag import hash_rows
from midstream.operators.hopping.bag import Bag, Pairs, side_by_side
from midstream.operators.hopping.rows import ByRow, Condition
from midstream.operators.hopping.tuples import Tuples, nothing, together, valid
from midstream.operators.source.memory import check_room

Found = tuple[Pairs, Vector | None]
"""Pairs of tuples, and in a delta the sign of each."""


@dataclass(frozen=True)
class JoinSpec:
    """How two inputs are joined: places of the keys, of the columns that leave, and what else must be true.

    `gives` chooses among the columns that leave side by side when some are there for the condition alone.
    """

    widths: tuple[int, int]
    keys: tuple[Vector, Vector]
    leaving: tuple[Vector, Vector]
    condition: Condition
    gives: Vector | None = None

    @property
    def width(self) -> int:
        """Return how many columns leave."""
        return len(self.leaving[0]) + len(self.leaving[1]) if self.gives is None else len(self.gives)


class JoinTuples:
    """A join. State: both sides, when it reads deltas."""

    def __init__(self, spec: JoinSpec) -> None:
        self.spec = spec
        self.bags = (Bag(spec.widths[0], spec.keys[0]), Bag(spec.widths[1], spec.keys[1]))
        """What is held of the left and the right side."""
        self.tested = 0
        """Pairs that were compared."""

    def delta(self, now_us: int, left: Tuples, right: Tuples) -> Tuples:
        """Return the pairs that come and go."""
        return self._one(self._changes(now_us, left, right, True), True)

    def complete(self, now_us: int, left: Tuples, right: Tuples) -> Tuples:
        """Return all pairs."""
        return self._one(self._pairs(left, right, True), False)

    def in_pieces(self, now_us: int, left: Tuples, right: Tuples) -> Iterator[Tuples]:
        """Yield the pairs, or those that come and go, as they are found; to be read to the end."""
        if left.signs is None:
            return self._pairs(left, right, False)
        return self._changes(now_us, left, right, False)

    def _changes(self, now_us: int, left: Tuples, right: Tuples, whole: bool) -> Iterator[Tuples]:
        """Yield the pairs that come and go, and bring both sides up to date."""
        a, b = self.bags
        a.expire(now_us)
        b.expire(now_us)
        left, right = valid(left, now_us), valid(right, now_us)
        of_left, of_right = hash_rows(left.rows, self.spec.keys[0]), hash_rows(right.rows, self.spec.keys[1])
        a.apply(left, of_left)
        yield from self._made_of(chain(self._probe(left, b, 1, of_left), self._probe(right, a, 0, of_right)), whole)
        # Pairs that were found point into what is held: they have been made by now.
        b.apply(right, of_right)

    def _pairs(self, left: Tuples, right: Tuples, whole: bool) -> Iterator[Tuples]:
        held = Bag(self.spec.widths[1], self.spec.keys[1])
        held.add(right)
        yield from self._made_of(self._probe(left, held, 1), whole)

    def _probe(self, probes: Tuples, held: Bag, side: int, hashes: Vector | None = None) -> Iterator[Found]:
        """Yield the pairs of some tuples with those held of a side, in pieces."""
        lefts, rights = self.spec.leaving
        for i, j, looked in held.pairs(probes, self.spec.keys[1 - side], hashes):
            self.tested += looked
            if len(i):
                inside = Tuples(held.rows, held.until)
                pairs = (probes, i, lefts, inside, j, rights) if side else (inside, j, lefts, probes, i, rights)
                yield pairs, None if probes.signs is None else probes.signs.take(i)

    def _one(self, made: Iterable[Tuples], signed: bool) -> Tuples:
        """Return what was made as one relation or delta, as far as there is room for it."""
        parts: list[Tuples] = []
        count = 0
        for part in made:
            parts.append(part)
            count += len(part)
            if len(parts) > 1:  # they are put together
                _check_pairs(count, self.spec.width)
        return together(parts) if parts else nothing(self.spec.width, signed)

    def _made_of(self, found: Iterable[Found], whole: bool) -> Iterator[Tuples]:
        """Yield pairs as they are found; `whole`: in one, but for those that are still to be tested."""
        if not whole or self.spec.condition:
            yield from (self._made([piece]) for piece in found)
            return
        pieces = []
        count = 0
        for piece in found:
            pieces.append(piece)
            count += len(piece[0][1])
            _check_pairs(count, self.spec.width)
        if pieces:
            yield self._made(pieces)

    def _made(self, pieces: Sequence[Found]) -> Tuples:
        """Return pairs that were found, of one side or of both, as tuples, as far as every condition is true."""
        pairs = side_by_side([piece[0] for piece in pieces])
        signs = [piece[1] for piece in pieces if piece[1] is not None]
        out = Tuples(pairs.rows, pairs.until, np.concatenate(signs) if signs else None)
        if self.spec.condition:
            out = out.where(self.spec.condition.holds(out.rows))
        if self.spec.gives is None:
            return out
        return Tuples(np.ascontiguousarray(out.rows[:, self.spec.gives]), out.until, out.signs)


def _check_pairs(count: int, width: int) -> None:
    check_room(8 * (width + 1) * count, "the pairs of a join")


class UnionTuples(ByRow):
    """The tuples of both sides. No state."""

    def __init__(self) -> None:
        self.tested = 0

    def complete(self, now_us: int, *sides: Tuples) -> Tuples:
        """Return the tuples of some sides."""
        return together(sides)

    def delta(self, now_us: int, *sides: Tuples) -> Tuples:
        """Return what came to some sides and went from them."""
        return together(sides)

    def in_pieces(self, now_us: int, *sides: Tuples) -> Iterator[Tuples]:
        """Yield a piece of a side, or both sides."""
        yield from sides
