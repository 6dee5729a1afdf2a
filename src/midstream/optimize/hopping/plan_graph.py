"""Plan a graph: its parts first, then the order in which they are joined, then what is given of them.

    parts ──▶ conditions on one part ──▶ joins and anti-joins ──▶ projection ──▶ distinct

Conditions on a difference, a set or a projection are tested above or inside, a projection right above a difference or
a set is done above or below, whatever is cheaper. Whether differences are placed, too, is up to whoever asks.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from math import inf

from midstream.model.statistics import Size
from midstream.optimize.hopping.assign_modes import Planned, assign_modes
from midstream.optimize.hopping.candidates import Candidate, Kind, Pricing, Step, keep, kind_of, rounded, scaled
from midstream.optimize.hopping.cost import (
    DIFFERENCE,
    DIFFERENCE_OF_BAGS,
    DISTINCT,
    GROUP,
    GROUP_ANEW,
    PROJECT,
    SELECT,
    UNION,
    read_cost,
)
from midstream.optimize.hopping.estimate import graphs_in, projected
from midstream.optimize.hopping.graph import (
    Difference,
    Graph,
    GroupOf,
    Outputs,
    Part,
    UnionOf,
    alone,
    own_conjuncts,
    reads,
)
from midstream.optimize.hopping.join_order import JoinOrder
from midstream.optimize.hopping.order_joins_with_modes import OrderJoins
from midstream.optimize.hopping.plain_names import rename_below
from midstream.optimize.hopping.pull_difference import project_below
from midstream.optimize.hopping.select_below import select_below
from midstream.optimize.search import bits_of, members
from midstream.plan.algebra import Distinct, Except, Group, Project, Rel, Scan, Select, Union
from midstream.plan.expr import Expr, columns
from midstream.plan.query import DELTA, Emit


class PlanGraph:
    """The search for the cheapest trees of graphs, every difference where it stands.

    What costs more than `limit` is left out. `said`: streams are joined in that order.
    """

    def __init__(
        self, price: Pricing, deepest_antis: bool = False, limit: float = inf, said: JoinOrder | None = None
    ) -> None:
        self.price, self.sizes, self.deepest, self.limit, self.said = price, price.sizes, deepest_antis, limit, said
        self._graphs: dict[tuple[Graph, bool, bool], list[Candidate]] = {}
        self._orders: dict[tuple[Graph, bool], OrderJoins] = {}
        self._parts: dict[tuple[Part, bool], list[Candidate]] = {}

    def whole(self, graph: Graph, emit: Emit) -> list[Planned]:
        """Return plans of a whole query, the cheapest among them; none, if they cost more than the limit.

        A root that gives deltas also pays for their way out. With that the cheapest tree for deltas or the cheapest one
        for complete relations is the best: telling the change from deltas costs no more than keeping an answer and
        comparing it.
        """
        found = self.graph(graph)
        if emit == DELTA:
            steps = [c.ways[give] for c in found for give in "DC"]
        else:
            steps = [min((c.ways["C"] for c in found), key=lambda step: step.cost)] if found else []
        sizes, constants, working = self.sizes, self.price.constants, self.price.working
        return [assign_modes(step.planned().rel, emit, sizes, constants, working) for step in steps]

    def graph(self, graph: Graph, ordered: bool = True, as_set: bool = False) -> list[Candidate]:
        """Return the cheapest trees of a graph. `ordered`: its columns are read by position."""
        key = (graph, ordered, as_set)
        if key not in self._graphs:
            forms = _forms(graph, as_set)
            self._graphs[key] = different(c for form in forms for c in self._form(form, ordered, as_set))
        return self._graphs[key]

    def _form(self, graph: Graph, ordered: bool, as_set: bool) -> Iterable[Candidate]:
        every = (1 << len(graph.parts)) - 1, (1 << len(graph.antis)) - 1
        narrow = narrowed(graph) if ordered or graph.distinct else None
        if narrow is not None:
            graph = replace(graph, parts=(narrow,))
        order = self.order(graph, as_set or graph.distinct)
        if len(graph.parts) > 1:
            return self.given(order, *every, graph.outputs, ordered, graph.distinct)
        return [self.finished(graph, candidate, ordered) for candidate in order.found(*every).values()]

    def order(self, graph: Graph, as_set: bool) -> OrderJoins:
        """Return the search for trees of the parts of a graph, the same for graphs that give something else of them."""
        graph = replace(graph, outputs=(), distinct=False)
        if (graph, as_set) not in self._orders:
            own = [own_conjuncts(graph, number) for number in range(len(graph.parts))]
            parts = [self._filtered(p, c, as_set) for p, c in zip(graph.parts, own, strict=True)]
            sizes = [self.sizes.filtered(p, c) for p, c in zip(graph.parts, own, strict=True)]
            rights = [self.graph(a.right, ordered=False, as_set=True) for a in graph.antis]
            order = OrderJoins(graph, parts, sizes, rights, self.price, self.deepest, self.limit, self.said)
            self._orders[graph, as_set] = order
        return self._orders[graph, as_set]

    def given(
        self, order: OrderJoins, parts: int, done: int, outputs: Outputs, ordered: bool, distinct: bool = False
    ) -> list[Candidate]:
        """Return the cheapest trees of what is given of some parts, with anti-joins done."""
        graph = restricted(order.graph, parts, done, outputs, distinct)
        return different(self.finished(graph, c, ordered) for c in order.found(parts, done).values())

    def finished(self, graph: Graph, joined: Candidate, ordered: bool) -> Candidate:
        """Return what is given of a graph whose parts are joined."""
        size = projected(joined.size, graph.outputs)
        made = Candidate(size, joined.ways)
        if projects(graph, ordered):
            made = self.price.over(PROJECT, [joined], size, partial(Project, outputs=graph.outputs))
        if graph.distinct and not is_set(graph):
            made = self.price.over(DISTINCT, [made], self.sizes.as_set(size, graph), Distinct)
        return made

    def _filtered(self, part: Part, own: list[Expr], as_set: bool) -> dict[Kind, Candidate]:
        """Return the cheapest trees of a part under conditions on it alone, tested above it or inside."""
        fewer = self.sizes.filtered(part, own)
        forms = [(part, tuple(own))]
        inside = select_below(replace(alone(part), conjuncts=tuple(own)), 0) if own else None
        if inside is not None:
            forms.append((inside.parts[0], inside.conjuncts))
        found: dict[Kind, Candidate] = {}
        for form, rest in forms:
            for made in self.part(form, as_set):
                kind = kind_of(made.size, self.sizes.part(form))
                keep(found, kind, self.select(made, rest, scaled(fewer, kind)))
        return found

    def select(self, made: Candidate, conjuncts: tuple[Expr, ...], fewer: Size) -> Candidate:
        """Return rows under conditions, of which there may be none."""
        if not conjuncts:
            return Candidate(fewer, made.ways)
        return self.price.over(SELECT, [made], fewer, partial(Select, conjuncts=conjuncts), len(conjuncts))

    def part(self, part: Part, as_set: bool) -> list[Candidate]:
        """Return the cheapest trees of a part."""
        if (part, as_set) not in self._parts:
            self._parts[part, as_set] = different(self._made(part, as_set))
        return self._parts[part, as_set]

    def _made(self, part: Part, as_set: bool) -> Iterator[Candidate]:
        make: Callable[..., Rel]
        count, ordered = 1, False
        match part:
            case Scan():
                size = self.sizes.part(part)
                costs = {give: read_cost(give == "D", size, self.price.constants).total for give in "DC"}
                yield Candidate(size, {give: Step(cost, lambda: part) for give, cost in costs.items()})
                return
            case GroupOf(_, alias, keys, aggregates):
                name = GROUP if all(a.exact for a in aggregates) else GROUP_ANEW
                count, as_set = len(aggregates), False
                make = partial(Group, alias=alias, keys=keys, aggregates=aggregates)
            case UnionOf():
                name, ordered, make = UNION, True, partial(Union, columns=part.columns)
            case Difference(all=all_):
                name, ordered, as_set = DIFFERENCE_OF_BAGS if all_ else DIFFERENCE, True, not all_
                make = partial(Except, all=all_)
            case Graph():
                yield from self.graph(part, False, as_set)
                return
            case _:
                yield from self.graph(part.graph, False)
                return
        for below in product(*(self.graph(g, ordered, as_set) for g in graphs_in(part))):
            yield self.price.over(name, below, self.sizes.made(part, *(b.size for b in below)), make, count)


def _forms(graph: Graph, as_set: bool) -> list[Graph]:
    """Return a graph in all forms: of one part, conditions inside it, a projection or a renaming below it."""
    forms = [graph]
    for form in forms if len(graph.parts) == 1 else ():
        others = (select_below(form, 0), project_below(form, as_set), rename_below(form))
        forms += [g for g in others if g is not None and g not in forms]
    return forms


def different(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the cheapest of those that have the same size."""
    found: dict[tuple[float, ...], Candidate] = {}
    for c in candidates:
        size = c.size
        keep(found, tuple(map(rounded, (size.complete, size.positive, size.negative, size.matured))), c)
    return list(found.values())


def restricted(graph: Graph, parts: int, done: int, outputs: Outputs, distinct: bool = False) -> Graph:
    """Return what is given of some parts of a graph; conditions on nothing are on the first one."""
    owners = graph.owners()
    conjuncts = (c for c in graph.conjuncts if not (bits_of(reads(owners, [c])) or 1) & ~parts)
    antis = tuple(graph.antis[k] for k in members(done))
    return Graph(outputs, tuple(graph.parts[i] for i in members(parts)), tuple(conjuncts), antis, distinct)


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
