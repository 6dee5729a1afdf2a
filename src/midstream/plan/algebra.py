"""Algebra: what a query computes, as operators over the windows of its streams.

    Scan ──▶ Select, Project ──▶ Join, Anti, Except, Union, Distinct, Windowed, Group ──▶ the answer

Every node is a frozen value and knows the columns it gives. A column is named by alias and name all through a tree:
aliases of scans, projections, unions and groups are distinct, so that operators can be moved without renaming.
Relations are bags: a row may come more than once, unless an operator makes it a set.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.plan.aggregates import Aggregate
from midstream.plan.expr import Column, Expr, columns, quoted
from midstream.plan.source import Source
from midstream.plan.window import Instances


@dataclass(frozen=True)
class Scan:
    """The rows in a stream's window; without one, each row by itself."""

    source: Source
    columns: tuple[Column, ...]
    """The columns that are read, all under the source's alias."""

    def __post_init__(self) -> None:
        stream = self.source.stream
        for column in (*self.columns, *self.source.partition_by):
            held = stream.type_of(column.name) if column.name in stream.columns.names else None
            if held is None:
                raise PlanError(f"there is no column {column}")
            if held != column.type:
                raise PlanError(f"column {column} is {held}, not {column.type}")
        if any(c.alias != self.source.alias for c in self.columns):
            raise PlanError(f"a scan of '{self.source.alias}' gives columns of its own")

    def __str__(self) -> str:
        return quoted(self.source.alias)


