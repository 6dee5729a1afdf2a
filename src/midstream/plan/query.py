"""A query: what is asked, without how it is computed.

FROM sources (each a stream, its alias and its window) -> WHERE conjuncts -> SELECT outputs
                                                       -> EXCEPT what further sources select
                                                       -> stages: windows over that, and their aggregates
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.model.stream import StreamSchema
from midstream.plan.expr import Column, Expr, aliases, columns, quoted
from midstream.plan.stage import Stage
from midstream.plan.staged import check_stages, stage_sql
from midstream.plan.window import RowsWindow, Window

RESERVED_OUTPUTS = ("_time", "_version", "_hop", "_sign")
"""Columns the system adds to every output."""
MOST_IN_DIFFERENCE = 62
"""Streams in one chain of differences."""


@dataclass(frozen=True)
class Source:
    """One entry of FROM: a stream read under an alias through a window.

    `position` is the stream's place in declaration order; it breaks ties in time.
    """

    alias: str
    stream: StreamSchema
    position: int
    window: Window | None = None

    def __str__(self) -> str:
        window = f" {self.window}" if self.window else ""
        alias = f" {quoted(self.alias)}" if self.alias != self.stream.name else ""
        return f"{quoted(self.stream.name)}{window}{alias}"


@dataclass(frozen=True)
class Output:
    """One entry of the select list."""

    name: str
    expr: Expr

    def __str__(self) -> str:
        same = isinstance(self.expr, Column) and self.expr.name == self.name
        return str(self.expr) if same else f"{self.expr} AS {quoted(self.name)}"


@dataclass(frozen=True)
class Subtracted:
    """What one `EXCEPT SELECT values FROM ... WHERE conjuncts` takes away; the query has its source."""

    values: tuple[Expr, ...]
    conjuncts: tuple[Expr, ...] = ()

    def __str__(self) -> str:
        where = f" where {' AND '.join(map(str, self.conjuncts))}" if self.conjuncts else ""
        return f"({', '.join(map(str, self.values))}){where}"


@dataclass(frozen=True)
class Query:
    """A validated continuous query over sliding windows: a join, or a chain of differences.

    Invariant: aliases are distinct, every joined source has a window, every column exists with the type the
    expressions say, conjuncts are boolean, output names are distinct and not reserved. In a chain of differences every
    source after the first has its part in `subtracted`, with as many values as there are outputs, of the same types.
    Every stage reads columns of the level below it.
    """

    sources: tuple[Source, ...]
    conjuncts: tuple[Expr, ...]
    outputs: tuple[Output, ...]
    subtracted: tuple[Subtracted, ...] = ()
    """What each source after the first takes away; empty when the sources are joined."""
    stages: tuple[Stage, ...] = ()
    """Windows over the results, and aggregates of their instances, from the inside out."""

    def __post_init__(self) -> None:
        if not self.sources:
            raise PlanError("a query reads at least one stream")
        names = [s.alias for s in self.sources]
        for name in names:
            if names.count(name) > 1:
                where = "a difference" if self.subtracted else "FROM"
                raise PlanError(f"alias '{name}' is used twice in {where}; give each stream its own alias")
        for source in self.sources:
            if source.window is None and len(self.sources) > 1:
                used = "in a difference" if self.subtracted else "joined"
                raise PlanError(
                    f"stream '{source.alias}' is {used} without a window; write for example "
                    f"{source.stream.name} [RANGE 10 SECONDS] {source.alias}"
                )
        for names in (self.selected.names, *(s.schema.names for s in self.stages)):
            _check_outputs(names)
        self._check_columns()
        if self.subtracted:
            self._check_difference()
        for conjunct in (*self.conjuncts, *(c for s in self.subtracted for c in s.conjuncts)):
            if not (pa.types.is_boolean(conjunct.type) or pa.types.is_null(conjunct.type)):
                raise PlanError(f"WHERE needs a condition, but {conjunct} is {conjunct.type}")
        if self.stages and self.subtracted:
            raise PlanError("a window over a difference is not supported yet")
        check_stages(self.selected, self.stages)

    def _check_difference(self) -> None:
        if len(self.sources) > MOST_IN_DIFFERENCE:
            raise PlanError(f"a chain of differences has at most {MOST_IN_DIFFERENCE} streams, not {len(self.sources)}")
        if len(self.subtracted) != len(self.sources) - 1:
            raise PlanError("every stream of a difference but the first one is subtracted")
        first = Subtracted(tuple(o.expr for o in self.outputs), self.conjuncts)
        for alias, part in zip(self.aliases, (first, *self.subtracted), strict=True):
            if [v.type for v in part.values] != [v.type for v in first.values]:
                raise PlanError(f"'{alias}' and '{self.aliases[0]}' select columns of different types")
            for expr in (*part.values, *part.conjuncts):
                if not aliases(expr) <= {alias}:
                    raise PlanError(f"one side of a difference reads one stream, '{alias}', but here is {expr}")

    def _expressions(self) -> list[Expr]:
        """Return everything that is computed from rows, but for the partitions of windows."""
        subtracted = [e for s in self.subtracted for e in (*s.values, *s.conjuncts)]
        return [*self.conjuncts, *(o.expr for o in self.outputs), *subtracted]

    def _check_columns(self) -> None:
        by_alias = {s.alias: s.stream for s in self.sources}
        partitions = [c for s in self.sources if isinstance(s.window, RowsWindow) for c in s.window.partition_by]
        for column in (c for e in (*self._expressions(), *partitions) for c in columns(e)):
            stream = by_alias.get(column.alias)
            if stream is None or column.name not in stream.columns.names:
                raise PlanError(f"there is no column {column}")
            if stream.type_of(column.name) != column.type:
                raise PlanError(f"column {column} is {stream.type_of(column.name)}, not {column.type}")

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return the aliases in FROM order."""
        return tuple(s.alias for s in self.sources)

    @property
    def schema(self) -> pa.Schema:
        """Return what leaves the query as an Arrow schema."""
        return self.stages[-1].schema if self.stages else self.selected

    @property
    def selected(self) -> pa.Schema:
        """Return the select list below all stages as an Arrow schema."""
        return pa.schema([pa.field(o.name, o.expr.type) for o in self.outputs])

    def source(self, alias: str) -> Source:
        """Return the source with the given alias."""
        return next(s for s in self.sources if s.alias == alias)

    def columns_of(self, alias: str) -> tuple[str, ...]:
        """Return the columns of an alias that the query reads, in stream order."""
        window = self.source(alias).window
        partitions = window.partition_by if isinstance(window, RowsWindow) else ()
        used = {c.name for e in (*self._expressions(), *partitions) for c in columns(e) if c.alias == alias}
        return tuple(n for n in self.source(alias).stream.columns.names if n in used)

    @property
    def base(self) -> "Query":
        """Return the query below all stages."""
        return replace(self, stages=())

    def __str__(self) -> str:
        if self.stages:
            first, *others = self.stages
            text = stage_sql(first, quoted(self.sources[0].stream.name) if self._bare() else f"({self.base})")
            for stage in others:
                text = stage_sql(stage, f"({text})")
            return text
        if not self.subtracted:
            return _select(self.outputs, self.sources, self.conjuncts)
        first_source, *other_sources = self.sources
        selects = [_select(self.outputs, [first_source], self.conjuncts)]
        selects += [_select(p.values, [s], p.conjuncts) for s, p in zip(other_sources, self.subtracted, strict=True)]
        return "\nEXCEPT\n".join(selects)

    def _bare(self) -> bool:
        """Tell whether the first stage's window is right behind a stream."""
        source, stage = self.sources[0], self.stages[0]
        bare = Source(stage.alias, source.stream, source.position)
        return self.sources == (bare,) and not self.conjuncts and self.outputs == read_outputs(bare, stage)


def read_outputs(source: Source, stage: Stage) -> tuple[Output, ...]:
    """Return what a stage right above a stream needs of it: the columns that it reads, or the time."""
    used = {c.name: c for c in stage.reads()}
    time = source.stream.time
    names = [n for n in source.stream.columns.names if n in used]
    if not names:
        return (Output(time, Column(source.alias, time, source.stream.type_of(time))),)
    return tuple(Output(n, used[n]) for n in names)


def _check_outputs(names: Sequence[str]) -> None:
    if not names:
        raise PlanError("a query selects at least one column")
    for name in names:
        if name in RESERVED_OUTPUTS:
            raise PlanError(f"output column '{name}' is reserved; give it another alias")
        if names.count(name) > 1:
            raise PlanError(f"output column '{name}' appears twice; give one of them an alias")


def _select(outputs: Sequence[Output | Expr], sources: Sequence[Source], conjuncts: Sequence[Expr]) -> str:
    text = f"SELECT {', '.join(map(str, outputs))}\nFROM {', '.join(map(str, sources))}"
    return text + (f"\nWHERE {' AND '.join(map(str, conjuncts))}" if conjuncts else "")
