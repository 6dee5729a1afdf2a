"""The extended join graph of a tree: what is joined, by which conditions, without what, and what is given of it.

    Graph   outputs ◀── parts joined under conjuncts, less those with a partner in an anti-join's right side
    part    a scan | GroupOf | UnionOf | Difference of two graphs | a graph that is made a set before it is joined
            | Computed (a graph whose columns are computed before they are read)

A graph says nothing about join order and about where anti-joins stand; projections inside are put into the expressions,
unless those would grow too long.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from midstream.plan.aggregates import Aggregate
from midstream.plan.algebra import Anti, Distinct, Except, Group, Join, Project, Rel, Scan, Select, Union, group_columns
from midstream.plan.expr import Call, Column, Expr, children, columns, replace_columns

Outputs = tuple[tuple[Column, Expr], ...]
LONGEST = 200
"""Operators and columns in an expression that a projection further down has been put into more than once."""


@dataclass(frozen=True)
class GroupOf:
    """The groups of a graph's rows."""

    child: "Graph"
    alias: str
    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return a column for each key and each aggregate, named as `Group` does."""
        return group_columns(self.alias, self.keys, self.aggregates)


@dataclass(frozen=True)
class UnionOf:
    """The rows of two graphs."""

    left: "Graph"
    right: "Graph"
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Difference:
    """The rows of one graph less those of another, by position.

    `core`: the columns that decide; the others come from parts that both sides join in the same way, so that a row's
    fate does not depend on them. All columns, when nothing is known.
    """

    left: "Graph"
    right: "Graph"
    all: bool
    core: frozenset[Column] | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the left side."""
        return self.left.columns


@dataclass(frozen=True)
class Without:
    """An anti-join: rows with a partner in `right` are left out."""

    right: "Graph"
    conjuncts: tuple[Expr, ...]


@dataclass(frozen=True)
class Graph:
    """Parts, all joined. `distinct`: each different row of the answer is given once."""

    outputs: Outputs
    parts: tuple["Part", ...]
    conjuncts: tuple[Expr, ...] = ()
    antis: tuple[Without, ...] = ()
    distinct: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns that are given."""
        return tuple(c for c, _ in self.outputs)

    def owners(self) -> dict[Column, int]:
        """Return the number of the part that gives a column."""
        return {c: i for i, part in enumerate(self.parts) for c in part.columns}


@dataclass(frozen=True)
class Computed:
    """A graph whose columns are computed before they are read, since those who read them read them more than once."""

    graph: Graph

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns that are given."""
        return self.graph.columns


Part = Scan | GroupOf | UnionOf | Difference | Graph | Computed


def reads(owners: dict[Column, int], exprs: Iterable[Expr]) -> frozenset[int]:
    """Return the numbers of the parts that expressions read; columns of no part do not count."""
    return frozenset(owners[c] for e in exprs for c in columns(e) if c in owners)


def own_conjuncts(graph: Graph, number: int) -> list[Expr]:
    """Return the conditions on one part alone; those on nothing are on the first one."""
    owners = graph.owners()
    return [c for c in graph.conjuncts if (reads(owners, [c]) or {0}) == {number}]


def alone(part: Part) -> Graph:
    """Return the graph that is one part."""
    return Graph(tuple((c, c) for c in part.columns), (part,))


def graph_of(rel: Rel) -> Graph:
    """Return the graph of a tree, anti-joins and differences where they are written."""
    if isinstance(rel, Distinct):
        inner = graph_of(rel.child)
        return replace(inner, distinct=True)
    return _graph(rel.columns, _flat(rel))


Flat = tuple[dict[Column, Expr], list[Part], list[Expr], list[Without]]


def _graph(given: tuple[Column, ...], flat: Flat) -> Graph:
    exprs, parts, conjuncts, antis = flat
    return Graph(tuple((c, exprs[c]) for c in given), tuple(parts), tuple(dict.fromkeys(conjuncts)), tuple(antis))


