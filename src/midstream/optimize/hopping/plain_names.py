"""Plain names: differences and sets give columns under the names they have inside, and need no projection there.

π[p.a := s.x](S) EXCEPT π[q.a := t.x](T)  =  π[p.a := s.x](S EXCEPT T)
DISTINCT π[p.a := s.x](S)                 =  π[p.a := s.x](DISTINCT S)
"""

from dataclasses import replace

from midstream.optimize.hopping.graph import Difference, Graph, Outputs, Part, over_parts, spliced
from midstream.plan.expr import Column, Expr


def plain_names(graph: Graph) -> Graph:
    """Return a graph whose differences and sets do not rename columns; what reads them does."""
    by: dict[Column, Expr] = {}
    parts = [_plain_part(p, by) for p in graph.parts]
    return over_parts(graph, parts, by)


def _plain_part(part: Part, by: dict[Column, Expr]) -> Part:
    """Return a part that does not rename; note what its columns are called now."""
    if isinstance(part, Graph):
        given = _plain(part.outputs)
        by.update({c: n for (c, _), (n, _) in zip(part.outputs, given, strict=True)})
        return replace(part, outputs=given)
    if not isinstance(part, Difference):
        return part
    left, right = _plain(part.left.outputs), _plain(part.right.outputs)
    names = {c: n for (c, _), (n, _) in zip(part.left.outputs, left, strict=True)}
    by.update(names)
    core = None if part.core is None else frozenset(names[c] for c in part.core)
    return Difference(replace(part.left, outputs=left), replace(part.right, outputs=right), part.all, core)


def _plain(outputs: Outputs) -> Outputs:
    """Name columns like what they are, where that is a column and no other is named so."""
    exprs = [e for _, e in outputs]
    names = [c for c, _ in outputs]
    plain = [
        e if isinstance(e, Column) and exprs.count(e) == 1 and (e == c or e not in names) else c for c, e in outputs
    ]
    return tuple(zip(plain, exprs, strict=True))


def rename_below(graph: Graph) -> Graph | None:
    """Return a graph that renames the columns of a set with the renaming inside the set, or None for another graph."""
    if len(graph.parts) != 1 or graph.conjuncts or graph.antis:
        return None
    part = graph.parts[0]
    if not isinstance(part, Graph) or not set(part.columns) <= {e for _, e in graph.outputs}:
        return None
    return replace(spliced(graph, 0, part), distinct=True)
