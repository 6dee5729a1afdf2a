"""Join: pairs of tuples with equal keys for which further conditions are true.

deltas:    ΔA with what B held, then what A holds now with ΔB; both sides are held, by key
complete:  the right side is hashed, the left side looks its partners up; nothing is held
"""

from dataclasses import dataclass

import numpy as np

from midstream.operators.hopping.bag import Bag, side_by_side
from midstream.operators.hopping.rows import Condition
from midstream.operators.hopping.tuples import Tuples, Vector, nothing, together


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
        self.sides = (Bag(spec.widths[0], spec.keys[0]), Bag(spec.widths[1], spec.keys[1]))
        self.tested = 0
        """Pairs that were compared."""

    @property
    def bags(self) -> tuple[Bag, ...]:
        """Return what is held."""
        return self.sides

    def delta(self, now_us: int, left: Tuples, right: Tuples) -> Tuples:
        """Return the pairs that come and go."""
        a, b = self.sides
        a.expire(now_us)
        b.expire(now_us)
        left, right = valid(left, now_us), valid(right, now_us)
        out = self._probe(left, b, 1)
        a.apply(left)
        out += self._probe(right, a, 0)
        b.apply(right)
        return together(out) if out else nothing(self.spec.width, True)

    def complete(self, now_us: int, left: Tuples, right: Tuples) -> Tuples:
        """Return all pairs."""
        held = Bag(self.spec.widths[1], self.spec.keys[1])
        held.add(right)
        out = self._probe(left, held, 1)
        return together(out) if out else nothing(self.spec.width, False)

    def _probe(self, probes: Tuples, held: Bag, side: int) -> list[Tuples]:
        """Return the pairs of some tuples with those held of a side, in pieces."""
        spec, out = self.spec, []
        for i, j, looked in held.pairs(probes, spec.keys[1 - side]):
            self.tested += looked
            if not len(i):
                continue
            if side:
                pairs = side_by_side(probes, i, spec.leaving[0], held.rows, held.until, j, spec.leaving[1])
            else:
                other = Tuples(held.rows, held.until)
                pairs = side_by_side(other, j, spec.leaving[0], probes.rows, probes.until, i, spec.leaving[1])
            signs = None if probes.signs is None else probes.signs[i]
            pairs = Tuples(pairs.rows, pairs.until, signs)
            if spec.condition:
                pairs = pairs.where(spec.condition.holds(pairs.rows))
            if spec.gives is not None:
                pairs = Tuples(np.ascontiguousarray(pairs.rows[:, spec.gives]), pairs.until, pairs.signs)
            out.append(pairs)
        return out


def valid(delta: Tuples, now_us: int) -> Tuples:
    """Return a delta without what is over anyway."""
    if not len(delta) or int(delta.until.min()) >= now_us:
        return delta
    return delta.where(delta.until >= now_us)


class UnionTuples:
    """The tuples of both sides. No state."""

    def __init__(self) -> None:
        self.tested = 0

    def delta(self, now_us: int, left: Tuples, right: Tuples) -> Tuples:
        """Return what comes and goes on either side."""
        return together([left, right])

    def complete(self, now_us: int, left: Tuples, right: Tuples) -> Tuples:
        """Return both sides."""
        return together([left, right])
