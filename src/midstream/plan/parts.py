"""The parts of a query that answers row by row, as its operators work on them: blocks, and stages above the first.

    streams ──▶ block: joined, WHERE, SELECT ──▶ stage: window, WHERE, GROUP BY, HAVING, SELECT ──▶ next stage
    streams ──▶ one block each ──▶ the first one's values, less those of the others

All of it is read off the query's tree; a tree that has no such parts is refused by the name of what is missing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile

import pyarrow as pa

from midstream.plan.aggregates import Aggregate
from midstream.plan.algebra import (
    Except,
    Group,
    Join,
    Project,
    Rel,
    Scan,
    Select,
    Windowed,
    differences,
    group_columns,
    name_of,
)
from midstream.plan.capabilities import MOST_IN_DIFFERENCE, refuse
from midstream.plan.expr import Column, Expr, Shown, columns, quoted, replace_columns
from midstream.plan.source import Source
from midstream.plan.window import Instances, RangeInstances, RowsInstances

GROUPS = "#"
"""An alias for keys and aggregates where there is no tree to name them."""


@dataclass(frozen=True)
class Output:
    """One entry of a select list."""

    name: str
    expr: Expr

    def __str__(self) -> str:
        same = isinstance(self.expr, Column) and self.expr.name == self.name
        return str(self.expr) if same else f"{self.expr} AS {quoted(self.name)}"


@dataclass(frozen=True)
class Block:
    """One SELECT over streams: what FROM names, the conditions of WHERE as written, and the select list."""

    sources: tuple[Source, ...]
    conjuncts: tuple[Expr, ...]
    outputs: tuple[Output, ...]
    own: frozenset[str] = frozenset()
    """The alias that a condition on nothing is about: that of one side of a difference."""

    @property
    def schema(self) -> pa.Schema:
        """Return the select list as an Arrow schema."""
        return pa.schema([pa.field(o.name, o.expr.type) for o in self.outputs])

    @property
    def shown(self) -> list[tuple[str, str]]:
        """Return the select list as people read it."""
        return [(o.name, str(o.expr)) for o in self.outputs]

    @property
    def values(self) -> tuple[Expr, ...]:
        """Return what is selected, without its names."""
        return tuple(o.expr for o in self.outputs)


@dataclass(frozen=True)
class Stage:
    """Aggregates over the instances of a window.

    `conjuncts`, `keys` and arguments read the level below under `alias`, which is empty right above a join; `having`
    and `outputs` read `key0`, `key1`, ..., `agg0`, `agg1`, ... under `groups`. Without keys every instance gives one
    row, also when the conjuncts leave none of its rows.
    """

    alias: str
    window: Instances
    conjuncts: tuple[Expr, ...]
    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]
    having: tuple[Expr, ...]
    outputs: tuple[Output, ...]
    groups: str = GROUPS

    @property
    def schema(self) -> pa.Schema:
        """Return the select list as an Arrow schema."""
        return pa.schema([pa.field(o.name, o.expr.type) for o in self.outputs])

    @property
    def shown(self) -> list[tuple[str, str]]:
        """Return the select list as people read it."""
        return [(o.name, str(self.over_rows(o.expr))) for o in self.outputs]

    def reads(self) -> list[Column]:
        """Return the columns of the input that the stage reads."""
        arguments = [a.argument for a in self.aggregates if a.argument is not None]
        return [c for e in (*self.conjuncts, *self.keys, *arguments, *self.window.reads) for c in columns(e)]

    def key_of(self, expr: Expr) -> Expr | None:
        """Return the key that an expression over groups is, or None."""
        return dict(zip(self._groups(), self.keys, strict=False)).get(expr) if isinstance(expr, Column) else None

    def over_rows(self, expr: Expr) -> Expr:
        """Return an expression over groups that prints as SQL: keys and aggregates as they are computed from rows."""
        texts = dict(zip(self._groups(), map(str, (*self.keys, *self.aggregates)), strict=True))
        return replace_columns(expr, lambda c: Shown(c.alias, c.name, c.type, texts[c]))

    def _groups(self) -> tuple[Column, ...]:
        return group_columns(self.groups, self.keys, self.aggregates)

    @property
    def kept_apart(self) -> list[Column]:
        """Return the columns whose different values never meet in a result."""
        match self.window:
            case RowsInstances(partition_by=partition_by):
                return list(dict.fromkeys(partition_by))
            case RangeInstances():
                return [key for key in self.keys if isinstance(key, Column)]
            case _:
                return []

    def __str__(self) -> str:
        """Write what the stage does before it selects, on one line."""
        parts = [f"{quoted(self.alias)} {self.window}" if self.alias else str(self.window)]
        if self.conjuncts:
            parts.append("where " + " AND ".join(map(str, self.conjuncts)))
        if self.keys:
            parts.append("group by " + ", ".join(map(str, self.keys)))
        if self.aggregates:
            parts.append("aggregate " + ", ".join(map(str, self.aggregates)))
        if self.having:
            parts.append("having " + " AND ".join(str(self.over_rows(h)) for h in self.having))
        return " ".join(parts)


@dataclass(frozen=True)
class Parts:
    """What a query that answers row by row is made of; `taken` is what each of its other streams takes away."""

    first: Block
    taken: tuple[Block, ...] = ()
    stages: tuple[Stage, ...] = ()

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Return the first block and those that are taken away from it."""
        return (self.first, *self.taken)

    @property
    def timed(self) -> tuple[Stage, ...]:
        """Return the lowest stages whose state is a matter of time: up to the first one that counts from the start."""
        return tuple(takewhile(lambda stage: isinstance(stage.window, RangeInstances), self.stages))

    @property
    def timed_us(self) -> int:
        """Return how far those stages reach back beyond what the joins hold."""
        return sum(stage.window.width_us for stage in self.timed if isinstance(stage.window, RangeInstances))

    @property
    def top(self) -> Block | Stage:
        """Return what selects the output."""
        levels: list[Block | Stage] = [self.first, *self.stages]
        return levels[-1]


