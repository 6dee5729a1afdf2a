"""Pull a difference up: join parts with both of its sides, below it, instead of once with its answer, above.

    (L EXCEPT ALL R) ⋈ S  =  (L ⋈ S) EXCEPT ALL (R ⋈ S')        S' is S under fresh aliases
    σ(L EXCEPT R)         =  σ(L) EXCEPT σ(R)                    all or not
    π(L EXCEPT ALL R)     =  π(L) EXCEPT ALL π(R)                when π tells the columns that decide

max(l - r, 0) · s = max(l·s - r·s, 0): exact for bags, and for NULLs, which the join drops in both forms. A difference
of sets gives a row once and S may give it more often: then the rule holds where how often does not matter.
"""

from dataclasses import dataclass, replace

from midstream.optimize.hopping.fresh import Fresh
from midstream.optimize.hopping.graph import (
    Difference,
    Graph,
    Outputs,
    Part,
    Without,
    aliases_of,
    alone,
    equal_columns,
    reads,
    substituted,
)
from midstream.plan.expr import Column, Expr
from midstream.plan.rename import renamed


@dataclass(frozen=True)
class Move:
    """What goes into both sides of a difference: parts, anti-joins on them alone, and the conditions on its rows."""

    difference: int
    parts: frozenset[int] = frozenset()
    antis: frozenset[int] = frozenset()
    filters: bool = False


def pull_difference(graph: Graph, move: Move, fresh: Fresh, as_set: bool = False) -> Graph | None:
    """Return a graph with one of its differences above what it was below, or None where that is not the same.

    `as_set`: how often the graph gives a row does not matter to whoever reads it.
    """
    part = graph.parts[move.difference]
    assert isinstance(part, Difference), "only differences are pulled"
    if move.parts and not part.all and not (as_set or graph.distinct):
        return None
    owners = graph.owners()
    inside, both = move.parts, move.parts | {move.difference}
    if any(not reads(owners, graph.antis[k].conjuncts) <= inside for k in move.antis):
        return None
    moved = [c for c in graph.conjuncts if _goes(reads(owners, [c]), inside, both, move)]
    taken = [graph.parts[i] for i in sorted(inside)]
    antis = [graph.antis[k] for k in sorted(move.antis)]
    left = _joined(part.left, part.columns, taken, moved, antis)
    names = [a for p in taken for a in aliases_of(p)] + [a for w in antis for a in aliases_of(w.right)]
    # The same copies for the same difference, so that graphs are known again.
    place = f"{aliases_of(part.left)[0]} less {aliases_of(part.right)[0]}"
    to = {alias: fresh.alias(alias, place) for alias in dict.fromkeys(names)}
    copies = [renamed(p, to) for p in taken]
    without = [renamed(w, to) for w in antis]
    right = _joined(part.right, part.columns, copies, [renamed(c, to) for c in moved], without)
    core = frozenset(part.columns) if part.core is None else part.core
    pulled = Difference(left, right, part.all, core)
    parts = [pulled if i == move.difference else p for i, p in enumerate(graph.parts) if i not in inside]
    return replace(
        graph,
        parts=tuple(parts),
        conjuncts=tuple(c for c in graph.conjuncts if c not in moved),
        antis=tuple(a for k, a in enumerate(graph.antis) if k not in move.antis),
    )


def _goes(at: frozenset[int], inside: frozenset[int], both: frozenset[int], move: Move) -> bool:
    """Tell whether a condition on certain parts goes inside with them."""
    if not at or not at <= both:
        return False
    return bool(at & inside) or move.filters


def _joined(
    side: Graph, named: tuple[Column, ...], parts: list[Part], conjuncts: list[Expr], antis: list[Without]
) -> Graph:
    """Return one side of a difference joined with parts; conditions read it by the difference's own columns."""
    if side.distinct:
        side = alone(side)
    by = {name: expr for name, (_, expr) in zip(named, side.outputs, strict=True)}
    return Graph(
        (*side.outputs, *((c, c) for p in parts for c in p.columns)),
        (*side.parts, *parts),
        tuple(dict.fromkeys([*side.conjuncts, *(substituted(c, by) for c in conjuncts)])),
        (*side.antis, *(Without(a.right, tuple(substituted(c, by) for c in a.conjuncts)) for a in antis)),
    )


def project_below(graph: Graph, as_set: bool = False) -> Graph | None:
    """Return a graph that is a projected difference with the projection below it on both sides, or None."""
    if len(graph.parts) != 1 or graph.conjuncts or graph.antis:
        return None
    part = graph.parts[0]
    if not isinstance(part, Difference) or graph == alone(part):
        return None
    given = {e for _, e in graph.outputs if isinstance(e, Column)}
    distinct = graph.distinct
    if not set(part.columns) <= given:
        set_here = as_set or graph.distinct
        if part.left.distinct or part.right.distinct or not (part.all or set_here) or not _tells(part, given):
            return None
        distinct = distinct and part.all
    sides = []
    for side in (part.left, part.right):
        by = {name: expr for name, (_, expr) in zip(part.columns, side.outputs, strict=True)}
        sides.append(replace(side, outputs=tuple((c, substituted(e, by)) for c, e in graph.outputs)))
    sides[1] = replace(sides[1], outputs=_named_apart(sides[1]))
    below = Difference(sides[0], sides[1], part.all, None)
    return replace(alone(below), distinct=distinct)


def _named_apart(side: Graph) -> Outputs:
    """Return the outputs of a right side under names that are not those of the left one; nobody reads them."""
    outputs: list[tuple[Column, Expr]] = []
    for number, (column, expr) in enumerate(side.outputs):
        plain = isinstance(expr, Column) and expr not in [c for c, _ in outputs]
        own = Column(aliases_of(side.parts[0])[0], f"right{number}", column.type)
        outputs.append((expr if plain and isinstance(expr, Column) else own, expr))
    return tuple(outputs)


def _tells(part: Difference, given: set[Column]) -> bool:
    """Tell whether columns of a difference say which columns decided: they are among them, or equal to one of them."""
    core = frozenset(part.columns) if part.core is None else part.core
    exprs = dict(part.left.outputs)
    shared = {exprs[c] for c in given if c in exprs and c not in core}
    pairs = [p for p in map(equal_columns, part.left.conjuncts) if p is not None]
    equal = {(a, b) for a, b in pairs} | {(b, a) for a, b in pairs}
    return all(c in given or any((exprs[c], s) in equal for s in shared) for c in core)
