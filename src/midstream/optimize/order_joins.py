"""Choose a join order: left-deep, each next stream one that shares a key with those before it where there is one."""

from midstream.plan.expr import aliases
from midstream.plan.predicates import classify
from midstream.plan.query import Query
from midstream.plan.tree import Tree, left_deep


def order_joins(query: Query) -> Tree:
    """Return the starting join order of a query.

    Without statistics the written order stands, except that a stream with no predicate to those before it waits
    for one that has: equality first, then any comparison, then a product. A difference has no such predicates.
    """
    predicates = classify(query)
    equal = [frozenset().union(*(aliases(m) for m in c.members)) for c in predicates.classes]
    related = [aliases(c.left) | aliases(c.right) for c in predicates.comparisons]
    related += [aliases(r) for r in predicates.residuals]
    chosen = [query.aliases[0]]
    waiting = list(query.aliases[1:])
    while waiting:
        seen = frozenset(chosen)
        keyed = [a for a in waiting if any(a in group and group & seen for group in equal)]
        bound = [a for a in waiting if any(a in group and group <= seen | {a} for group in related)]
        following = (keyed or bound or waiting)[0]
        chosen.append(following)
        waiting.remove(following)
    return left_deep(tuple(chosen))
