"""Plan a graph: its parts first, then the order in which they are joined, then what is given of them.

    parts ──▶ conditions on one part ──▶ joins and anti-joins ──▶ projection ──▶ distinct

`places` says which other graphs give the same rows with differences elsewhere; of all of them the cheapest is kept,
one for each size that it may have, since what is above costs by size.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from midstream.model.statistics import Size
from midstream.optimize.hopping.assign_modes import Planned, Ways, assign_modes
from midstream.optimize.hopping.cost import Constants, conversion_cost, own_cost, read_cost
from midstream.optimize.hopping.estimate import Sizes
from midstream.optimize.hopping.graph import (
    Computed,
    Difference,
    Graph,
    GroupOf,
    Part,
    UnionOf,
    Without,
    alone,
    own_conjuncts,
)
from midstream.optimize.hopping.order_joins_with_modes import OrderJoins
from midstream.plan.algebra import Distinct, Except, Group, Project, Rel, Scan, Select, Union
from midstream.plan.expr import columns
from midstream.plan.modes import CICO, CIDO, DICO, DIDO
from midstream.plan.query import DELTA, Emit

Places = Callable[[Graph, bool], Iterable[Graph]]
"""Graphs that give the same rows as one; whether how often they give them does not matter."""


def as_it_is(graph: Graph, as_set: bool) -> Iterable[Graph]:
    """Leave every difference where it stands."""
    return (graph,)


@dataclass(frozen=True)
class PlannedGraph:
    """A graph with all differences in their places, and the cheapest trees for it."""

    graph: Graph
    size: Size
    ways: Ways


class PlanGraph:
    """The search for the cheapest trees of graphs."""

    def __init__(
        self, sizes: Sizes, constants: Constants, places: Places = as_it_is, deepest_antis: bool = False
    ) -> None:
        self.sizes, self.constants, self.places, self.deepest = sizes, constants, places, deepest_antis
        self._known: dict[tuple[Graph, bool, bool], list[PlannedGraph]] = {}

    def whole(self, graph: Graph, emit: Emit) -> Planned:
        """Return the cheapest plan of a whole query.

        A root that gives deltas also pays for their way out. With that the cheapest tree for deltas or the cheapest one
        for complete relations is the best: telling the change from deltas costs no more than keeping an answer and
        comparing it.
        """
        planned = self.graph(graph)
        if emit != DELTA:
            return min((p.ways["C"] for p in planned), key=lambda p: p.cost)
        trees = {id(rel): rel for p in planned for rel in (p.ways["D"].rel, p.ways["C"].rel)}
        assigned = [assign_modes(rel, emit, self.sizes, self.constants) for rel in trees.values()]
        return min(assigned, key=lambda p: p.cost)

    def graph(self, graph: Graph, ordered: bool = True, as_set: bool = False) -> list[PlannedGraph]:
        """Return the cheapest plans of a graph. `ordered`: its columns are read by position."""
        key = (graph, ordered, as_set)
        if key not in self._known:
            self._known[key] = self._graph(graph, ordered, as_set)
        return self._known[key]

    def _graph(self, graph: Graph, ordered: bool, as_set: bool) -> list[PlannedGraph]:
        found: dict[_Kind, PlannedGraph] = {}
        for placed in self.places(graph, as_set):
            set_here = as_set or placed.distinct
            parts = [self.part(p, set_here) for p in placed.parts]
            rights = [self.graph(a.right, ordered=False, as_set=True) for a in placed.antis]
            for chosen in product(*parts):
                for right in product(*rights):
                    _keep(found, self._planned(placed, chosen, right, ordered))
        return list(found.values())

    def _planned(
        self, graph: Graph, parts: Sequence[PlannedGraph], rights: Sequence[PlannedGraph], ordered: bool
    ) -> PlannedGraph:
        antis = tuple(Without(r.graph, a.conjuncts) for r, a in zip(rights, graph.antis, strict=True))
        graph = replace(graph, parts=tuple(p.graph.parts[0] for p in parts), antis=antis)
        narrow = narrowed(graph) if ordered or graph.distinct else None
        if narrow is not None:
            parts = [self._alone(narrow, {give: replace(way, rel=narrow) for give, way in parts[0].ways.items()})]
            graph = replace(graph, parts=(narrow,))
        inside = replace(graph, distinct=False)
        size = self.sizes.graph(inside)
        planned = PlannedGraph(inside, size, self._joined(graph, parts, rights))
        if narrow is None and projects(graph, ordered):
            planned = replace(planned, ways=self._over([planned], size, partial(Project, outputs=graph.outputs)))
        if graph.distinct and not is_set(graph):
            whole = self.sizes.graph(graph)
            return PlannedGraph(graph, whole, self._over([planned], whole, Distinct))
        return planned

    def _joined(self, graph: Graph, parts: Sequence[PlannedGraph], rights: Sequence[PlannedGraph]) -> Ways:
        filtered: list[tuple[Size, Ways]] = []
        for number, planned in enumerate(parts):
            own = own_conjuncts(graph, number)
            fewer = self.sizes.filtered(graph.parts[number], own)
            ways = self._over([planned], fewer, partial(Select, conjuncts=tuple(own))) if own else planned.ways
            filtered.append((fewer, ways))
        right = [(r.size, r.ways) for r in rights]
        return OrderJoins(graph, filtered, right, self.sizes, self.constants, self.deepest).ways()

    def part(self, part: Part, as_set: bool) -> list[PlannedGraph]:
        """Return the cheapest plans of a part, each as a graph of it alone."""
        make: Callable[..., Rel]
        match part:
            case Scan():
                size = self.sizes.part(part)
                costs = {give: read_cost(give == "D", size, self.constants).total for give in "DC"}
                return [self._alone(part, {give: Planned(c, part, ()) for give, c in costs.items()})]
            case Computed(graph):
                return [self._alone(Computed(g.graph), g.ways) for g in self.graph(graph, False)]
            case Graph():
                return [self._alone(_as_part(g.graph), g.ways) for g in self.graph(part, False, as_set)]
            case GroupOf(child):
                make = partial(Group, alias=part.alias, keys=part.keys, aggregates=part.aggregates)
                return [self._made(replace(part, child=g.graph), make, g) for g in self.graph(child, ordered=False)]
            case UnionOf(left, right):
                make = partial(Union, columns=part.columns)
                sides = product(self.graph(left, True, as_set), self.graph(right, True, as_set))
            case Difference(left, right, all_):
                make = partial(Except, all=all_)
                sides = product(self.graph(left, True, not all_), self.graph(right, True, not all_))
        found: dict[_Kind, PlannedGraph] = {}
        for a, b in sides:
            _keep(found, self._made(replace(part, left=a.graph, right=b.graph), make, a, b))
        return list(found.values())

    def _alone(self, part: Part, ways: Ways) -> PlannedGraph:
        return PlannedGraph(alone(part), self.sizes.part(part), ways)

    def _made(self, part: Part, make: Callable[..., Rel], *below: PlannedGraph) -> PlannedGraph:
        """Return a part that is made by an operator over planned graphs."""
        return self._alone(part, self._over(below, self.sizes.part(part), make))

    def _over(self, below: Sequence[PlannedGraph], out: Size, make: Callable[..., Rel]) -> Ways:
        """Return the cheapest modes of an operator over what gives the cheapest of either kind."""
        sizes = [planned.size for planned in below]
        found: Ways = {}
        for reads_, modes in (("D", (DIDO, DICO)), ("C", (CICO, CIDO))):
            chosen = [planned.ways[reads_] for planned in below]
            rel = make(*(p.rel for p in chosen))
            own = own_cost(rel, reads_ == "D", sizes, out, self.sizes, self.constants).total
            for mode in modes:
                total = own + conversion_cost(mode, out, self.constants).total + sum(p.cost for p in chosen)
                if mode[2] not in found or total < found[mode[2]].cost:
                    found[mode[2]] = Planned(total, rel, (*(m for p in chosen for m in p.modes), mode))
        return found


_Kind = tuple[bool, float, float, float, float]
"""What matters of a plan to those above it: its size, and whether it is a difference, into which conditions go."""


def _keep(found: dict[_Kind, PlannedGraph], planned: PlannedGraph) -> None:
    """Keep the cheapest tree of either kind of output among those that are the same to whoever reads them."""
    size = planned.size
    rows, coming, back, over = (float(f"{x:.9e}") for x in (size.complete, size.positive, size.negative, size.matured))
    key = (isinstance(_as_part(planned.graph), Difference), rows, coming, back, over)
    other = found.get(key)
    if other is not None:
        cheapest = {give: min(other.ways[give], planned.ways[give], key=lambda p: p.cost) for give in "DC"}
        planned = replace(other, ways=cheapest)
    found[key] = planned


def _as_part(graph: Graph) -> Part:
    """Return the part that a graph is, when it need not be made a set."""
    first = graph.parts[0]
    return first if graph == alone(first) else graph


def narrowed(graph: Graph) -> Scan | None:
    """Return a graph's only scan with the columns that are given, in their order, when a scan can do just that."""
    part = graph.parts[0]
    if len(graph.parts) != 1 or not isinstance(part, Scan):
        return None
    given = graph.columns
    plain = all(c == e for c, e in graph.outputs) and len(set(given)) == len(given)
    asked = [*graph.conjuncts, *(c for a in graph.antis for c in a.conjuncts)]
    own = set(part.columns)
    if not plain or any(c in own and c not in given for e in asked for c in columns(e)):
        return None
    return Scan(part.source, given)


def projects(graph: Graph, ordered: bool) -> bool:
    """Tell whether a graph needs a projection on top: its columns are others, or may be in another order."""
    if any(c != e for c, e in graph.outputs):
        return True
    available = tuple(c for p in graph.parts for c in p.columns)
    if ordered:
        return len(graph.parts) > 1 or graph.columns != available
    return graph.distinct and set(graph.columns) != set(available)


def is_set(graph: Graph) -> bool:
    """Tell whether a graph gives every row once without being made a set: all columns of a part that does."""
    part = graph.parts[0]
    sets = isinstance(part, Graph) or (isinstance(part, Difference) and not part.all)
    return len(graph.parts) == 1 and sets and set(part.columns) <= {e for _, e in graph.outputs}
