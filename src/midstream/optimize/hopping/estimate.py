"""How large answers are, and what comes and goes of them per hop.

In the long run an answer keeps its size. Of its rows a part is new at every hop, a part has ended by its time, and a
part was taken back before that. A pair of rows stays when both stay, so that the parts of a join are products; a row
of a set stays when one of its copies does. What counts by value (difference, distinct, groups) gives rows that never
end by themselves: all of their going is taking back.

Rows fall on values evenly and independently of each other, so that a value comes in Poisson's numbers.

A size does not depend on join order, nor on where differences and anti-joins stand: it is that of the graph with all
differences pushed down.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

from midstream.model.statistics import ByColumn, Name, Size, Statistics, Values
from midstream.optimize.guesses import DISTINCT, distinct_values, known, passing, rows_per_s, values_of, window_rows
from midstream.optimize.hopping.counts import absent, excess, present, still_present
from midstream.optimize.hopping.graph import (
    Computed,
    Difference,
    Graph,
    GroupOf,
    Outputs,
    Part,
    UnionOf,
    Without,
    alone,
    block_text,
    equal_columns,
    graph_of,
    graph_text,
    in_order,
    own_conjuncts,
    reads,
)
from midstream.optimize.hopping.push_difference import push_differences
from midstream.optimize.hopping.select_below import select_below
from midstream.optimize.matches import Matches
from midstream.plan.algebra import Rel, Scan, scans
from midstream.plan.expr import Column, Expr, columns
from midstream.plan.query import Query
from midstream.plan.window import RangeWindow

ByValues = dict[Name, Values]
"""The values of columns."""


def sized(complete: float, old: float, unmatured: float, staying: float, distinct: ByColumn) -> Size:
    """Return a size from the parts of its rows that stay."""
    taken_back = max(0.0, unmatured - staying)
    return Size(complete, complete * (1 - old), complete * taken_back, complete * (1 - unmatured), distinct)


class Sizes:
    """Sizes of the operators of trees, and of graphs, for one hop length."""

    def __init__(self, statistics: Statistics, hop_us: int) -> None:
        self.statistics = statistics
        self.hop_us = hop_us
        self._of_tree: dict[int, tuple[Rel, Size]] = {}
        self._of_graph: dict[Graph, Size] = {}
        self._of_part: dict[Part, Size] = {}
        self._pushed: dict[Difference, Graph] = {}

    @classmethod
    def of_query(cls, query: Query, statistics: Statistics) -> "Sizes":
        """Return the sizes for the hop of a query; rows that are counted come as fast as is known."""
        streams = {scan.source.stream.name: scan for scan in scans(query.root)}
        together = sum(rows_per_s(statistics, scan) for scan in streams.values())
        return cls(statistics, query.hop_span_us(together))

    def of(self, rel: Rel) -> Size:
        """Return the size of a tree's answer."""
        found = self._of_tree.get(id(rel))
        if found is None:
            size = self.graph(graph_of(rel))
            if self.statistics.measured:
                size = self._measured(size, signature(rel, self.statistics))
            # The tree is kept beside its size, so that no other can get its id.
            found = self._of_tree[id(rel)] = (rel, size)
        return found[1]

    def know(self, rel: Rel, size: Size) -> None:
        """Take what was seen of a tree's answer instead of an estimate."""
        self._of_tree[id(rel)] = (rel, size)

    def graph(self, graph: Graph) -> Size:
        """Return the size of a graph's answer."""
        found = self._of_graph.get(graph)
        if found is None:
            found = self._of_graph[graph] = self._graph(graph)
        return found

    def _graph(self, graph: Graph) -> Size:
        own = [self.filtered(part, own_conjuncts(graph, number)) for number, part in enumerate(graph.parts)]
        size = projected(self.block(graph, own, range(len(own)), graph.antis), graph.outputs)
        return self.as_set(size, graph) if graph.distinct else size

    def block(self, graph: Graph, own: Sequence[Size], chosen: Sequence[int], antis: Sequence[Without]) -> Size:
        """Return the size of some parts of a graph joined, less what some of its anti-joins leave out.

        `own`: the sizes of all parts, each under the conditions on it alone.
        """
        owners, inside = graph.owners(), set(chosen)
        within = [(c, at) for c in graph.conjuncts if (at := reads(owners, [c])) <= inside]
        distinct = {name: d for s in own for name, d in s.distinct.items()}
        passed = self.passing([c for c, at in within if len(at) > 1], distinct, self.common(graph.parts, distinct))
        size = self.joined([own[i] for i in chosen], passed, distinct)
        for anti in antis:
            size = self.without(size, anti)
        return self.seen(size, [graph.parts[i] for i in chosen], [c for c, _ in within], antis)

    def filtered(self, part: Part, conjuncts: Sequence[Expr]) -> Size:
        """Return the size of a part under conditions on it alone."""
        # Conditions on a difference or a set are taken as inside it: its size must not depend on where they are.
        inside = select_below(replace(alone(part), conjuncts=tuple(conjuncts)), 0)
        if inside is not None:
            part, conjuncts = inside.parts[0], inside.conjuncts
        size = self.part(part)
        passed, few = 1.0, dict(size.distinct)
        for conjunct in conjuncts:
            part_passed = passing(self.statistics, conjunct, size.distinct)
            passed *= part_passed
            names = {(c.alias, c.name) for c in columns(conjunct)}
            if len(names) == 1:
                few[min(names)] = max(1.0, few.get(min(names), 1.0) * part_passed)
        rows = size.complete * passed
        return self.seen(sized(rows, size.old, size.unmatured, size.staying, few), (part,), conjuncts, ())

    def part(self, part: Part) -> Size:
        """Return the size of a part."""
        found = self._of_part.get(part)
        if found is None:
            found = self._of_part[part] = self.made(part, *map(self.graph, graphs_in(part)))
        return found

    def made(self, part: Part, *below: Size) -> Size:
        """Return the size of a part that is made of graphs with these sizes."""
        match part, below:
            case Scan(), ():
                size = self._scan(part)
            case GroupOf(), (child,):
                size = self._groups(part, child)
            case UnionOf(), (left, right):
                size = _union(part, left, right)
            case Difference(), (left, right):
                size = self._difference(part, left, right)
            case _, _:
                size = below[0]
        return self.seen(size, (part,), (), ())

    def joined(self, sizes: Sequence[Size], passed: float, distinct: ByColumn) -> Size:
        """Return the size of a join of sizes of which conditions pass a part, with the values of its columns."""
        rows, old, unmatured, staying = passed, 1.0, 1.0, 1.0
        for size in sizes:
            rows, old = rows * size.complete, old * size.old
            unmatured, staying = unmatured * size.unmatured, staying * size.staying
        return sized(rows, old, unmatured, staying, distinct)

    def passing(self, conjuncts: Iterable[Expr], distinct: ByColumn, common: ByValues | None = None) -> float:
        """Return the part of all combinations that pass conditions."""
        return Conditions(((0, c) for c in conjuncts), self.statistics, distinct, common or {}).passing(0)

    def common(self, parts: Iterable[Part], distinct: ByColumn) -> ByValues:
        """Return the values of scanned columns, but of those that conditions on them alone choose from."""
        found = {}
        for column in (c for part in parts if isinstance(part, Scan) for c in part.columns):
            values = self.statistics.common.get((self.statistics.known_as(column.alias), column.name))
            if values is not None and distinct.get(_name(column)) == distinct_values(self.statistics, column):
                found[_name(column)] = values
        return found

    def without(self, left: Size, anti: Without, right: Size | None = None) -> Size:
        """Return what an anti-join leaves: a row stays when no partner comes, and is there when it has none."""
        right = right or self.graph(anti.right)
        distinct = {**left.distinct, **right.distinct}
        partners = right.complete * self.passing(anti.conjuncts, distinct)
        undisturbed = absent(partners * (1 - right.old))
        rows, old, staying = left.complete * absent(partners), left.old * undisturbed, left.staying * undisturbed
        return sized(rows, old, left.unmatured, staying, left.distinct)

    def as_set(self, size: Size, graph: Graph) -> Size:
        """Return the size of a graph's rows when each is given once."""
        return self._measured(distinct_of(size, graph.columns), graph_text(graph, self.statistics.known_as))

    def seen(self, size: Size, parts: Iterable[Part], conjuncts: Iterable[Expr], antis: Iterable[Without]) -> Size:
        """Return what was measured of a join instead of an estimate, if it was."""
        if not self.statistics.measured:
            return size
        return self._measured(size, block_text(parts, conjuncts, antis, self.statistics.known_as))

    def _measured(self, size: Size, text: str) -> Size:
        found = self.statistics.measured.get(text)
        if found is None:
            return size
        if found.hop_us in (None, self.hop_us):
            return replace(found, distinct=size.distinct)
        # Of another hop only the size is known; what comes and goes is in proportion to it.
        return size.scaled(found.complete)

    def _scan(self, scan: Scan) -> Size:
        rows, window = window_rows(self.statistics, scan), scan.source.window
        coming = min(rows, rows_per_s(self.statistics, scan) * self.hop_us / 1e6)
        distinct = {(c.alias, c.name): distinct_values(self.statistics, c) for c in scan.columns}
        if isinstance(window, RangeWindow):
            return Size(rows, coming, 0.0, coming, distinct)
        # Rows go when others come, which nobody knows beforehand: they are taken back.
        return Size(rows, coming, coming, 0.0, distinct)

    def _groups(self, part: GroupOf, child: Size) -> Size:
        if not part.keys:
            changed = present(child.positive + child.negative + child.matured)
            return sized(1.0, 1 - changed, 1.0, 1 - changed, {(c.alias, c.name): 1.0 for c in part.columns})
        possible = 1.0
        for key in part.keys:
            possible *= values_of(key, child.distinct)
        groups = possible * present(child.complete / possible)
        touched = present((child.positive + child.negative + child.matured) / max(groups, 1e-9))
        distinct = {(c.alias, c.name): max(1.0, groups) for c in part.columns}
        for column, key in zip(part.columns, part.keys, strict=False):
            distinct[(column.alias, column.name)] = values_of(key, child.distinct)
        return sized(groups, 1 - touched, 1.0, 1 - touched, distinct)

    def _difference(self, part: Difference, left: Size, right: Size) -> Size:
        if part not in self._pushed:
            self._pushed[part] = push_differences(alone(part))
        pushed = self._pushed[part]
        if not isinstance(pushed.parts[0], Difference) or len(pushed.parts) > 1:
            return taken_back(self.graph(pushed))
        values = max(_likely_values(left, part.left.columns), _likely_values(right, part.right.columns))
        size = (_less_bag if part.all else _less_set)(left, right, values)
        return replace(size, distinct=left.distinct)


