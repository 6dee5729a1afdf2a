"""A query: what is asked, without how it is computed.

FROM sources (each a stream, its alias and its window) -> WHERE conjuncts -> SELECT outputs
"""

from dataclasses import dataclass

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.model.stream import StreamSchema
from midstream.plan.expr import Column, Expr, columns, quoted
from midstream.plan.window import RowsWindow, Window

RESERVED_OUTPUTS = ("_time", "_version", "_hop", "_sign")
"""Columns the system adds to every output."""


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
class Query:
    """A validated continuous query over sliding windows.

    Invariant: aliases are distinct, every joined source has a window, every column exists with the type the
    expressions say, conjuncts are boolean, output names are distinct and not reserved.
    """

    sources: tuple[Source, ...]
    conjuncts: tuple[Expr, ...]
    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        if not self.sources:
            raise PlanError("a query reads at least one stream")
        names = [s.alias for s in self.sources]
        for name in names:
            if names.count(name) > 1:
                raise PlanError(f"alias '{name}' is used twice in FROM; give each stream its own alias")
        for source in self.sources:
            if source.window is None and len(self.sources) > 1:
                raise PlanError(
                    f"stream '{source.alias}' is joined without a window; write for example "
                    f"{source.stream.name} [RANGE 10 SECONDS] {source.alias}"
                )
        self._check_outputs()
        self._check_columns()
        for conjunct in self.conjuncts:
            if not (pa.types.is_boolean(conjunct.type) or pa.types.is_null(conjunct.type)):
                raise PlanError(f"WHERE needs a condition, but {conjunct} is {conjunct.type}")

    def _check_outputs(self) -> None:
        if not self.outputs:
            raise PlanError("a query selects at least one column")
        names = [o.name for o in self.outputs]
        for name in names:
            if name in RESERVED_OUTPUTS:
                raise PlanError(f"output column '{name}' is reserved; give it another alias")
            if names.count(name) > 1:
                raise PlanError(f"output column '{name}' appears twice; give one of them an alias")

    def _check_columns(self) -> None:
        by_alias = {s.alias: s.stream for s in self.sources}
        partitions = [c for s in self.sources if isinstance(s.window, RowsWindow) for c in s.window.partition_by]
        exprs: list[Expr] = [*self.conjuncts, *(o.expr for o in self.outputs), *partitions]
        for column in (c for e in exprs for c in columns(e)):
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
        """Return the select list as an Arrow schema."""
        return pa.schema([pa.field(o.name, o.expr.type) for o in self.outputs])

    def source(self, alias: str) -> Source:
        """Return the source with the given alias."""
        return next(s for s in self.sources if s.alias == alias)

    def columns_of(self, alias: str) -> tuple[str, ...]:
        """Return the columns of an alias that the query reads, in stream order."""
        window = self.source(alias).window
        exprs: list[Expr] = [*self.conjuncts, *(o.expr for o in self.outputs)]
        exprs += window.partition_by if isinstance(window, RowsWindow) else ()
        used = {c.name for e in exprs for c in columns(e) if c.alias == alias}
        return tuple(n for n in self.source(alias).stream.columns.names if n in used)

    def __str__(self) -> str:
        text = f"SELECT {', '.join(map(str, self.outputs))}\nFROM {', '.join(map(str, self.sources))}"
        return text + (f"\nWHERE {' AND '.join(map(str, self.conjuncts))}" if self.conjuncts else "")
