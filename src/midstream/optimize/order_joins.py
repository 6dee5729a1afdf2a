"""Choose a join order: the cheapest tree by what is known of the rows, or the written order where nothing is."""

from collections.abc import Sequence

import numpy as np

from midstream.model.statistics import Statistics
from midstream.optimize.join_cost import JoinCost
from midstream.optimize.search import MOST_PARTS, Split, greedy, levels
from midstream.plan.nodes import MethodChoice
from midstream.plan.predicates import Predicates, classify
from midstream.plan.query import Query
from midstream.plan.tree import Pair, Tree, left_deep

FEWEST_ROWS = 100
"""Rows of every stream that must have been looked at for an order to be chosen by cost."""
WORTH = 0.95
"""Another order than the written one must be expected to cost at most this part of it."""


def order_joins(query: Query, statistics: Statistics | None = None, method: MethodChoice = "auto") -> Tree:
    """Return the starting join order of a query."""
    predicates = classify(query)
    written = written_order(query, predicates)
    if statistics is None or statistics.rows_seen < FEWEST_ROWS or not can_choose(query):
        return written
    cost = JoinCost(query.aliases, predicates, statistics, method)
    if not cost.known:
        return written
    cheapest = cheapest_tree(cost)
    return cheapest if cost.of(cheapest).total <= WORTH * cost.of(written).total else written


def can_choose(query: Query) -> bool:
    """Tell whether orders of a query can differ in cost: conditions hold three or more streams together."""
    return len(query.aliases) > 2 and classify(query).relates_streams


def cheapest_tree(cost: JoinCost) -> Tree:
    """Return the cheapest tree of all streams; of many streams, one that is found greedily."""
    count = len(cost.names)
    top, last = (1 << count) - 1, dict[int, Split]()
    if count > MOST_PARTS:
        last = {a | b: (a, b) for a, b in greedy(count, lambda a, b: cost.join(a, b, top))}
    else:
        tables, best = cost.tables(), np.zeros(top + 1)
        for level in levels(count):
            costs = best[level.left] + best[level.right] + tables.join(level.left, level.right)
            best[level.parts] = least = np.minimum.reduceat(costs, level.starts)
            ways = np.diff(np.append(level.starts, len(costs)))
            first = np.flatnonzero(costs == np.repeat(least, ways))
            first = first[np.searchsorted(first, level.starts)]
            last |= zip(
                level.parts.tolist(), zip(level.left[first].tolist(), level.right[first].tolist(), strict=True),
                strict=True,
            )  # fmt: skip
    return _tree(top, last, cost.names)


def _tree(parts: int, last: dict[int, Split], names: Sequence[str]) -> Tree:
    """Return the tree of a set, from the two parts that are joined last in it."""
    if parts not in last:
        return names[parts.bit_length() - 1]
    a, b = last[parts]
    return Pair(_tree(a, last, names), _tree(b, last, names))


def written_order(query: Query, predicates: Predicates) -> Tree:
    """Return the written order, left-deep, each next stream one that shares a key with those before it.

    A stream with no predicate to those before it waits for one that has: equality first, then any comparison, then a
    product. A difference has no such predicates.
    """
    equal = [c.aliases for c in predicates.classes]
    related = predicates.conditions.values()
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