class Conditions:
    """Conditions between parts: which of all combinations pass them. Equalities that follow from others pass all.

    Columns that are made equal match by their values, where common ones of two of them are known. Others match pair by
    pair, so that it does not matter which of them a difference is above.
    """

    def __init__(
        self, conjuncts: Iterable[tuple[int, Expr]], statistics: Statistics, distinct: ByColumn, common: ByValues
    ) -> None:
        ordered = sorted(((bits, in_order(c)) for bits, c in conjuncts), key=lambda found: str(found[1]))
        pairs = [(bits, c, equal_columns(c) if known(statistics, c) is None else None) for bits, c in ordered]
        classes = _together((_name(p[0]), _name(p[1])) for _, _, p in pairs if p)
        values = {n: common.get(n) or Values(distinct.get(n, DISTINCT)) for names in classes for n in names}
        skewed = [names for names in classes if len(names & common.keys()) > 1]
        self._matches = {n: Matches({m: values[m] for m in names}) for names in skewed for n in names}
        self._each = [
            (bits, p and (_name(p[0]), _name(p[1])), passing(statistics, c, distinct)) for bits, c, p in pairs
        ]

    def passing(self, parts: int) -> float:
        """Return the part of all combinations of some parts, as bits, that passes the conditions among them."""
        passed, sets = 1.0, list[set[Name]]()
        for bits, pair, own in self._each:
            if bits & ~parts:
                continue
            if pair and any(s.issuperset(pair) for s in sets):
                continue
            sets = _together([pair], sets) if pair else sets
            passed *= 1.0 if pair and pair[0] in self._matches else own
        skewed = (names for names in sets if not names.isdisjoint(self._matches))
        return passed * prod(self._matches[min(names)].part(sorted(names)) for names in skewed)


