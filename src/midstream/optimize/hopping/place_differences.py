"""Place differences: every legal position of every difference, each with the best join order and modes (DiffDP).

From the graph with all differences pushed down, parts are moved into both sides of a difference, in every combination,
and the same again inside the sides; what fewer moves lead to comes first. Anti-joins are placed with the join order.
"""

from collections.abc import Iterator
from itertools import combinations

from midstream.optimize.hopping.fresh import Fresh
from midstream.optimize.hopping.graph import Computed, Difference, Graph, graph_text, reads
from midstream.optimize.hopping.plain_names import rename_below
from midstream.optimize.hopping.pull_difference import Move, project_below, pull_difference
from midstream.optimize.hopping.push_difference import pushed_ways, with_pushed
from midstream.optimize.hopping.select_below import select_below

MOST_SPLITS = 50_000
"""Ways to split sets of parts that are looked at, about a second's work; then the best of what was seen is taken."""


class PlaceDifferences:
    """Says where differences may stand. Keeps count of the work it has made: n parts have 3^n splits."""

    def __init__(self, fresh: Fresh) -> None:
        self.fresh = fresh
        self.left = MOST_SPLITS
        self.looked_at = self.left_out = 0
        """Graphs that were yielded, and those known to be others that were not for want of time."""

    def __call__(self, graph: Graph, as_set: bool) -> Iterator[Graph]:
        """Yield graphs that give the same rows: first the graph itself, then those with differences further up."""
        seen: set[str] = set()
        waiting = [graph]
        while waiting:
            found = waiting.pop(0)
            text = graph_text(found, self.fresh.origin)
            if text in seen:
                continue
            seen.add(text)
            over = self.left <= 0
            self.left -= 3 ** len(found.parts)
            self.looked_at += 1
            yield found
            if over:
                return
            others = (
                project_below(found, as_set),
                rename_below(found),
                *_selected(found),
                *self._pulled(found, as_set),
                *_pushed(found, as_set),
            )
            waiting += [g for g in others if g is not None]
            if self.left <= 0:
                self.left_out += len({graph_text(g, self.fresh.origin) for g in waiting} - seen)
                return

    def _pulled(self, graph: Graph, as_set: bool) -> Iterator[Graph | None]:
        for move in moves(graph):
            yield pull_difference(graph, move, self.fresh, as_set)


def _selected(graph: Graph) -> Iterator[Graph | None]:
    """Yield graphs with the conditions on a set or a projection inside; those on a difference are among the moves."""
    for number, part in enumerate(graph.parts):
        if isinstance(part, Graph | Computed):
            yield select_below(graph, number)


def _pushed(graph: Graph, as_set: bool) -> Iterator[Graph]:
    """Yield graphs with a difference pushed down in another way: a stream may be in a graph more than once."""
    for number, part in enumerate(graph.parts):
        if isinstance(part, Difference):
            for inner in pushed_ways(part):
                yield with_pushed(graph, number, inner, as_set)


def moves(graph: Graph) -> Iterator[Move]:
    """Yield everything that can be moved into a difference of a graph at once."""
    owners = graph.owners()
    conditions = [reads(owners, [c]) for c in graph.conjuncts]
    antis = [reads(owners, a.conjuncts) for a in graph.antis]
    for number, part in enumerate(graph.parts):
        if not isinstance(part, Difference):
            continue
        others = [i for i in range(len(graph.parts)) if i != number]
        filters = (False, True) if {number} in conditions else (False,)
        for inside in _subsets(others):
            with_them = [k for k, at in enumerate(antis) if at and at <= inside]
            for moved in _subsets(with_them):
                for own in filters:
                    if inside or own:
                        yield Move(number, inside, moved, own)


def _subsets(numbers: list[int]) -> Iterator[frozenset[int]]:
    for size in range(len(numbers) + 1):
        for chosen in combinations(numbers, size):
            yield frozenset(chosen)
