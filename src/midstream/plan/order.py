"""Orders: the joins, or the differences, of a query's tree put into another order.

(project (select (join (join a b) c)))  ──▶ ((c a) b) ──▶  (project (select (join (join c a) b)))
"""

from midstream.model.errors import PlanError
from midstream.plan.algebra import Except, Join, Rel, Scan, differences, inputs, over, scans
from midstream.plan.capabilities import refuse
from midstream.plan.tree import Pair, Tree, leaves, left_deep, tree_text


def order_of(rel: Rel) -> Tree:
    """Return the aliases below a tree, each pair of inputs together."""
    if isinstance(rel, Scan):
        return rel.source.alias
    below = [order_of(child) for child in inputs(rel)]
    return below[0] if len(below) == 1 else Pair(below[0], below[1])


def reordered(rel: Rel, tree: Tree, method: str = "auto") -> Rel:
    """Return a tree that answers row by row with its streams in another order; all of its conditions stay above them.

    Refuses an order that a difference cannot have: its first stream stays at the bottom.
    """
    if isinstance(rel, Join):
        if any(isinstance(c, Join) and c.conjuncts for c in (rel, *inputs(rel))):
            raise PlanError("conditions stand above the joins of a tree that is put into another order")
        below = {s.source.alias: s for s in scans(rel)}
        return _joined(tree, below)
    if isinstance(rel, Except):
        return _taken(rel, tree, method)
    return over(rel, *(reordered(child, tree, method) for child in inputs(rel)))


def _joined(tree: Tree, below: dict[str, Scan]) -> Rel:
    if isinstance(tree, str):
        return below[tree]
    return Join(_joined(tree.left, below), _joined(tree.right, below))


def _taken(root: Except, tree: Tree, method: str) -> Rel:
    if method != "auto":
        raise refuse("join method of a difference", method=method)
    written = [s.source.alias for s in scans(root)]
    order = list(leaves(tree))
    if order[0] != written[0] or tree != left_deep(tuple(order)):
        example = tree_text(left_deep(tuple(written)))
        raise refuse("join order of a difference", plan=tree_text(tree), first=written[0], example=example)
    rel, chain = differences(root)
    by_alias = dict(zip(written[1:], chain, strict=True))
    for alias in order[1:]:
        rel = Except(rel, by_alias[alias].right)
    return rel