def _flat(rel: Rel) -> Flat:
    """Return what a tree's columns are computed from, and the parts, conditions and anti-joins below it."""
    match rel:
        case Select(child, conjuncts):
            exprs, parts, conditions, antis = _flat(child)
            return exprs, parts, [*conditions, *(substituted(c, exprs) for c in conjuncts)], antis
        case Project(child, outputs):
            exprs, parts, conditions, antis = below = _flat(child)
            made = {c: substituted(e, exprs) for c, e in outputs}
            if _repeats(outputs, exprs) and max(map(_length, made.values())) > LONGEST:
                return dict(outputs), [Computed(_graph(child.columns, below))], [], []
            return made, parts, conditions, antis
        case Join(left, right, conjuncts):
            (a, a_parts, a_conditions, a_antis), (b, b_parts, b_conditions, b_antis) = _flat(left), _flat(right)
            exprs = {**a, **b}
            own = [substituted(c, exprs) for c in conjuncts]
            return exprs, [*a_parts, *b_parts], [*a_conditions, *b_conditions, *own], [*a_antis, *b_antis]
        case Anti(left, right, conjuncts):
            exprs, parts, conditions, antis = _flat(left)
            own = [substituted(c, exprs) for c in conjuncts]
            return exprs, parts, conditions, [*antis, Without(graph_of(right), tuple(own))]
        case Scan():
            part: Part = rel
        case Distinct():
            part = graph_of(rel)
        case Group(child, alias, keys, aggregates):
            part = grouped(graph_of(child), alias, keys, aggregates)
        case Union(left, right, names):
            part = UnionOf(graph_of(left), graph_of(right), names)
        case Except(left, right, all_):
            part = Difference(graph_of(left), graph_of(right), all_)
    return {c: c for c in part.columns}, [part], [], []


def _repeats(outputs: Outputs, exprs: dict[Column, Expr]) -> bool:
    """Tell whether a projection reads something that is computed below it more than once."""
    read = [c for _, e in outputs for c in columns(e)]
    return any(read.count(c) > 1 for c, e in exprs.items() if children(e))


def _length(expr: Expr) -> int:
    return 1 + sum(map(_length, children(expr)))


def grouped(child: Graph, alias: str, keys: tuple[Expr, ...], aggregates: tuple[Aggregate, ...]) -> GroupOf:
    """Return the groups of a graph's rows, computed from the columns of its parts instead of from projected ones."""
    if child.distinct:
        return GroupOf(child, alias, keys, aggregates)
    by = dict(child.outputs)
    own = tuple(replace(a, argument=None if a.argument is None else substituted(a.argument, by)) for a in aggregates)
    plain = replace(child, outputs=tuple((c, c) for p in child.parts for c in p.columns))
    return GroupOf(plain, alias, tuple(substituted(k, by) for k in keys), own)


def substituted(expr: Expr, by: dict[Column, Expr]) -> Expr:
    """Put expressions in the place of columns."""
    return replace_columns(expr, lambda c: by.get(c, c))


def over_parts(graph: Graph, parts: Iterable[Part], by: dict[Column, Expr]) -> Graph:
    """Return a graph over other parts, from which the columns it reads are computed."""
    return Graph(
        tuple((c, substituted(e, by)) for c, e in graph.outputs),
        tuple(parts),
        tuple(substituted(c, by) for c in graph.conjuncts),
        tuple(Without(a.right, tuple(substituted(c, by) for c in a.conjuncts)) for a in graph.antis),
        graph.distinct,
    )


def spliced(graph: Graph, number: int, inner: Graph) -> Graph:
    """Put the parts of an inner graph, which is no set, in the place of a part with the same columns."""
    parts = (*graph.parts[:number], *inner.parts, *graph.parts[number + 1 :])
    found = over_parts(graph, parts, dict(inner.outputs))
    conjuncts = tuple(dict.fromkeys([*found.conjuncts, *inner.conjuncts]))
    return replace(found, conjuncts=conjuncts, antis=(*found.antis, *inner.antis))


