"""Select below: conditions on a difference or a set hold of its rows as well inside, before they are compared.

σ(L EXCEPT R)  =  σ(L) EXCEPT σ(R)        all or not
σ(DISTINCT S)  =  DISTINCT σ(S)
"""

from dataclasses import replace

from midstream.optimize.hopping.fresh import Fresh
from midstream.optimize.hopping.graph import Difference, Graph, reads, substituted
from midstream.optimize.hopping.pull_difference import Move, pull_difference


def select_below(graph: Graph, number: int) -> Graph | None:
    """Return a graph with the conditions on one of its parts inside that part, or None where there is nothing to do."""
    part = graph.parts[number]
    owners = graph.owners()
    own = [c for c in graph.conjuncts if reads(owners, [c]) == {number}]
    if not own:
        return None
    if isinstance(part, Difference):
        return pull_difference(graph, Move(number, filters=True), Fresh())
    if not isinstance(part, Graph):
        return None
    by = dict(part.outputs)
    inside = dict.fromkeys([*part.conjuncts, *(substituted(c, by) for c in own)])
    fewer = replace(part, conjuncts=tuple(inside))
    return replace(
        graph,
        parts=(*graph.parts[:number], fewer, *graph.parts[number + 1 :]),
        conjuncts=tuple(c for c in graph.conjuncts if c not in own),
    )
