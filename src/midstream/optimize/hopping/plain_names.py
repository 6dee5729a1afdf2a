"""Plain names: a difference gives columns under the names they have inside it, so that its sides need no projection.

    π[p.a := s.x](S) EXCEPT π[q.a := t.x](T)  =  π[p.a := s.x](S EXCEPT T)
"""

from dataclasses import replace

from midstream.optimize.hopping.graph import Difference, Graph, Outputs, Without, substituted
from midstream.plan.expr import Column, Expr


def plain_names(graph: Graph) -> Graph:
    """Return a graph whose differences do not rename columns; what reads them does."""
    by: dict[Column, Expr] = {}
    parts = list(graph.parts)
    for number, part in enumerate(parts):
        if not isinstance(part, Difference):
            continue
        left, right = _plain(part.left.outputs), _plain(part.right.outputs)
        names = {c: n for (c, _), (n, _) in zip(part.left.outputs, left, strict=True)}
        core = None if part.core is None else frozenset(names[c] for c in part.core)
        sides = replace(part.left, outputs=left), replace(part.right, outputs=right)
        parts[number] = Difference(*sides, part.all, core)
        by.update(names)
    if not by:
        return graph
    return Graph(
        tuple((c, substituted(e, by)) for c, e in graph.outputs),
        tuple(parts),
        tuple(substituted(c, by) for c in graph.conjuncts),
        tuple(Without(a.right, tuple(substituted(c, by) for c in a.conjuncts)) for a in graph.antis),
        graph.distinct,
    )


def _plain(outputs: Outputs) -> Outputs:
    """Name columns like what they are, where that is a column and no other is named so."""
    exprs = [e for _, e in outputs]
    names = [c for c, _ in outputs]
    plain = [
        e if isinstance(e, Column) and exprs.count(e) == 1 and (e == c or e not in names) else c for c, e in outputs
    ]
    return tuple(zip(plain, exprs, strict=True))
