"""Choose the plan of a hopping query, and say what a plan costs."""

from midstream.model.errors import PlanError
from midstream.model.statistics import Size, Statistics
from midstream.optimize.hopping.assign_modes import Planned, assign_modes
from midstream.optimize.hopping.candidates import Pricing
from midstream.optimize.hopping.cost import Constants, Cost, cost
from midstream.optimize.hopping.estimate import Sizes
from midstream.optimize.hopping.fresh import Fresh, aliases_in
from midstream.optimize.hopping.graph import graph_of
from midstream.optimize.hopping.join_order import JoinOrder
from midstream.optimize.hopping.place_differences import PlaceDifferences
from midstream.optimize.hopping.plan_graph import PlanGraph
from midstream.optimize.hopping.push_difference import push_differences
from midstream.optimize.hopping.push_down import push_down
from midstream.plan.algebra import Rel, operators
from midstream.plan.modes import CICO, CIDO, DICO, DIDO, WINDOW
from midstream.plan.plan import Plan
from midstream.plan.query import DELTA, Emit, Query
from midstream.plan.spec import is_order
from midstream.plan.tree import parse_tree

SHAPES = ("optimal", "push-down", "as-written")
MOST_WAYS = 3
"""Ways to push differences down from which places are looked for."""


def choose(
    query: Query,
    statistics: Statistics | None = None,
    constants: Constants | None = None,
    shape: str = "optimal",
    modes: str | tuple[str, ...] = "auto",
    working: str = WINDOW,
) -> Plan:
    """Return the plan of a query whose operators all work in one way, by window or by tuple.

    `shape`: "optimal" is the cheapest of all positions of differences, join orders and modes; "push-down" has the
    differences at the bottom; "as-written" is the query's own tree; `((a b) c)` a join order. `modes`: "auto" are
    the cheapest; "delta" and "complete" are the same for all operators, but for the root, which gives what the
    query emits; or one for each operator, in the order of `operators`.
    """
    if shape not in SHAPES and not is_order(shape):
        raise PlanError(f"there is no plan shape {shape!r}; the shapes are {', '.join(SHAPES)}")
    if isinstance(modes, str) and modes not in ("auto", "delta", "complete"):
        raise PlanError(f"there are no modes {modes!r}; they are auto, delta, complete, or one for each operator")
    sizes = Sizes.of_query(query, statistics or Statistics())
    best = _shaped(query, shape, sizes, constants or Constants(), working)
    asked = best.modes
    if modes != "auto":
        asked = same_modes(best.rel, modes, query.emit) if isinstance(modes, str) else modes
    return Plan(query, best.rel, asked, (working,) * len(asked))


def _shaped(query: Query, shape: str, sizes: Sizes, constants: Constants, working: str) -> Planned:
    root, emit = query.root, query.emit
    written = assign_modes(root, emit, sizes, constants, working)
    if shape == "as-written":
        return written
    if is_order(shape):
        return ordered(query, shape, Pricing(sizes, constants, working))
    if shape == "push-down":
        return push_down(root, emit, sizes, constants, working=working)
    # The tree as it is written may do without a projection that restores the order of columns.
    return min(written, optimal(root, emit, sizes, constants, working), key=lambda planned: planned.cost)


def ordered(query: Query, order: str, price: Pricing) -> Planned:
    """Return the cheapest plan that joins streams in an order."""
    graph = graph_of(query.root)
    try:
        said = JoinOrder(parse_tree(order, query.aliases))
        said.check(graph)
    except PlanError as error:
        raise PlanError(f"'{order}' is no shape of a hopping plan: {error}") from error
    return min(PlanGraph(price, said=said).whole(graph, query.emit), key=lambda planned: planned.cost)


def optimal(root: Rel, emit: Emit, sizes: Sizes, constants: Constants, working: str = WINDOW) -> Planned:
    """Return the cheapest plan over all positions of differences and anti-joins, join orders and modes."""
    return searched(root, emit, Pricing(sizes, constants, working))[0]


def searched(root: Rel, emit: Emit, price: Pricing) -> tuple[Planned, PlaceDifferences]:
    """Return the cheapest plan, and the search that has found it."""
    heuristic = push_down(root, emit, price.sizes, price.constants, working=price.working)
    search = PlaceDifferences(price, Fresh(aliases_in(root)), heuristic.cost)
    pushed = dict.fromkeys(push_differences(graph_of(root), way=way) for way in range(MOST_WAYS))
    found = [planned for graph in pushed for planned in search.whole(graph, emit)]
    best = min([heuristic, *found], key=lambda planned: planned.cost)
    return Planned(best.cost, search.fresh.tidied(best.rel), best.modes), search


def left_out(query: Query, statistics: Statistics, constants: Constants) -> tuple[int, int]:
    """Return how many positions of differences the search for an optimal plan looks at, and how many it leaves out.

    Only large queries leave some out; those may have yet others.
    """
    _, search = searched(query.root, query.emit, Pricing(Sizes.of_query(query, statistics), constants))
    return search.looked_at, search.left_out


def same_modes(root: Rel, modes: str, emit: Emit) -> tuple[str, ...]:
    """Return deltas or complete relations on every edge, and what is emitted from the root."""
    inside = DIDO if modes == "delta" else CICO
    last = {"delta": (DIDO, DICO), "complete": (CIDO, CICO)}[modes][emit != DELTA]
    count = sum(1 for _ in operators(root))
    return (*((inside,) * (count - 1)), last) if count else ()


def costs(
    plan: Plan, statistics: Statistics | None = None, constants: Constants | None = None
) -> list[tuple[Rel, str, Cost, Size]]:
    """Return every operator of a plan with its mode, what it costs per hop, and the size of its answer."""
    sizes = Sizes.of_query(plan.query, statistics or Statistics())
    c, found = constants or Constants(), []
    for node, mode, way in zip(operators(plan.root), plan.modes, plan.working, strict=True):
        emitted = node is plan.root and plan.query.emit == DELTA
        found.append((node, mode, cost(node, mode, way, sizes, c, emitted), sizes.of(node)))
    return found
