"""The steps of a plan that answers row by row: scans of windowed streams and the joins, or differences, above them."""

from dataclasses import dataclass
from typing import Literal as OneOf

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.plan import algebra
from midstream.plan.algebra import Rel
from midstream.plan.expr import Expr, aliases
from midstream.plan.predicates import Comparison, Predicates
from midstream.plan.source import Source

JoinMethod = OneOf["hash", "nested-loop"]
MethodChoice = OneOf["auto", "hash", "nested-loop"]


@dataclass(frozen=True)
class Scan:
    """A source's rows, windowed and then filtered."""

    source: Source
    filters: tuple[Expr, ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return the one alias."""
        return (self.source.alias,)


@dataclass(frozen=True)
class JoinKey:
    """One equality of a join: an expression of each side, compared as `type`; `group` numbers the equality class."""

    left: Expr
    right: Expr
    type: pa.DataType
    group: int

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


@dataclass(frozen=True)
class Join:
    """Combinations of two inputs that satisfy keys, comparisons and residuals inside their windows."""

    left: "Node"
    right: "Node"
    method: JoinMethod
    keys: tuple[JoinKey, ...]
    comparisons: tuple[Comparison, ...]
    residuals: tuple[Expr, ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return the aliases from left to right: the order of a result's components."""
        return self.left.aliases + self.right.aliases

    @property
    def condition(self) -> str:
        """Return the join condition as text."""
        parts = [*map(str, self.keys), *map(str, self.comparisons), *map(str, self.residuals)]
        return " AND ".join(parts) or "TRUE"


@dataclass(frozen=True)
class Difference:
    """The values of the left input that the window of the right one does not hold."""

    left: "Node"
    right: Scan
    values: tuple[Expr, ...]
    """What is computed from the right input's rows and taken away."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return the aliases from left to right: what is left, then what was taken away."""
        return self.left.aliases + self.right.aliases


Node = Scan | Join | Difference


def lay_out(root: Rel, predicates: Predicates, method: MethodChoice, order: tuple[str, ...] = ()) -> Node:
    """Return the joins, or differences, of a tree, each condition on the lowest of them that has all its columns.

    With an `order` of aliases the input that has the first of them is the left one of a join: the sides mean nothing.
    """
    match root:
        case algebra.Scan(source=source):
            return Scan(source, predicates.filters[source.alias])
        case algebra.Except(left=left, right=right):
            taken = lay_out(right, predicates, method, order)
            assert isinstance(taken, Scan), "one side of a difference reads one stream"
            values = tuple(expr for _, expr in right.outputs) if isinstance(right, algebra.Project) else right.columns
            return Difference(lay_out(left, predicates, method, order), taken, values)
        case algebra.Join(left=left, right=right):
            sides = [lay_out(side, predicates, method, order) for side in (left, right)]
            if order:
                sides.sort(key=lambda side: min(map(order.index, side.aliases)))
            return _join(sides[0], sides[1], predicates, method)
        case _:
            return lay_out(algebra.inputs(root)[0], predicates, method, order)


def _join(left: Node, right: Node, predicates: Predicates, method: MethodChoice) -> Join:
    lefts, rights = frozenset(left.aliases), frozenset(right.aliases)
    keys = []
    for group, cls in enumerate(predicates.classes):
        a, b = cls.member_of(lefts), cls.member_of(rights)
        if a is not None and b is not None:
            keys.append(JoinKey(a, b, cls.type, group))
    comparisons = [c for p in predicates.comparisons if (c := p.between(lefts, rights)) is not None]
    residuals = [r for r in predicates.residuals if _first_possible(r, lefts, rights)]
    if method == "hash" and not keys:
        raise PlanError(
            f'join = "hash" needs an equality between ({" ".join(left.aliases)}) and ({" ".join(right.aliases)}), '
            "and there is none"
        )
    chosen: JoinMethod = "nested-loop" if method == "nested-loop" or not keys else "hash"
    return Join(left, right, chosen, tuple(keys), tuple(comparisons), tuple(residuals))


def _first_possible(residual: Expr, lefts: frozenset[str], rights: frozenset[str]) -> bool:
    names = aliases(residual)
    return names <= lefts | rights and not names <= lefts and not names <= rights


def steps(node: Node) -> list[Join | Difference]:
    """Return the joins and differences of a subtree, inputs before those that read them."""
    return [] if isinstance(node, Scan) else [*steps(node.left), *steps(node.right), node]


def joins(node: Node) -> list[Join]:
    """Return the joins of a subtree, inputs before the joins that read them."""
    return [step for step in steps(node) if isinstance(step, Join)]