def _name(column: Column) -> Name:
    return column.alias, column.name


def _together(pairs: Iterable[tuple[Name, Name]], sets: Sequence[set[Name]] = ()) -> list[set[Name]]:
    """Return sets of columns that are the same, when pairs of them are, too."""
    found = list(sets)
    for pair in pairs:
        met = [s for s in found if not s.isdisjoint(pair)]
        found = [s for s in found if s.isdisjoint(pair)] + [set(pair).union(*met)]
    return found


def graphs_in(part: Part) -> tuple[Graph, ...]:
    """Return the graphs that a part is made of."""
    match part:
        case GroupOf(child):
            return (child,)
        case UnionOf(left, right) | Difference(left, right):
            return left, right
        case Computed(graph):
            return (graph,)
        case Graph():
            return (part,)
    return ()


def taken_back(size: Size) -> Size:
    """Return the size of a difference's answer, which does not end by itself."""
    return replace(size, negative=size.negative + size.matured, matured=0.0)


def across(graph: Graph) -> list[Expr]:
    """Return the conditions of a graph that read more than one part."""
    owners = graph.owners()
    return [c for c in graph.conjuncts if len(reads(owners, [c])) > 1]


def projected(size: Size, outputs: Outputs) -> Size:
    """Return a size with the columns of a projection."""
    return replace(size, distinct={(c.alias, c.name): values_of(e, size.distinct) for c, e in outputs})


