"""Place differences: every legal position of every difference, each with the best join order and modes (DiffDP).

From the graph with all differences pushed down, parts are moved into both sides of a difference, in every combination,
and the same again inside the sides:

    {D, s, t, ...}   ◀── joins of smaller sets
                     ◀── (L ⋈ s ⋈ t) EXCEPT (R ⋈ s' ⋈ t')       D = L EXCEPT R

Both are ways to give the same set of parts, so that it is looked at once, whatever is joined with it further up; and
one search for trees of L and all other parts knows those of L and some of them, whatever the difference is above. What
costs more than the best plan with all differences pushed down is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import inf

from midstream.model.statistics import Size
from midstream.optimize.hopping.candidates import Candidate, Pricing
from midstream.optimize.hopping.cost import DIFFERENCE, DIFFERENCE_OF_BAGS
from midstream.optimize.hopping.estimate import graphs_in, projected, taken_back
from midstream.optimize.hopping.fresh import Fresh
from midstream.optimize.hopping.graph import Difference, Graph, Outputs, own_conjuncts, reads
from midstream.optimize.hopping.order_joins_with_modes import OrderJoins
from midstream.optimize.hopping.plan_graph import PlanGraph, different, restricted
from midstream.optimize.hopping.pull_difference import Move, project_below, pull_difference
from midstream.optimize.hopping.push_difference import twin
from midstream.optimize.search import bits_of, members
from midstream.plan.algebra import Except
from midstream.plan.expr import Expr

MOST_JOINS = 40_000
"""Joins whose cost is computed, about two seconds' work; from then on differences stay where they are."""


class PlaceDifferences(PlanGraph):
    """The search for the cheapest trees of graphs, every difference where it is cheapest.

    Counts the positions of differences it has looked at, and those it has left out for want of time.
    """

    def __init__(self, price: Pricing, fresh: Fresh, limit: float = inf) -> None:
        super().__init__(price, limit=limit)
        self.fresh = fresh
        self.looked_at = self.left_out = 0
        self._pulls: dict[int, PullDifferences] = {}

    def order(self, graph: Graph, as_set: bool) -> OrderJoins:
        """Return the search for trees of the parts of a graph, differences among them above others."""
        order = super().order(graph, as_set)
        if id(order) not in self._pulls:
            order.pulled = self._pulls[id(order)] = PullDifferences(self, order, as_set)
            if order.greedy:
                # Only sets that are joined are looked at, of all that hold a difference.
                others = (1 << len(graph.parts) - 1) - len(graph.parts)
                self.left_out += others * sum(isinstance(p, Difference) for p in graph.parts)
        return order

    def given(
        self, order: OrderJoins, parts: int, done: int, outputs: Outputs, ordered: bool, distinct: bool = False
    ) -> list[Candidate]:
        """Return the cheapest trees of what is given of some parts; a difference above all others needs less on top."""
        pulls, graph = self._pulls[id(order)], restricted(order.graph, parts, done, outputs, distinct)
        if len(graph.parts) == 1:
            return self.graph(graph, ordered, pulls.as_set)
        found = []
        for (_, above), candidate in order.found(parts, done).items():
            placed = graph if not above else pulls.placed(above - 1, False, parts, 0, graph)
            found.append(self.finished(placed, candidate, ordered))
        return different([*found, *pulls.projected_below(parts, done, graph, ordered)])

    @property
    def joins(self) -> int:
        """Return of how many joins the cost was computed."""
        return sum(order.joins for order in self._orders.values())

    def goes_on(self) -> bool:
        """Count a position; tell whether there is time to look at it."""
        over = self.joins >= MOST_JOINS
        self.looked_at, self.left_out = self.looked_at + (not over), self.left_out + over
        return not over


@dataclass(frozen=True)
class _Side:
    """One side of a difference with all other parts of the graph inside, of which some are asked for."""

    order: OrderJoins
    outputs: Outputs
    """What it gives without any of them."""
    first: int
    """Its own parts."""
    antis: int
    """Its own anti-joins."""

    def some(self, places: list[int], antis: list[int]) -> tuple[int, int, Outputs]:
        """Return its own parts and those at some places, all its anti-joins and some more, and what these give."""
        parts = (1 << self.first) - 1 | bits_of(self.first + p for p in places)
        done = (1 << self.antis) - 1 | bits_of(self.antis + k for k in antis)
        more = (c for p in places for c in self.order.graph.parts[self.first + p].columns)
        return parts, done, (*self.outputs, *((c, c) for c in more))


