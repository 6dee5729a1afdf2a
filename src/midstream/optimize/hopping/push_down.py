"""The heuristic: every difference as deep as it goes, every anti-join as soon as its columns are there.

Conditions go below differences, as they go below joins; a projection right above a difference goes below it where that
is cheaper. Join order and modes are then the best ones for that.
"""

from collections.abc import Iterator

from midstream.optimize.hopping.cost import Constants
from midstream.optimize.hopping.estimate import Sizes
from midstream.optimize.hopping.fresh import Fresh
from midstream.optimize.hopping.graph import Difference, Graph, graph_of, reads
from midstream.optimize.hopping.order_joins_with_modes import Planned
from midstream.optimize.hopping.plain_names import rename_below
from midstream.optimize.hopping.plan_graph import PlanGraph
from midstream.optimize.hopping.pull_difference import Move, project_below, pull_difference
from midstream.optimize.hopping.push_difference import push_differences
from midstream.plan.algebra import Rel
from midstream.plan.hopping import DELTA, Emit


def push_down(root: Rel, emit: Emit, sizes: Sizes, constants: Constants, deepest_antis: bool = True) -> Planned:
    """Return the cheapest plan of a tree with its differences pushed down, and its anti-joins, if these are to be."""
    pushed = push_differences(graph_of(root))
    planned = PlanGraph(sizes, constants, _deepest, deepest_antis).graph(pushed)
    return min((p.ways["D" if emit == DELTA else "C"] for p in planned), key=lambda p: p.cost)


def _deepest(graph: Graph, as_set: bool) -> Iterator[Graph]:
    """Yield a graph with the conditions on differences inside them, the projection of one above it and below it."""
    for number, part in enumerate(graph.parts):
        if isinstance(part, Difference) and {number} in [reads(graph.owners(), [c]) for c in graph.conjuncts]:
            graph = pull_difference(graph, Move(number, filters=True), Fresh(), as_set) or graph
    yield graph
    for below in (project_below(graph, as_set), rename_below(graph)):
        if below is not None:
            yield below
