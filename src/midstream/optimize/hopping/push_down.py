"""The heuristic: every difference as deep as it goes, then the best join order and modes for that.

Anti-joins are placed with the join order, which costs no further search; or, with `deepest_antis`, each as soon as its
columns are there.
"""

from midstream.optimize.hopping.assign_modes import Planned
from midstream.optimize.hopping.candidates import Pricing
from midstream.optimize.hopping.cost import Constants
from midstream.optimize.hopping.estimate import Sizes
from midstream.optimize.hopping.graph import graph_of
from midstream.optimize.hopping.plan_graph import PlanGraph
from midstream.optimize.hopping.push_difference import push_differences
from midstream.plan.algebra import Rel
from midstream.plan.modes import WINDOW
from midstream.plan.query import Emit


def push_down(
    root: Rel,
    emit: Emit,
    sizes: Sizes,
    constants: Constants,
    deepest_antis: bool = False,
    working: str = WINDOW,
) -> Planned:
    """Return the cheapest plan of a tree with its differences pushed down."""
    planned = PlanGraph(Pricing(sizes, constants, working), deepest_antis).whole(push_differences(graph_of(root)), emit)
    return min(planned, key=lambda p: p.cost)