def aliases_of(what: Part) -> tuple[str, ...]:
    """Return every alias that names columns in something, in reading order."""
    match what:
        case Scan(source):
            found = [source.alias]
        case GroupOf(child, alias):
            found = [*aliases_of(child), alias]
        case UnionOf(left, right, names):
            found = [*aliases_of(left), *aliases_of(right), *(c.alias for c in names)]
        case Difference(left, right):
            found = [*aliases_of(left), *aliases_of(right)]
        case Computed(graph):
            found = [*aliases_of(graph)]
        case Graph(outputs, parts, _, antis):
            inner = (*parts, *(a.right for a in antis))
            found = [a for i in inner for a in aliases_of(i)] + [c.alias for c, _ in outputs]
    return tuple(dict.fromkeys(found))


def in_order(conjunct: Expr) -> Expr:
    """Write an equality in one way, whichever side it was written from."""
    if isinstance(conjunct, Call) and conjunct.function == "=":
        return replace(conjunct, args=tuple(sorted(conjunct.args, key=str)))
    return conjunct


def equal_columns(conjunct: Expr) -> tuple[Column, Column] | None:
    """Return two columns of one type that a condition makes the same value; not floats, which are equal in two ways."""
    if not isinstance(conjunct, Call) or conjunct.function != "=":
        return None
    left, right = conjunct.args
    if not isinstance(left, Column) or not isinstance(right, Column) or left.type != right.type:
        return None
    return None if str(left.type) in ("halffloat", "float", "double") else (left, right)


Known = Callable[[str], str]


def graph_text(graph: Graph, known_as: Known = str) -> str:
    """Write what a graph gives in one line that does not depend on the order of its parts."""
    return f"({', '.join(_output_texts(graph, known_as))} of {_rows_text(graph, known_as)})"


def _output_texts(graph: Graph, known_as: Known) -> list[str]:
    texts = [(_expr_text(e, known_as), _expr_text(c, known_as)) for c, e in graph.outputs]
    return [e if e == c else f"{e} as {c}" for e, c in texts]


def _rows_text(graph: Graph, known_as: Known) -> str:
    block = block_text(graph.parts, graph.conjuncts, graph.antis, known_as)
    return f"distinct {block}" if graph.distinct else block


def block_text(
    parts: Iterable[Part], conjuncts: Iterable[Expr], antis: Iterable[Without], known_as: Known = str
) -> str:
    """Write what is joined, under which conditions and without what, in one line."""
    texts = sorted(part_text(p, known_as) for p in parts)
    if conjuncts:
        texts.append(f"where {' and '.join(sorted(_expr_text(in_order(c), known_as) for c in conjuncts))}")
    for right, conditions in sorted(
        (graph_text(a.right, known_as), sorted(_expr_text(in_order(c), known_as) for c in a.conjuncts)) for a in antis
    ):
        texts.append(f"without {right} on {' and '.join(conditions)}")
    return " ".join(texts)


def part_text(part: Part, known_as: Known = str) -> str:
    """Write a part in one line."""
    match part:
        case Scan(source):
            return known_as(source.alias)
        case GroupOf(child, alias, keys, aggregates):
            own = [*(_expr_text(k, known_as) for k in keys), *map(str, aggregates)]
            return f"(group {known_as(alias)}: {', '.join(own)} of {graph_text(child, known_as)})"
        case UnionOf(left, right):
            return f"(union {graph_text(left, known_as)} {graph_text(right, known_as)})"
        case Difference(left, right, all_):
            # Columns are compared by position, but it does not matter which position that is.
            pairs = sorted(zip(_output_texts(left, known_as), _output_texts(right, known_as), strict=True))
            given = [", ".join(side) for side in zip(*pairs, strict=True)]
            sides = f"({given[0]} of {_rows_text(left, known_as)}) ({given[1]} of {_rows_text(right, known_as)})"
            return f"(except{'-all' if all_ else ''} {sides})"
        case Graph():
            return graph_text(part, known_as)
        case Computed(graph):
            return f"(project {graph_text(graph, known_as)})"


def _expr_text(expr: Expr, known_as: Known) -> str:
    return str(replace_columns(expr, lambda c: replace(c, alias=known_as(c.alias))))