def distinct_of(size: Size, given: Sequence[Column]) -> Size:
    """Return the size of a set of rows: a value stays when it is there at both hops."""
    values = _values(size, given)
    mean = size.complete / values
    rows, both = values * present(mean), still_present(mean, size.staying)
    return sized(rows, both, 1.0, both, size.distinct)


def _values(size: Size, given: Sequence[Column]) -> float:
    """Return how many different rows there could be."""
    found = 1.0
    for column in given:
        found *= size.distinct.get((column.alias, column.name), 1.0)
    return max(1.0, found)


def _likely_values(size: Size, given: Sequence[Column]) -> float:
    """Return over how many different rows two sides that are compared spread.

    Columns that are compared together belong together: there are no more combinations than rows, if values allow it.
    """
    most = max((size.distinct.get((c.alias, c.name), 1.0) for c in given), default=1.0)
    return max(most, min(_values(size, given), size.complete))


def _less_bag(left: Size, right: Size, values: float) -> Size:
    """Return EXCEPT ALL. Copies that go and come in one hop make no change: what is left of both does, at most."""
    a, b = left.complete / values, right.complete / values
    rows = values * excess(a, b)
    moved = a * (1 - left.staying) + b * (1 - right.staying)
    staying = left.staying * absent(b / (1 + a) * (1 - right.staying))
    coming = min(values * excess(moved, moved), rows * (1 - staying))
    return Size(rows, coming, coming, 0.0)


def _less_set(left: Size, right: Size, values: float) -> Size:
    """Return EXCEPT: the values that are on the left and not on the right."""
    a, b = left.complete / values, right.complete / values
    staying = still_present(a, left.staying) * absent(b * (1 - right.staying))
    return sized(values * present(a) * absent(b), staying, 1.0, staying, {})


def _union(part: UnionOf, left: Size, right: Size) -> Size:
    sums = (
        left.complete + right.complete,
        left.positive + right.positive,
        left.negative + right.negative,
        left.matured + right.matured,
    )
    distinct: ByColumn = {}
    for column, a, b in zip(part.columns, part.left.columns, part.right.columns, strict=True):
        both = (left.distinct.get((a.alias, a.name), 1.0), right.distinct.get((b.alias, b.name), 1.0))
        distinct[(column.alias, column.name)] = max(both)
    return Size(*sums, distinct)


def signature(rel: Rel, statistics: Statistics) -> str:
    """Write what a tree gives in one line, the same for every join order and every place of a difference."""
    graph = push_differences(graph_of(rel))
    if graph.distinct:
        return graph_text(graph, statistics.known_as)
    return block_text(graph.parts, graph.conjuncts, graph.antis, statistics.known_as)