def parts_of(root: Rel) -> Parts:
    """Read the parts off a tree, or refuse it."""
    if isinstance(root, Except):
        return _difference(root)
    stages: list[Stage] = []
    rel: Rel = root
    while (level := _level(rel)) is not None:
        stages.insert(0, level[0])
        rel = level[1]
    if isinstance(rel, Project):
        return Parts(_block(rel.child, ((c.name, e) for c, e in rel.outputs)), (), tuple(stages))
    if not stages:
        raise refuse("operator", word=name_of(rel).upper())
    if isinstance(rel, Scan):
        return Parts(_block(rel, ((c.name, c) for c in rel.columns)), (), tuple(stages))
    return _over_join(rel, stages)


def _over_join(rel: Rel, stages: list[Stage]) -> Parts:
    """Return the parts of windows right over a join, whose columns go on under names of their own."""
    below, *others = stages
    used = dict.fromkeys(below.reads()) or rel.columns[:1]

    def shown(expr: Expr) -> Expr:
        return replace_columns(expr, lambda c: Shown("", str(c), c.type, str(c)))

    stage = replace(
        below,
        alias="",
        window=below.window.with_columns(shown),
        conjuncts=tuple(map(shown, below.conjuncts)),
        keys=tuple(map(shown, below.keys)),
        aggregates=tuple(a if a.argument is None else replace(a, argument=shown(a.argument)) for a in below.aggregates),
    )
    return Parts(_block(rel, ((str(c), c) for c in used)), (), (stage, *others))


def _difference(root: Except) -> Parts:
    first, chain = differences(root)
    if any(rel.all for rel in chain):
        raise refuse("EXCEPT ALL")
    blocks = [_side(rel) for rel in (first, *(rel.right for rel in chain))]
    if len(blocks) > MOST_IN_DIFFERENCE:
        raise refuse("long difference", count=len(blocks))
    return Parts(blocks[0], tuple(blocks[1:]))


def _side(rel: Rel) -> Block:
    if not isinstance(rel, Project):
        limit = "nested EXCEPT" if isinstance(rel, Except) else "operator"
        raise refuse(limit, word=name_of(rel).upper())
    block = _block(rel.child, ((c.name, e) for c, e in rel.outputs))
    if len(block.sources) > 1:
        first, other = block.sources[:2]
        raise refuse("EXCEPT over a join", other=other.alias, alias=first.alias)
    return replace(block, own=frozenset([block.sources[0].alias]))


def _level(rel: Rel) -> tuple[Stage, Rel] | None:
    """Return the stage at the top of a tree and what it is over, or None."""
    if not isinstance(rel, Project):
        return None
    group, having = _without_conditions(rel.child)
    if not isinstance(group, Group):
        return None
    windowed, conjuncts = _without_conditions(group.child)
    if not isinstance(windowed, Windowed):
        raise refuse("operator", word="GROUP BY without a window that slides")
    outputs = tuple(Output(c.name, e) for c, e in rel.outputs)
    below = windowed.child
    alias = below.columns[0].alias
    return Stage(alias, windowed.window, conjuncts, group.keys, group.aggregates, having, outputs, group.alias), below


def _without_conditions(rel: Rel) -> tuple[Rel, tuple[Expr, ...]]:
    return (rel.child, rel.conjuncts) if isinstance(rel, Select) else (rel, ())


def _block(rel: Rel, outputs: Iterable[tuple[str, Expr]]) -> Block:
    sources, conjuncts = _joined(rel)
    return Block(tuple(sources), tuple(conjuncts), tuple(Output(name, e) for name, e in outputs))


def _joined(rel: Rel) -> tuple[list[Source], list[Expr]]:
    """Return the streams below joins and conditions, and all of the conditions."""
    match rel:
        case Scan(source=source):
            return [source], []
        case Select(child=child, conjuncts=conjuncts):
            sources, conditions = _joined(child)
            return sources, [*conditions, *conjuncts]
        case Join(left=left, right=right, conjuncts=conjuncts):
            (a, first), (b, second) = _joined(left), _joined(right)
            return [*a, *b], [*first, *second, *conjuncts]
        case Project() | Group():
            raise refuse("join over a subquery")
        case Except():
            raise refuse("window over a set operation")
        case _:
            raise refuse("operator", word=name_of(rel).upper())
