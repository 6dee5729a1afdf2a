"""Join order: what a query that hops joins first, where somebody has said it, as `((a b) c)`.

Every join of the plan is a pair of the order. Groups, unions and differences stay where the query has them; modes, and
where anti-joins stand, are the cheapest.
"""

from collections.abc import Iterator

from midstream.model.errors import PlanError
from midstream.optimize.hopping.estimate import graphs_in
from midstream.optimize.hopping.graph import Graph, Part
from midstream.plan.algebra import Scan
from midstream.plan.tree import Pair, Tree, leaves, tree_text

Streams = frozenset[str]


class JoinOrder:
    """An order in which streams are joined, by their aliases."""

    def __init__(self, tree: Tree) -> None:
        self._text = tree_text(tree)
        self._pairs = [(frozenset(leaves(p.left)), frozenset(leaves(p.right))) for p in _pairs(tree)]

    def halves(self, some: Streams) -> tuple[Streams, Streams]:
        """Return what is joined last of some streams, which are all that is joined, or a side of such a join.

        >>> from midstream.plan.tree import parse_tree
        >>> order = JoinOrder(parse_tree("((a b) (c d))", tuple("abcd")))
        >>> [sorted(half) for half in order.halves(frozenset("abd"))]
        [['a', 'b'], ['d']]
        """
        return next((a & some, b & some) for a, b in self._pairs if a & some and b & some)

    def check(self, graph: Graph) -> None:
        """Refuse an order that takes apart what the query has together in a part of its own."""
        beside = streams_of(graph)
        for part in graph.parts:
            below = graphs_in(part)
            for some in (streams_in(part), *map(streams_of, below)):
                if len(some) > 1 and not any((a | b) & beside == some for a, b in self._pairs):
                    raise PlanError(
                        f"plan '{self._text}' takes {', '.join(sorted(some))} apart, which the query has together in a "
                        "part of its own: join them with each other first"
                    )
            for inner in below:
                self.check(inner)
        for anti in graph.antis:
            self.check(anti.right)


def _pairs(tree: Tree) -> Iterator[Pair]:
    """Yield the joins of an order, the last one first."""
    if isinstance(tree, Pair):
        yield tree
        yield from _pairs(tree.left)
        yield from _pairs(tree.right)


def streams_of(graph: Graph) -> Streams:
    """Return the aliases of the streams that a graph joins, less those of its anti-joins."""
    return frozenset[str]().union(*map(streams_in, graph.parts))


def streams_in(part: Part) -> Streams:
    """Return the aliases of the streams below a part."""
    if isinstance(part, Scan):
        return frozenset([part.source.alias])
    return frozenset[str]().union(*map(streams_of, graphs_in(part)))