@dataclass(frozen=True)
class Select:
    """The rows for which every condition is true."""

    child: "Rel"
    conjuncts: tuple[Expr, ...]

    def __post_init__(self) -> None:
        _check_conditions(self.conjuncts, self.child.columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return what the child gives."""
        return self.child.columns


@dataclass(frozen=True)
class Project:
    """One row for every row, made of expressions; each has a new column's name."""

    child: "Rel"
    outputs: tuple[tuple[Column, Expr], ...]

    def __post_init__(self) -> None:
        _check([e for _, e in self.outputs], self.child.columns)
        for column, expr in self.outputs:
            if column.type != expr.type:
                raise PlanError(f"{column} is {column.type}, but {expr} is {expr.type}")

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the new columns."""
        return tuple(column for column, _ in self.outputs)


@dataclass(frozen=True)
class Join:
    """Every pair of rows for which every condition is true."""

    left: "Rel"
    right: "Rel"
    conjuncts: tuple[Expr, ...] = ()

    def __post_init__(self) -> None:
        _check_conditions(self.conjuncts, self.columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of both sides."""
        return (*self.left.columns, *self.right.columns)


@dataclass(frozen=True)
class Anti:
    """The left rows for which no right row makes every condition true."""

    left: "Rel"
    right: "Rel"
    conjuncts: tuple[Expr, ...] = ()

    def __post_init__(self) -> None:
        _check_conditions(self.conjuncts, (*self.left.columns, *self.right.columns))

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the left side."""
        return self.left.columns


@dataclass(frozen=True)
class Except:
    """The left rows, less the right ones, compared by position, NULLs equal.

    `all`: of a row that comes l times on the left and r times on the right, max(l - r, 0) are left; else one if
    l > 0 and r = 0.
    """

    left: "Rel"
    right: "Rel"
    all: bool = False

    def __post_init__(self) -> None:
        _check_sides("EXCEPT", self.left, self.right)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the left side."""
        return self.left.columns


@dataclass(frozen=True)
class Union:
    """The rows of both sides, one after the other (UNION ALL), under new columns' names."""

    left: "Rel"
    right: "Rel"
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        _check_sides("UNION", self.left, self.right)
        if [c.type for c in self.columns] != [c.type for c in self.left.columns]:
            raise PlanError("a UNION has the columns of its sides")


@dataclass(frozen=True)
class Distinct:
    """Every different row once, NULLs equal."""

    child: "Rel"

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return what the child gives."""
        return self.child.columns


@dataclass(frozen=True)
class Windowed:
    """The child's results in the instances of a window, one instance after the other, for the group right above."""

    child: "Rel"
    window: Instances

    def __post_init__(self) -> None:
        _check(self.window.reads, self.child.columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return what the child gives."""
        return self.child.columns


@dataclass(frozen=True)
class Group:
    """One row for every different value of the keys, NULLs equal: the keys and the aggregates of the rows with it.

    Without keys there is one row, also of no rows. Columns: `key0`, `key1`, ..., `agg0`, `agg1`, ... under `alias`.
    """

    child: "Rel"
    alias: str
    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]

    def __post_init__(self) -> None:
        _check([*self.keys, *(a.argument for a in self.aggregates if a.argument is not None)], self.child.columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return a column for each key and each aggregate."""
        return group_columns(self.alias, self.keys, self.aggregates)


def group_columns(alias: str, keys: tuple[Expr, ...], aggregates: tuple[Aggregate, ...]) -> tuple[Column, ...]:
    """Return the columns of groups: a column for each key and each aggregate."""
    named = [*((f"key{i}", k) for i, k in enumerate(keys)), *((f"agg{i}", a) for i, a in enumerate(aggregates))]
    return tuple(Column(alias, name, of.type) for name, of in named)


Rel = Scan | Select | Project | Join | Anti | Except | Union | Distinct | Windowed | Group


def inputs(rel: Rel) -> tuple[Rel, ...]:
    """Return the relations an operator reads, left before right."""
    match rel:
        case Scan():
            return ()
        case Select() | Project() | Distinct() | Windowed() | Group():
            return (rel.child,)
        case Join() | Anti() | Except() | Union():
            return (rel.left, rel.right)


def over(rel: Rel, *children: Rel) -> Rel:
    """Return the same operator over other inputs."""
    match rel:
        case Scan():
            return rel
        case Select() | Project() | Distinct() | Windowed() | Group():
            (child,) = children
            return replace(rel, child=child)
        case _:
            left, right = children
            return replace(rel, left=left, right=right)


Path = tuple[int, ...]
"""The way from the root to an operator: 0 is the left or only input, 1 the right."""


def walk(rel: Rel, path: Path = ()) -> Iterator[tuple[Path, Rel]]:
    """Yield the operators and scans of a tree with their paths, inputs before those that read them."""
    for i, child in enumerate(inputs(rel)):
        yield from walk(child, (*path, i))
    yield path, rel


def operators(root: Rel) -> Iterator[Rel]:
    """Yield the operators of a tree, scans left out, inputs before those that read them."""
    return (rel for _, rel in walk(root) if not isinstance(rel, Scan))


def scans(root: Rel) -> Iterator[Scan]:
    """Yield the scans of a tree from left to right."""
    return (rel for _, rel in walk(root) if isinstance(rel, Scan))


def differences(rel: Rel) -> tuple[Rel, list[Except]]:
    """Return what a chain of differences begins with, and the differences, innermost first."""
    chain: list[Except] = []
    while isinstance(rel, Except):
        chain.insert(0, rel)
        rel = rel.left
    return rel, chain


def rewrite(rel: Rel, by: Callable[[Rel], Rel]) -> Rel:
    """Put something in the place of every node, inputs first."""
    return by(over(rel, *(rewrite(child, by) for child in inputs(rel))))


def name_of(rel: Rel) -> str:
    """Name an operator in one word, as plans are written.

    >>> name_of(Distinct.__new__(Distinct))
    'distinct'
    """
    if isinstance(rel, Except):
        return "except-all" if rel.all else "except"
    return type(rel).__name__.lower()


def relation_text(rel: Rel, modes: Mapping[Path, str] | None = None, path: Path = ()) -> str:
    """Write a tree in one line, the leaves by alias, the operators by name, with their modes if they have some.

    `(except (join a b) c)`, `(except:CICO (join:DICO a b) c)`
    """
    if isinstance(rel, Scan):
        return str(rel)
    name = f"{name_of(rel)}:{modes[path]}" if modes else name_of(rel)
    below = [relation_text(child, modes, (*path, i)) for i, child in enumerate(inputs(rel))]
    return f"({' '.join([name, *below])})"


def schema_of(rel: Rel) -> pa.Schema:
    """Return what a tree gives as an Arrow schema."""
    return pa.schema([pa.field(c.name, c.type) for c in rel.columns])


def expressions(rel: Rel) -> list[Expr]:
    """Return everything that an operator computes from the rows it reads."""
    match rel:
        case Select() | Join() | Anti():
            return list(rel.conjuncts)
        case Project(outputs=outputs):
            return [expr for _, expr in outputs]
        case Windowed(window=window):
            return list(window.reads)
        case Group(keys=keys, aggregates=aggregates):
            return [*keys, *(a.argument for a in aggregates if a.argument is not None)]
        case _:
            return []


def read_only_used(root: Rel) -> Rel:
    """Let every scan read the columns that something above it reads, or else the time."""
    used = {column for rel in operators(root) for expr in expressions(rel) for column in columns(expr)}

    def pruned(rel: Rel) -> Rel:
        if not isinstance(rel, Scan):
            return rel
        time = rel.source.stream.time
        read = tuple(c for c in rel.columns if c in used)
        return replace(rel, columns=read or tuple(c for c in rel.columns if c.name == time))

    return rewrite(root, pruned)


def _check_conditions(conditions: tuple[Expr, ...], known: tuple[Column, ...]) -> None:
    _check(conditions, known)
    for condition in conditions:
        if not (pa.types.is_boolean(condition.type) or pa.types.is_null(condition.type)):
            raise PlanError(f"a condition is true or false, but {condition} is {condition.type}")


def _check(exprs: "list[Expr] | tuple[Expr, ...]", known: tuple[Column, ...]) -> None:
    for expr in exprs:
        for column in columns(expr):
            if column not in known:
                raise PlanError(f"there is no column {column} here")


def _check_sides(what: str, left: Rel, right: Rel) -> None:
    if [c.type for c in left.columns] != [c.type for c in right.columns]:
        raise PlanError(f"the sides of {what} have columns of different types")
