"""What a query's conjuncts are good for: filters, equality classes, comparisons, and the rest.

conjunct reading one source            -> filter of that source
f(a) = g(b)                            -> member of an equality class (transitive, so any join order has its keys)
f(a) < g(b), <=, >, >=, <>             -> comparison, checked inside the join kernels
anything else over several sources     -> residual, checked on the rows that are left
"""

from dataclasses import dataclass

import pyarrow as pa

from midstream.model.types import is_exact_code
from midstream.plan.expr import COMPARISONS, MIRRORED, Call, Cast, Expr, aliases, cast_to
from midstream.plan.query import Query


@dataclass(frozen=True)
class EqualityClass:
    """Expressions of different sources that are all equal when compared as `type`."""

    type: pa.DataType
    members: tuple[Expr, ...]

    @property
    def aliases(self) -> frozenset[str]:
        """Return the sources of the members."""
        return frozenset().union(*map(aliases, self.members))

    def member_of(self, names: frozenset[str]) -> Expr | None:
        """Return the first member that reads one of the given aliases, or None."""
        return next((m for m in self.members if aliases(m) <= names), None)

    def __str__(self) -> str:
        return " = ".join(map(str, self.members))


@dataclass(frozen=True)
class Comparison:
    """`left op right` with each side computed from one source, compared as `type`."""

    left: Expr
    op: str
    right: Expr
    type: pa.DataType

    def between(self, lefts: frozenset[str], rights: frozenset[str]) -> "Comparison | None":
        """Return the comparison with its sides on the given sides of a join, or None when it is not between them."""
        a, b = aliases(self.left), aliases(self.right)
        if a <= lefts and b <= rights:
            return self
        if a <= rights and b <= lefts:
            return Comparison(self.right, MIRRORED[self.op], self.left, self.type)
        return None

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True)
class Predicates:
    """The conjuncts of one query, sorted by use. Together they mean exactly the WHERE clause."""

    constants: tuple[Expr, ...]
    filters: dict[str, tuple[Expr, ...]]
    classes: tuple[EqualityClass, ...]
    comparisons: tuple[Comparison, ...]
    residuals: tuple[Expr, ...]

    @property
    def conditions(self) -> dict[str, frozenset[str]]:
        """Return what is compared between sources other than by equality, as text, with the aliases it reads."""
        compared = {str(c): aliases(c.left) | aliases(c.right) for c in self.comparisons}
        return compared | {str(r): aliases(r) for r in self.residuals}

    @property
    def relates_streams(self) -> bool:
        """Tell whether a condition is about rows of several sources."""
        return bool(self.classes or self.comparisons or self.residuals)


def classify(query: Query) -> Predicates:
    """Sort the conjuncts of a query that answers row by row by what they are good for."""
    parts = query.parts
    constants: list[Expr] = []
    filters: dict[str, list[Expr]] = {a: [] for a in query.aliases}
    equalities: list[Comparison] = []
    comparisons: list[Comparison] = []
    residuals: list[Expr] = []
    for conjunct, names in ((c, aliases(c) or block.own) for block in parts.blocks for c in block.conjuncts):
        comparison = _separable(conjunct)
        if not names:
            constants.append(conjunct)
        elif len(names) == 1:
            filters[min(names)].append(conjunct)
        elif comparison is None:
            residuals.append(conjunct)
        elif comparison.op == "=":
            equalities.append(comparison)
        elif is_exact_code(comparison.type):
            comparisons.append(comparison)
        else:
            residuals.append(conjunct)
    classes = _merge(equalities)
    for cls in classes:
        for alias in query.aliases:
            same = [m for m in cls.members if aliases(m) == {alias}]
            for other in same[1:]:
                pair = (cast_to(same[0], cls.type), cast_to(other, cls.type))
                filters[alias].append(Call("=", pair, pa.bool_()))
    return Predicates(
        tuple(constants),
        {a: tuple(f) for a, f in filters.items()},
        classes,
        tuple(comparisons),
        tuple(residuals),
    )


def _separable(conjunct: Expr) -> Comparison | None:
    if not isinstance(conjunct, Call) or conjunct.function not in COMPARISONS:
        return None
    left, right = conjunct.args
    a, b = aliases(left), aliases(right)
    if len(a) != 1 or len(b) != 1 or a == b or left.type != right.type:
        return None
    return Comparison(_bare(left), conjunct.function, _bare(right), _compared_as(left.type))


def _compared_as(t: pa.DataType) -> pa.DataType:
    """Return the widest type of the same kind, so that equalities of narrow and wide integers form one class."""
    if pa.types.is_integer(t):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(t) else t


def _bare(side: Expr) -> Expr:
    """Drop the cast to the compared type: the comparison says it once, so `k` is the same member everywhere."""
    return side.arg if isinstance(side, Cast) else side


def _merge(equalities: list[Comparison]) -> tuple[EqualityClass, ...]:
    """Join equalities that share a member into classes, in order of first mention.

    Equality is transitive only among values compared as the same type, so members merge per type.
    """
    classes: list[tuple[pa.DataType, list[Expr]]] = []
    for equality in equalities:
        pair = [equality.left, equality.right]
        touched = [c for c in classes if c[0] == equality.type and any(m in c[1] for m in pair)]
        members = [m for c in touched for m in c[1]] + pair
        merged = (equality.type, list(dict.fromkeys(members)))
        if touched:
            place = classes.index(touched[0])
            classes = [c for c in classes if c not in touched]
            classes.insert(place, merged)
        else:
            classes.append(merged)
    return tuple(EqualityClass(t, tuple(m)) for t, m in classes)
