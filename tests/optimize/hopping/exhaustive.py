"""The cheapest plan found by trying everything: every tree the rules reach, every join order, every mode."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product

from midstream.optimize.hopping.assign_modes import assign_modes
from midstream.optimize.hopping.cost import Constants, cost
from midstream.optimize.hopping.estimate import Sizes, across
from midstream.optimize.hopping.fresh import Fresh, aliases_in
from midstream.optimize.hopping.graph import (
    Difference,
    Graph,
    GroupOf,
    Part,
    UnionOf,
    Without,
    graph_of,
    graph_text,
    grouped,
    own_conjuncts,
    reads,
)
from midstream.optimize.hopping.plain_names import plain_names, rename_below
from midstream.optimize.hopping.plan_graph import is_set, narrowed, projects
from midstream.optimize.hopping.pull_difference import Move, project_below, pull_difference
from midstream.optimize.hopping.push_difference import pushed_ways, with_pushed
from midstream.optimize.hopping.select_below import select_below
from midstream.plan.algebra import (
    Anti,
    Distinct,
    Except,
    Group,
    Join,
    Project,
    Rel,
    Scan,
    Select,
    Union,
    inputs,
    operators,
)
from midstream.plan.modes import MODES, WINDOW
from midstream.plan.query import DELTA, Emit


class TooMany(Exception):
    """There are more trees than one wants to try."""


def cheapest_modes(root: Rel, emit: Emit, sizes: Sizes, constants: Constants) -> float:
    """Try all 4^n modes of a tree; return the cost of the cheapest that fit together."""
    nodes = list(operators(root))
    emitted = emit == DELTA
    table = [{m: cost(n, m, WINDOW, sizes, constants, emitted and n is root).total for m in MODES} for n in nodes]
    number = {id(n): i for i, n in enumerate(nodes)}
    edges = [(number[id(c)], i) for i, n in enumerate(nodes) for c in inputs(n) if id(c) in number]
    best = float("inf")
    for modes in product(MODES, repeat=len(nodes)):
        if modes[-1][2] != ("D" if emit == DELTA else "C"):
            continue
        if all(modes[below][2] == modes[above][0] for below, above in edges):
            best = min(best, sum(table[i][m] for i, m in enumerate(modes)))
    return best


def cheapest(
    root: Rel, emit: Emit, sizes: Sizes, constants: Constants, most: int, working: str = WINDOW
) -> tuple[float, Rel, int]:
    """Try every tree; return the cost of the cheapest, the tree, and how many there were."""
    best, tree, count = float("inf"), root, 0
    for graph in reachable(graph_of(root), Fresh(aliases_in(root)), most):
        for rel in _Trees(most).graph(graph, ordered=True):
            found = assign_modes(rel, emit, sizes, constants, working).cost
            best, tree = (found, rel) if found < best else (best, tree)
            count += 1
            if count > most:
                raise TooMany
    return best, tree, count


def reachable(graph: Graph, fresh: Fresh, most: int) -> list[Graph]:
    """Return every graph that single moves of differences lead to."""
    found = {graph_text(graph, fresh.origin): graph}
    waiting = [graph]
    while waiting:
        for moved in moved_once(waiting.pop(), False, fresh):
            text = graph_text(moved, fresh.origin)
            if text not in found:
                found[text] = moved
                waiting.append(moved)
        if len(found) > most:
            raise TooMany
    return list(found.values())


def moved_once(graph: Graph, as_set: bool, fresh: Fresh) -> Iterator[Graph]:
    """Yield graphs with one difference, anywhere inside, moved past one thing, or past all it can be pushed past."""
    set_here = as_set or graph.distinct
    for i, part in enumerate(graph.parts):
        for inner in _inside(part, set_here, fresh):
            yield replace(graph, parts=(*graph.parts[:i], inner, *graph.parts[i + 1 :]))
        if isinstance(part, Difference):
            yield from _moved(graph, i, part, set_here, fresh)
    for k, anti in enumerate(graph.antis):
        for right in moved_once(anti.right, True, fresh):
            antis = (*graph.antis[:k], Without(right, anti.conjuncts), *graph.antis[k + 1 :])
            yield replace(graph, antis=antis)
    yield plain_names(graph)
    selected = [select_below(graph, i) for i in range(len(graph.parts))]
    yield from (g for g in (project_below(graph, as_set), rename_below(graph), *selected) if g is not None)


def _moved(graph: Graph, i: int, part: Difference, set_here: bool, fresh: Fresh) -> Iterator[Graph]:
    for pushed in pushed_ways(part):
        yield with_pushed(graph, i, pushed, set_here)
    others = [j for j in range(len(graph.parts)) if j != i]
    antis = [reads(graph.owners(), a.conjuncts) for a in graph.antis]
    moves = [Move(i, filters=True)] if {i} in [reads(graph.owners(), [c]) for c in graph.conjuncts] else []
    for size in (1, 2):
        for chosen in combinations(others, size):
            on = [k for k, at in enumerate(antis) if at and at <= set(chosen)]
            along = [frozenset(s) for n in range(len(on) + 1) for s in combinations(on, n)]
            moves += [Move(i, frozenset(chosen), moved) for moved in along]
    for move in moves:
        pulled = pull_difference(graph, move, fresh, set_here)
        if pulled is not None:
            yield pulled


def _inside(part: Part, set_here: bool, fresh: Fresh) -> Iterator[Part]:
    match part:
        case Difference(left, right, all_):
            yield from (replace(part, left=g) for g in moved_once(left, not all_, fresh))
            yield from (replace(part, right=g) for g in moved_once(right, not all_, fresh))
        case GroupOf(child):
            for g in moved_once(child, False, fresh):
                yield grouped(g, part.alias, part.keys, part.aggregates)
        case UnionOf(left, right):
            yield from (replace(part, left=g) for g in moved_once(left, set_here, fresh))
            yield from (replace(part, right=g) for g in moved_once(right, set_here, fresh))
        case Graph():
            yield from (g for g in moved_once(part, set_here, fresh) if g.distinct)


class _Trees:
    """All trees of graphs, differences where they stand."""

    def __init__(self, most: int) -> None:
        self.most = most

    def graph(self, graph: Graph, ordered: bool) -> list[Rel]:
        narrow = narrowed(graph) if ordered or graph.distinct else None
        if narrow is not None:
            graph = replace(graph, parts=(narrow,))
        parts = [self._filtered(graph, i) for i in range(len(graph.parts))]
        rights = [self.graph(a.right, ordered=False) for a in graph.antis]
        every = frozenset(range(len(graph.parts)))
        rels = _Orders(graph, parts, rights, self.most).trees(every, frozenset(range(len(graph.antis))))
        if narrow is None and projects(graph, ordered):
            rels = [Project(r, graph.outputs) for r in rels]
        if graph.distinct and not is_set(graph):
            rels = [Distinct(r) for r in rels]
        return rels

    def _filtered(self, graph: Graph, number: int) -> list[Rel]:
        own = own_conjuncts(graph, number)
        rels = self.part(graph.parts[number])
        return [Select(r, tuple(own)) for r in rels] if own else rels

    def part(self, part: Part) -> list[Rel]:
        match part:
            case Scan():
                return [part]
            case Graph():
                return self.graph(part, ordered=False)
            case GroupOf(child, alias, keys, aggregates):
                return [Group(r, alias, keys, aggregates) for r in self.graph(child, ordered=False)]
            case UnionOf(left, right, names):
                return [Union(a, b, names) for a in self.graph(left, True) for b in self.graph(right, True)]
            case Difference(left, right, all_):
                lefts, rights = self.graph(left, True), self.graph(right, True)
                if len(lefts) * len(rights) > self.most:
                    raise TooMany
                return [Except(a, b, all_) for a in lefts for b in rights]


class _Orders:
    """All join trees of one graph, with its anti-joins wherever their columns are."""

    def __init__(self, graph: Graph, parts: list[list[Rel]], rights: list[list[Rel]], most: int) -> None:
        self.graph, self.parts, self.rights, self.most = graph, parts, rights, most
        owners = graph.owners()
        self.conjuncts = [(reads(owners, [c]), c) for c in across(graph)]
        self.needed = [reads(owners, a.conjuncts) or frozenset([0]) for a in graph.antis]
        self.known: dict[tuple[frozenset[int], frozenset[int]], list[Rel]] = {}

    def trees(self, parts: frozenset[int], antis: frozenset[int]) -> list[Rel]:
        if (parts, antis) not in self.known:
            found = list(self._trees(parts, antis))
            if len(found) > self.most:
                raise TooMany
            self.known[(parts, antis)] = found
        return self.known[(parts, antis)]

    def _trees(self, parts: frozenset[int], antis: frozenset[int]) -> Iterator[Rel]:
        if any(not self.needed[k] <= parts for k in antis):
            return
        if len(parts) == 1 and not antis:
            yield from self.parts[min(parts)]
        for k in antis:
            conjuncts = self.graph.antis[k].conjuncts
            for left in self.trees(parts, antis - {k}):
                yield from (Anti(left, right, conjuncts) for right in self.rights[k])
        for left_parts in _proper(parts):
            right_parts = parts - left_parts
            if not self._allowed(left_parts) or not self._allowed(right_parts) or not self._allowed(parts):
                continue
            between = tuple(
                c for at, c in self.conjuncts if at <= parts and not at <= left_parts and not at <= right_parts
            )
            for left_antis in (frozenset(a) for n in range(len(antis) + 1) for a in combinations(antis, n)):
                for left in self.trees(left_parts, left_antis):
                    for right in self.trees(right_parts, antis - left_antis):
                        yield Join(left, right, between)

    def _allowed(self, parts: frozenset[int]) -> bool:
        """Tell whether a set of parts is held together, or else cuts through nothing that is."""
        links = [at for at, _ in self.conjuncts]
        reached = {min(parts)}
        while True:
            more = {j for at in links if at & reached for j in at & parts} - reached
            if not more:
                break
            reached |= more
        return reached == parts or all(at <= parts or not at & parts for at in links)


def _proper(parts: frozenset[int]) -> Iterator[frozenset[int]]:
    for size in range(1, len(parts)):
        for chosen in combinations(sorted(parts), size):
            yield frozenset(chosen)
