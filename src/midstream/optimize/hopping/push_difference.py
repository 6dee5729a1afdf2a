"""Push a difference down: take what both of its sides join in the same way out of both, to be joined once, above.

    (A ⋈ S) EXCEPT ALL (B ⋈ S)  =  (A EXCEPT ALL B) ⋈ S
    (A ⋈ S) EXCEPT     (B ⋈ S)  =  DISTINCT ((A EXCEPT B) ⋈ S)

Exact when a row of the answer tells what of A it was made of, so far as S asks for it: for such a row the number of
partners in S is one factor on both sides, and max(a - b, 0) · s = max(a·s - b·s, 0). NULLs: EXCEPT takes them as equal,
on both sides of the equation among the same columns; joins do not match them, neither below nor above.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, takewhile

from midstream.optimize.hopping.graph import (
    Computed,
    Difference,
    Graph,
    GroupOf,
    Outputs,
    Part,
    UnionOf,
    Without,
    aliases_of,
    alone,
    equal_columns,
    grouped,
    in_order,
    reads,
    spliced,
    substituted,
)
from midstream.optimize.hopping.plain_names import plain_names
from midstream.plan.algebra import Scan
from midstream.plan.expr import Column, Expr, columns
from midstream.plan.rename import renamed

MOST_PAIRS = 8
"""Pairs of equal parts that are tried in all combinations; of more, all at once, and some in similar places."""


def push_differences(graph: Graph, as_set: bool = False, way: int = 0) -> Graph:
    """Push every difference in a graph down as far as it goes. `as_set`: how often a row is given does not matter.

    `way`: where as many parts can be taken out of a difference in several ways, which of them.
    """
    set_here = as_set or graph.distinct
    antis = tuple(Without(push_differences(a.right, True, way), a.conjuncts) for a in graph.antis)
    graph = replace(graph, parts=tuple(_inside(p, set_here, way) for p in graph.parts), antis=antis)
    for number in reversed(range(len(graph.parts))):
        part = graph.parts[number]
        inner = push_difference(part, way) if isinstance(part, Difference) else None
        if inner is not None:
            graph = with_pushed(graph, number, inner, as_set)
    return plain_names(graph)


def _inside(part: Part, as_set: bool, way: int) -> Part:
    """Push down the differences inside a part."""
    match part:
        case Scan():
            return part
        case GroupOf(child):
            return grouped(push_differences(child, False, way), part.alias, part.keys, part.aggregates)
        case UnionOf(left, right):
            return replace(part, left=push_differences(left, as_set, way), right=push_differences(right, as_set, way))
        case Computed(graph):
            return Computed(push_differences(graph, False, way))
        case Graph():
            return push_differences(part, as_set, way)
        case Difference(left, right, all_):
            sides = push_differences(left, not all_, way), push_differences(right, not all_, way)
            return replace(part, left=sides[0], right=sides[1])


def push_difference(difference: Difference, way: int = 0) -> Graph | None:
    """Return a difference with as many parts as possible taken out of both sides, or None where there are none."""
    ways = pushed_ways(difference)
    first = next(ways, None)
    if first is None or not way:
        return first
    same = [first, *takewhile(lambda g: len(g.parts) == len(first.parts), ways)]
    return same[way % len(same)]


def pushed_ways(difference: Difference) -> Iterator[Graph]:
    """Yield a difference with parts taken out of both sides, in every way, most parts first.

    The answer of a difference of sets is marked as one to make a set of.
    """
    left, right = difference.left, difference.right
    if difference.all and (left.distinct or right.distinct):
        return
    pairs = [(i, j) for i, a in enumerate(left.parts) for j, b in enumerate(right.parts) if twin(a, b) is not None]
    pairs = sorted(pairs, key=lambda p: (abs(p[0] - p[1]), p))
    most = min(len(left.parts), len(right.parts)) - 1
    for chosen in _chosen(pairs, most):
        if len({i for i, _ in chosen}) == len({j for _, j in chosen}) == len(chosen):
            found = _Factoring(difference, dict(chosen)).factored()
            if found is not None:
                yield found


def _chosen(pairs: list[tuple[int, int]], most: int) -> Iterator[tuple[tuple[int, int], ...]]:
    if len(pairs) > MOST_PAIRS:
        yield tuple(pairs[:most])
    few = pairs[:MOST_PAIRS]
    for size in range(min(most, len(few)), 0, -1):
        yield from combinations(few, size)


def with_pushed(graph: Graph, number: int, inner: Graph, as_set: bool) -> Graph:
    """Put a difference that was pushed down in the place where it stood in a graph."""
    if inner.distinct and (as_set or graph.distinct):
        inner = replace(inner, distinct=False)
    elif inner.distinct:
        inner = alone(inner)
    graph = plain_names(spliced(graph, number, inner))
    first = graph.parts[0]
    return first if isinstance(first, Graph) and graph == alone(first) else graph


def twin(a: Part, b: Part) -> dict[str, str] | None:
    """Return how the aliases of a part are called in another that gives the same rows, or None if it does not."""
    if isinstance(a, Scan) and isinstance(b, Scan):
        to = {b.source.alias: a.source.alias}
        same = renamed(replace(b, columns=()), to) == replace(a, columns=())
        return to if same else None
    names, others = aliases_of(a), aliases_of(b)
    if type(a) is not type(b) or len(names) != len(others):
        return None
    to = dict(zip(others, names, strict=True))
    return to if renamed(b, to) == a else None


@dataclass(frozen=True)
class _Split:
    """One side of a difference: its conditions inside the shared parts, inside the others, and between them."""

    shared: frozenset[int]
    graph: Graph

    def conjuncts(self, shared: bool, own: bool) -> list[Expr]:
        owners = self.graph.owners()
        found = [(c, reads(owners, [c])) for c in self.graph.conjuncts]
        return [c for c, at in found if (bool(at & self.shared), bool(at - self.shared)) == (shared, own)]

    def inside(self, expr: Expr, shared: bool) -> bool:
        at = reads(self.graph.owners(), [expr])
        return at <= self.shared if shared else not at & self.shared

    def antis(self, shared: bool) -> list[Without] | None:
        """Return the anti-joins that read only shared parts, or only others; None when one reads both."""
        owners = self.graph.owners()
        at = [(a, reads(owners, a.conjuncts)) for a in self.graph.antis]
        if any(r & self.shared and r - self.shared for _, r in at):
            return None
        return [a for a, r in at if bool(r & self.shared) == shared]


class _Factoring:
    """An attempt to take certain parts out of both sides of a difference."""

    def __init__(self, difference: Difference, pairs: dict[int, int]) -> None:
        self.all = difference.all
        self.to: dict[str, str] = {}
        for i, j in pairs.items():
            self.to.update(twin(difference.left.parts[i], difference.right.parts[j]) or {})
        right = difference.right
        # The shared parts have the same aliases on both sides from here on; the others are different anyway.
        own = [renamed(p, self.to) if j in pairs.values() else p for j, p in enumerate(right.parts)]
        self.right = _Split(
            frozenset(pairs.values()),
            Graph(
                tuple((c, renamed(e, self.to)) for c, e in right.outputs),
                tuple(own),
                renamed(right.conjuncts, self.to),
                tuple(Without(a.right, renamed(a.conjuncts, self.to)) for a in right.antis),
            ),
        )
        self.left = _Split(frozenset(pairs), difference.left)
        self.cores: list[tuple[Column, Expr, Column, Expr]] = []
        """Columns of the smaller difference: name and expression on the left, and on the right."""

    def factored(self) -> Graph | None:
        """Return the graph with the shared parts outside, or None when that would not be the same."""
        left, right = self.left, self.right
        if not _same(left.conjuncts(True, False), right.conjuncts(True, False)):
            return None
        antis = left.antis(True), left.antis(False), right.antis(True), right.antis(False)
        if antis[0] is None or antis[1] is None or antis[2] is None or antis[3] is None:
            return None
        if not _same_antis(antis[0], antis[2]):
            return None
        outputs = self._outputs()
        crossing = None if outputs is None else self._crossing(outputs)
        if outputs is None or crossing is None or not self.cores:
            return None
        if any(len({c[k] for c in self.cores}) < len(self.cores) for k in (0, 2)):
            return None
        a = self._side(left, [(c, e) for c, e, _, _ in self.cores], antis[1])
        b = self._side(right, [(c, e) for _, _, c, e in self.cores], antis[3])
        smaller = Difference(a, b, self.all, frozenset(a.columns))
        parts = [p for i, p in enumerate(left.graph.parts) if i in left.shared]
        conditions = (*left.conjuncts(True, False), *crossing)
        return Graph(outputs, (*parts, smaller), conditions, tuple(antis[0]), distinct=not self.all)

    def _side(self, side: _Split, outputs: list[tuple[Column, Expr]], antis: list[Without]) -> Graph:
        parts = tuple(p for i, p in enumerate(side.graph.parts) if i not in side.shared)
        constants = side.conjuncts(False, False)
        return Graph(tuple(outputs), parts, (*side.conjuncts(False, True), *constants), tuple(antis))

    def _outputs(self) -> Outputs | None:
        """Sort the outputs into those of shared parts and those of the smaller difference."""
        out = []
        to_left, to_right = _shared_names(self.left), _shared_names(self.right)
        pairs = zip(self.left.graph.outputs, self.right.graph.outputs, strict=True)
        for (name, e), (other, f) in pairs:
            a: Expr = to_left.get(e, e) if isinstance(e, Column) else e
            b: Expr = to_right.get(f, f) if isinstance(f, Column) else f
            own = self.left.inside(e, False) and self.right.inside(f, False)
            if a == b and self.left.inside(a, True) and self.right.inside(b, True) and (not own or e == f):
                out.append((name, a))
            elif own:
                out.append((name, self._core(e, f, name, other)))
            else:
                return None
        return tuple(out)

    def _core(self, e: Expr, f: Expr, name: Column, other: Column) -> Column:
        """Return the column of the smaller difference with these expressions, a new one if need be."""
        for column, left, _, right in self.cores:
            if (left, right) == (e, f):
                return column
        own = e if isinstance(e, Column) and e not in [c for c, _, _, _ in self.cores] else name
        its = f if isinstance(f, Column) and f not in [c for _, _, c, _ in self.cores] else other
        self.cores.append((own, e, its, f))
        return own

    def _crossing(self, outputs: Outputs) -> list[Expr] | None:
        """Return the conditions between the shared parts and the smaller difference, or None if the sides differ."""
        given: set[Expr] = {e for _, e in outputs if isinstance(e, Column)}
        rest = list(dict.fromkeys(in_order(c) for c in self.right.conjuncts(True, True)))
        found: list[Expr] = []
        for conjunct in dict.fromkeys(in_order(c) for c in self.left.conjuncts(True, True)):
            match = next((m for m in self._matches(conjunct, rest, given)), None)
            if match is None:
                return None
            rest.remove(match[0])
            found.append(match[1])
        return None if rest else found

    def _matches(self, conjunct: Expr, rest: list[Expr], given: set[Expr]) -> Iterator[tuple[Expr, Expr]]:
        """Yield a condition of the right side that says the same, and what both say of the smaller difference."""
        lefts = {e: c for c, e, _, _ in self.cores if isinstance(e, Column)}
        rights = {f: c for c, _, _, f in self.cores if isinstance(f, Column)}
        own = [c for c in columns(conjunct) if not self.left.inside(c, True)]
        if all(c in lefts for c in own):
            said = in_order(substituted(conjunct, dict(lefts)))
            for other in rest:
                its = [c for c in columns(other) if not self.right.inside(c, True)]
                if all(c in rights for c in its) and in_order(substituted(other, dict(rights))) == said:
                    yield other, substituted(conjunct, dict(lefts))
        pair = self._key(self.left, conjunct)
        if pair is None or pair[0] not in given:
            return
        for other in rest:
            same = self._key(self.right, other)
            if same is not None and same[0] == pair[0]:
                column = self._core(pair[1], same[1], pair[1], same[1])
                yield other, substituted(conjunct, {pair[1]: column})

    def _key(self, side: _Split, conjunct: Expr) -> tuple[Column, Column] | None:
        """Return the columns of a shared part and of another one that a condition makes equal."""
        pair = equal_columns(conjunct)
        if pair is None:
            return None
        shared, own = pair if side.inside(pair[0], True) else (pair[1], pair[0])
        return (shared, own) if side.inside(shared, True) and side.inside(own, False) else None


def _shared_names(side: _Split) -> dict[Column, Column]:
    """Return by which column of a shared part another part's column can be known."""
    found: dict[Column, Column] = {}
    for conjunct in side.conjuncts(True, True):
        pair = equal_columns(conjunct)
        if pair is not None:
            shared, own = pair if side.inside(pair[0], True) else (pair[1], pair[0])
            found.setdefault(own, shared)
    return found


def _same(left: list[Expr], right: list[Expr]) -> bool:
    return {in_order(c) for c in left} == {in_order(c) for c in right}


def _same_antis(left: list[Without], right: list[Without]) -> bool:
    """Tell whether two lists of anti-joins leave the same rows, the aliases of their right sides apart."""
    if len(left) != len(right):
        return False
    for a, b in zip(left, right, strict=True):
        to = twin(a.right, b.right)
        if to is None or not _same(list(a.conjuncts), list(renamed(b.conjuncts, to))):
            return False
    return True
