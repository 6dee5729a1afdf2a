"""Select below: conditions on a difference or a set hold of its rows as well inside, before they are compared.

Those that read plain columns of a projection hold before anything is computed.

σ(L EXCEPT R)  =  σ(L) EXCEPT σ(R)        all or not
σ(DISTINCT S)  =  DISTINCT σ(S)
σ(π S)         =  π σ(S)
"""

from dataclasses import replace

from midstream.optimize.hopping.fresh import Fresh
from midstream.optimize.hopping.graph import Computed, Difference, Graph, reads, substituted
from midstream.optimize.hopping.pull_difference import Move, pull_difference
from midstream.plan.expr import Column, columns


def select_below(graph: Graph, number: int) -> Graph | None:
    """Return a graph with the conditions on one of its parts inside that part, or None where there is nothing to do."""
    part = graph.parts[number]
    owners = graph.owners()
    own = [c for c in graph.conjuncts if reads(owners, [c]) == {number}]
    if not own:
        return None
    if isinstance(part, Difference):
        return pull_difference(graph, Move(number, filters=True), Fresh())
    if not isinstance(part, Graph | Computed):
        return None
    inner = part.graph if isinstance(part, Computed) else part
    by = dict(inner.outputs)
    if isinstance(part, Computed):
        own = [c for c in own if all(isinstance(by[read], Column) for read in columns(c))]
        if not own:
            return None
    inside = replace(inner, conjuncts=tuple(dict.fromkeys([*inner.conjuncts, *(substituted(c, by) for c in own)])))
    fewer = Computed(inside) if isinstance(part, Computed) else inside
    return replace(
        graph,
        parts=(*graph.parts[:number], fewer, *graph.parts[number + 1 :]),
        conjuncts=tuple(c for c in graph.conjuncts if c not in own),
    )