class PullDifferences:
    """The differences of a graph above other parts of it."""

    def __init__(self, plan: PlaceDifferences, order: OrderJoins, as_set: bool) -> None:
        self.plan, self.order, self.as_set, self.graph = plan, order, as_set, order.graph
        owners = self.graph.owners()
        self._read = [bits_of(reads(owners, a.conjuncts)) for a in self.graph.antis]
        self._filters = [
            [c for c in self.graph.conjuncts if reads(owners, [c]) == {n}] for n in range(len(self.graph.parts))
        ]
        self._sides: dict[tuple[int, bool], tuple[_Side, _Side]] = {}
        self._shared: dict[int, bool] = {}

    def __call__(self, parts: int, done: int) -> Iterator[tuple[int, Candidate]]:
        """Yield each difference above all other parts of a set, anti-joins done below it on both sides."""
        for number, difference, filters in self._positions(parts, done):
            if not self.plan.goes_on():
                continue
            above = self._above(number, filters)
            sides = self._some(number, filters, parts, done)
            size, fewer = self._sizes_of(number, difference, filters, parts, done)
            for a, b in product(*(self.plan.given(side.order, *some, True) for side, some in sides)):
                yield number, self.plan.select(self._over(difference, a, b, size), above, fewer)

    def _sizes_of(self, number: int, difference: Difference, filters: bool, parts: int, done: int) -> tuple[Size, Size]:
        """Return the sizes of a difference above all other parts of a set, and of it under the conditions above it.

        Of bags that is the size of the join with the difference where it stands, unless what its sides share can be
        taken out from here; a set has fewer rows than that.
        """
        above, sizes = self._above(number, filters), self.plan.sizes
        if not difference.all or self._shares(number):
            (pulled,) = self.placed(number, filters, parts, done, self.graph).parts
            return sizes.part(pulled), sizes.filtered(pulled, above)
        own = list(self.order.own)
        if above:
            own[number] = sizes.filtered(difference, self._filters[number] if filters else [])
        return taken_back(self.order.block(parts, done, own)), taken_back(self.order.size(parts, done))

    def _shares(self, number: int) -> bool:
        """Tell whether the sides of a difference have something in common."""
        if number not in self._shared:
            left, right = (side.parts for side in graphs_in(self.graph.parts[number]))
            self._shared[number] = any(twin(a, b) is not None for a in left for b in right)
        return self._shared[number]

    def projected_below(self, parts: int, done: int, graph: Graph, ordered: bool) -> Iterator[Candidate]:
        """Yield differences above all other parts of a set, what is given of it computed on both sides."""
        for number, difference, filters in self._positions(parts, done):
            below = project_below(self.placed(number, filters, parts, done, graph), self.as_set)
            if below is None or self._above(number, filters):
                continue
            (part,) = below.parts
            assert isinstance(part, Difference), "a difference with a projection below it is one"
            sides = self._some(number, filters, parts, done)
            outputs = (part.left.outputs, part.right.outputs)
            given = [self.plan.given(s.order, *some[:2], o, True) for (s, some), o in zip(sides, outputs, strict=True)]
            size = taken_back(projected(self.order.size(parts, done), graph.outputs))
            size = self.plan.sizes.part(part) if not difference.all or self._shares(number) else size
            for a, b in product(*given):
                yield self.plan.finished(below, self._over(difference, a, b, size), ordered)

    def placed(self, number: int, filters: bool, parts: int, done: int, graph: Graph) -> Graph:
        """Return a graph of a set of parts with a difference above all others, and nothing above that."""
        difference = self.graph.parts[number]
        assert isinstance(difference, Difference), "only differences are pulled"
        left, right = (restricted(s.order.graph, *some) for s, some in self._some(number, filters, parts, done))
        core = frozenset(difference.columns) if difference.core is None else difference.core
        pulled = Difference(left, right, difference.all, core)
        return replace(graph, parts=(pulled,), conjuncts=(), antis=())

    def _positions(self, parts: int, done: int) -> Iterator[tuple[int, Difference, bool]]:
        """Yield the differences that may stand above all else in a set, with the conditions on them above or below."""
        for number in members(parts):
            part = self.graph.parts[number]
            inside = parts ^ 1 << number
            legal = all(self._read[k] and not self._read[k] & ~inside for k in members(done))
            if isinstance(part, Difference) and (part.all or self.as_set) and legal:
                for filters in (False, True) if self._filters[number] else (False,):
                    yield number, part, filters

    def _above(self, number: int, filters: bool) -> tuple[Expr, ...]:
        """Return the conditions on a difference that stay above it."""
        inside = self._filters[number] if filters else []
        return tuple(c for c in own_conjuncts(self.graph, number) if c not in inside)

    def _over(self, difference: Difference, a: Candidate, b: Candidate, size: Size) -> Candidate:
        name = DIFFERENCE_OF_BAGS if difference.all else DIFFERENCE
        return self.plan.price.over(name, [a, b], size, partial(Except, all=difference.all))

    def _some(self, number: int, filters: bool, parts: int, done: int) -> list[tuple[_Side, tuple[int, int, Outputs]]]:
        """Return the sides of a difference above a set, and which parts, anti-joins and columns of them."""
        others = [i for i in range(len(self.graph.parts)) if i != number]
        movable = [k for k, read in enumerate(self._read) if read and not read >> number & 1]
        if (number, filters) not in self._sides:
            move = Move(number, frozenset(others), frozenset(movable), filters)
            whole = pull_difference(self.graph, move, self.plan.fresh, as_set=True)
            assert whole is not None, "everything goes below a difference, as a set"
            (pulled,) = whole.parts
            assert isinstance(pulled, Difference), "it was one before"
            left, right = (
                _Side(
                    self.plan.order(side, not pulled.all),
                    side.outputs[: len(self.graph.parts[number].columns)],
                    len(side.parts) - len(others),
                    len(side.antis) - len(movable),
                )
                for side in (pulled.left, pulled.right)
            )
            self._sides[number, filters] = (left, right)
        places = [n for n, i in enumerate(others) if parts >> i & 1]
        antis = [n for n, k in enumerate(movable) if done >> k & 1]
        return [(side, side.some(places, antis)) for side in self._sides[number, filters]]
