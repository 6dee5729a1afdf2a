"""Choose the plan of a hopping query, and say what a plan costs."""

from midstream.model.errors import PlanError
from midstream.model.statistics import Size, Statistics
from midstream.optimize.hopping.assign_modes import Planned, assign_modes
from midstream.optimize.hopping.cost import Constants, Cost, cost
from midstream.optimize.hopping.estimate import Sizes
from midstream.optimize.hopping.fresh import Fresh, aliases_in
from midstream.optimize.hopping.graph import graph_of
from midstream.optimize.hopping.place_differences import PlaceDifferences
from midstream.optimize.hopping.plan_graph import PlanGraph
from midstream.optimize.hopping.push_difference import push_differences
from midstream.optimize.hopping.push_down import push_down
from midstream.plan.algebra import Rel, operators
from midstream.plan.modes import CICO, CIDO, DICO, DIDO
from midstream.plan.plan import Plan
from midstream.plan.query import DELTA, Emit, Query

SHAPES = ("optimal", "push-down", "as-written")


def choose(
    query: Query,
    statistics: Statistics | None = None,
    constants: Constants | None = None,
    shape: str = "optimal",
    modes: str | tuple[str, ...] = "auto",
) -> Plan:
    """Return the plan of a query.

    `shape`: "optimal" is the cheapest of all positions of differences, join orders and modes; "push-down" has the
    differences at the bottom; "as-written" is the query's own tree. `modes`: "auto" are the cheapest; "delta" and
    "complete" are the same for all operators, but for the root, which gives what the query emits; or one for each
    operator, in the order of `operators`.
    """
    if shape not in SHAPES:
        raise PlanError(f"there is no plan shape {shape!r}; the shapes are {', '.join(SHAPES)}")
    if isinstance(modes, str) and modes not in ("auto", "delta", "complete"):
        raise PlanError(f"there are no modes {modes!r}; they are auto, delta, complete, or one for each operator")
    sizes = Sizes(statistics or Statistics(), query.every_us)
    best = _shaped(query, shape, sizes, constants or Constants())
    if modes == "auto":
        return Plan(query, best.rel, best.modes)
    asked = same_modes(best.rel, modes, query.emit) if isinstance(modes, str) else modes
    return Plan(query, best.rel, asked)


def _shaped(query: Query, shape: str, sizes: Sizes, constants: Constants) -> Planned:
    root, emit = query.root, query.emit
    written = assign_modes(root, emit, sizes, constants)
    if shape == "as-written":
        return written
    if shape == "push-down":
        return push_down(root, emit, sizes, constants)
    best = optimal(root, emit, sizes, constants)
    # The tree as it is written may do without a projection that restores the order of columns.
    return written if written.cost <= best.cost else best


def optimal(root: Rel, emit: Emit, sizes: Sizes, constants: Constants) -> Planned:
    """Return the cheapest plan over all positions of differences and anti-joins, join orders and modes."""
    fresh = Fresh(aliases_in(root))
    best = PlanGraph(sizes, constants, PlaceDifferences(fresh)).whole(push_differences(graph_of(root)), emit)
    return Planned(best.cost, fresh.tidied(best.rel), best.modes)


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
    sizes = Sizes(statistics or Statistics(), plan.query.every_us)
    c, found = constants or Constants(), []
    for node, mode, way in zip(operators(plan.root), plan.modes, plan.working, strict=True):
        emitted = node is plan.root and plan.query.emit == DELTA
        found.append((node, mode, cost(node, mode, way, sizes, c, emitted), sizes.of(node)))
    return found
