"""The heuristic: every difference as deep as it goes, then the best join order and modes for that.

Conditions go below differences, as they go below joins; a projection right above a difference goes below it where that
is cheaper. Anti-joins are placed with the join order, which costs no further search; or, with `deepest_antis`, each as
soon as its columns are there.
"""

from collections.abc import Iterator

from midstream.optimize.hopping.assign_modes import Planned
from midstream.optimize.hopping.cost import Constants
from midstream.optimize.hopping.estimate import Sizes
from midstream.optimize.hopping.graph import Graph, graph_of
from midstream.optimize.hopping.plain_names import rename_below
from midstream.optimize.hopping.plan_graph import PlanGraph
from midstream.optimize.hopping.pull_difference import project_below
from midstream.optimize.hopping.push_difference import push_differences
from midstream.optimize.hopping.select_below import select_below
from midstream.plan.algebra import Rel
from midstream.plan.query import Emit


def push_down(root: Rel, emit: Emit, sizes: Sizes, constants: Constants, deepest_antis: bool = False) -> Planned:
    """Return the cheapest plan of a tree with its differences pushed down."""
    pushed = push_differences(graph_of(root))
    return PlanGraph(sizes, constants, _deepest, deepest_antis).whole(pushed, emit)


def _deepest(graph: Graph, as_set: bool) -> Iterator[Graph]:
    """Yield a graph with the conditions on differences and sets inside them, a projection above one and below it."""
    for number in range(len(graph.parts)):
        graph = select_below(graph, number) or graph
    yield graph
    for below in (project_below(graph, as_set), rename_below(graph)):
        if below is not None:
            yield below
