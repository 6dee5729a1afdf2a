"""Candidates: of everything that gives the same rows, the cheapest way to give a delta and the cheapest to give all.

Costs come first and trees last: a step knows how to make its operator; those of the steps in the best plan are made.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from midstream.model.statistics import Size
from midstream.optimize.hopping.assign_modes import Planned
from midstream.optimize.hopping.cost import (
    ANTI,
    JOIN,
    Constants,
    anti_cost,
    by_tuple_cost,
    conversion_cost,
    join_cost,
    step_cost,
)
from midstream.optimize.hopping.estimate import Sizes, sized
from midstream.plan.algebra import Rel
from midstream.plan.modes import MODES, TUPLE, WINDOW

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Step:
    """An operator over others, or a scan, and what it costs per hop with all that is below it."""

    cost: float
    make: Callable[..., Rel]
    below: tuple["Step", ...] = ()
    mode: str = ""

    def planned(self) -> Planned:
        """Make the tree."""
        below = [step.planned() for step in self.below]
        modes = tuple(m for p in below for m in p.modes)
        return Planned(self.cost, self.make(*(p.rel for p in below)), (*modes, self.mode) if self.mode else modes)


Ways = dict[str, Step]
"""The cheapest step that gives a delta ("D") and the cheapest that gives the complete relation ("C")."""


@dataclass(frozen=True)
class Candidate:
    """Rows of a size, and the cheapest steps that give them."""

    size: Size
    ways: Ways

    @property
    def least(self) -> float:
        """Return what it costs at least."""
        return min(step.cost for step in self.ways.values())


def keep(found: dict[K, Candidate], kind: K, candidate: Candidate) -> None:
    """Keep the cheapest steps among candidates that are the same to whoever reads them."""
    other = found.get(kind)
    if other is not None:
        cheapest = {g: min(other.ways[g], candidate.ways[g], key=lambda s: s.cost) for g in "DC"}
        candidate = Candidate(other.size, cheapest)
    found[kind] = candidate


Kind = tuple[float, float, float, float]
"""How rows differ in number from those of the graph as it is, where something in it was moved: all rows, and the parts
that are old, have not matured and stay, as factors. What is above costs by size, so that one of each is kept."""
PLAIN: Kind = (1.0, 1.0, 1.0, 1.0)


def kind_of(size: Size, plain: Size) -> Kind:
    """Return the factors from one size to another."""
    pairs = ((size.complete, plain.complete), (size.old, plain.old))
    more = ((size.unmatured, plain.unmatured), (size.staying, plain.staying))
    a, b, c, d = (rounded(x / y) if y else 1.0 for x, y in (*pairs, *more))
    return a, b, c, d


def times(a: Kind, b: Kind) -> Kind:
    """Return the factors of two sizes multiplied."""
    if a == PLAIN or b == PLAIN:
        return b if a == PLAIN else a
    return rounded(a[0] * b[0]), rounded(a[1] * b[1]), rounded(a[2] * b[2]), rounded(a[3] * b[3])


def scaled(size: Size, kind: Kind) -> Size:
    """Return a size with factors."""
    if kind == PLAIN:
        return size
    old, unmatured, staying = size.old * kind[1], size.unmatured * kind[2], size.staying * kind[3]
    return sized(size.complete * kind[0], old, unmatured, staying, size.distinct)


def rounded(number: float) -> float:
    """Return a number without the last digits, in which the same sizes differ."""
    return float(f"{number:.9e}")


@dataclass(frozen=True)
class Pricing:
    """What operators cost: how large their inputs are, how long a step takes, whether they work by window or tuple."""

    sizes: Sizes
    constants: Constants
    working: str = WINDOW

    def over(
        self, name: str, below: Sequence[Candidate], out: Size, make: Callable[..., Rel], count: int = 1
    ) -> Candidate:
        """Return an operator that is no join, by what it is called, over candidates, in its cheapest modes."""
        c, sizes = self.constants.of(name), [b.size for b in below]
        own = {give: step_cost(name, give == "D", sizes, out, c, count).total for give in "DC"}
        own["D"] += self.by_tuple(name, sizes, out)
        best = Best(out, self.constants)
        best.offer(own, [b.ways for b in below], make)
        return Candidate(out, best.ways)

    def join(self, a: Size, b: Size, out: Size, tests: int, passed: float) -> tuple[dict[str, float], bool]:
        """Return what a join costs that reads deltas or complete relations; whether it makes a table of the left one.

        Of complete relations the one is put into a table that is cheaper there; with deltas both are.
        """
        c = self.constants.of(JOIN)
        delta, plain, turned = (
            join_cost(delta, x, y, out, tests, passed, c).total
            for delta, x, y in ((True, a, b), (False, a, b), (False, b, a))
        )
        return {"D": delta + self.by_tuple(JOIN, (a, b), out), "C": min(plain, turned)}, turned < plain

    def read_by_join(self, size: Size) -> float:
        """Return what it costs at least to join rows, or to leave some of them out by an anti-join."""
        none = Size(0.0, 0.0, 0.0, 0.0)
        joined = self.join(size, none, none, 0, 1.0)[0].values()
        c = self.constants.of(ANTI)
        return min(*joined, *(anti_cost(delta, size, none, none, 0, 0.0, c).total for delta in (True, False)))

    def by_tuple(self, name: str, below: Sequence[Size], out: Size) -> float:
        """Return what reading deltas costs more when every tuple is worked on as it comes."""
        return by_tuple_cost(name, below, out, self.constants.of(name)).total if self.working == TUPLE else 0.0


class Best:
    """The cheapest steps so far that give rows of a size."""

    def __init__(self, size: Size, constants: Constants) -> None:
        self.size, self.ways = size, Ways()
        self._convert = [(m, m[0], m[2], conversion_cost(m, size, constants).total) for m in MODES]

    def offer(self, own: Mapping[str, float], below: Sequence[Ways], make: Callable[..., Rel]) -> None:
        """Keep an operator in each mode in which it is the cheapest."""
        for mode, reads, gives, convert in self._convert:
            total = own[reads] + convert
            for ways in below:
                total += ways[reads].cost
            if gives not in self.ways or total < self.ways[gives].cost:
                self.ways[gives] = Step(total, make, tuple(ways[reads] for ways in below), mode)
