"""A query: a relational tree, when it answers and what it emits. What is asked, without how it is computed.

root: operators over windows of streams | when: each row, each hop, when a window closes | emit: see below
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.model.time import format_duration
from midstream.plan.algebra import Except, Project, Rel, Windowed, operators, scans, schema_of
from midstream.plan.capabilities import refuse
from midstream.plan.parts import Parts, parts_of
from midstream.plan.source import Source
from midstream.plan.sql_text import sql_text
from midstream.plan.window import RangeInstances

When = Literal["row", "hop", "close"]
Pace = Literal["row", "hop", "close", "count"]
ROW: When = "row"
HOP: When = "hop"
CLOSE: When = "close"
Emit = Literal["results", "changes", "complete", "delta"]
RESULTS: Emit = "results"
"""Each result once, when it comes to be."""
CHANGES: Emit = "changes"
"""Rows as they come into the answer (+1) and leave it (-1)."""
COMPLETE: Emit = "complete"
"""At every hop the whole answer."""
DELTA: Emit = "delta"
"""At every hop what came (+1) and went (-1) since the last one."""
RESERVED_OUTPUTS = ("_time", "_version", "_hop", "_sign")
"""Columns the system adds to every output."""
MOST_HOP_US = 2**60


@dataclass(frozen=True)
class Query:
    """A validated continuous query.

    Hopping queries answer at every multiple T of `hop_us`, over the windows `T - w <= time < T`, or after every
    `hop_rows` rows, over the windows up to the last of them. Invariant: aliases of scans are distinct, every joined
    source has a window, the root's columns are the output, their names distinct and not reserved, and the operators are
    ones that can answer then.
    """

    root: Rel
    when: When = ROW
    emit: Emit = RESULTS
    hop_us: int | None = None
    """How far apart hops are in time; None unless it hops by time."""
    text: str = field(default="", compare=False)
    """The SQL it was asked in, if it was."""
    hop_rows: int | None = field(default=None, metadata={"later": True})
    """After how many rows of its streams it hops; None unless it hops by rows."""

    def __post_init__(self) -> None:
        hops = (self.hop_us is not None) + (self.hop_rows is not None)
        if hops != (self.when == HOP) or (self.emit in (COMPLETE, DELTA)) != (self.when == HOP):
            raise PlanError(f"a query that answers by {self.when} does not emit {self.emit} every {self.hop_us}")
        if self.hop_us is not None and not 0 < self.hop_us < MOST_HOP_US:
            raise PlanError(f"a hop is longer than nothing: HOP BY {format_duration(self.hop_us)}")
        if self.hop_rows is not None and not 0 < self.hop_rows < MOST_HOP_US:
            raise PlanError(f"a hop has one row or more: HOP BY {self.hop_rows} ROWS")
        for alias in self.aliases:
            if self.aliases.count(alias) > 1:
                raise PlanError(f"alias '{alias}' stands for two streams")
        self._check_names()
        windows = [rel.window for rel in operators(self.root) if isinstance(rel, Windowed)]
        slides = bool(windows)
        if self.when == HOP and slides:
            raise refuse("window that slides", window=windows[0].called)
        for source in self.sources:
            if source.window is None and (self.when == HOP or len(self.sources) > 1):
                raise PlanError(f"stream '{source.alias}' needs a window; write for example {source.example}")
        if self.when != HOP:
            taken = self.parts.taken
            if (self.emit == CHANGES) != bool(taken) or (self.when == CLOSE) != slides:
                raise PlanError(f"a query of this kind does not answer by {self.when} with {self.emit}")

    def _check_names(self) -> None:
        """Refuse names that the output cannot have, nor what windows are over, which has the system's columns, too."""
        levels = [self.root, *(r for r in operators(self.root) if isinstance(r, Project) and self.when != HOP)]
        for names in ([c.name for c in level.columns] for level in levels):
            if not names:
                raise PlanError("a query selects at least one column")
            for name in names:
                if name in RESERVED_OUTPUTS:
                    raise PlanError(f"output column '{name}' is reserved; give it another alias")
                if names.count(name) > 1:
                    raise PlanError(f"output column '{name}' appears twice; give one of them an alias")

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """Return what is read, in FROM order."""
        return tuple(s.source for s in scans(self.root))

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return the aliases in FROM order."""
        return tuple(s.alias for s in self.sources)

    def source(self, alias: str) -> Source:
        """Return the source with the given alias."""
        return next(s for s in self.sources if s.alias == alias)

    def columns_of(self, alias: str) -> tuple[str, ...]:
        """Return the columns of an alias that the query reads, in stream order."""
        return self._columns_read[alias]

    @cached_property
    def _columns_read(self) -> dict[str, tuple[str, ...]]:
        found = {}
        for scan in scans(self.root):
            used = {c.name for c in (*scan.columns, *scan.source.partition_by)}
            found[scan.source.alias] = tuple(n for n in scan.source.stream.columns.names if n in used)
        return found

    @property
    def schema(self) -> pa.Schema:
        """Return the select list as an Arrow schema."""
        return schema_of(self.root)

    @property
    def pace(self) -> Pace:
        """Return what brings its answers: as `when`, but that hops of rows are told from those of time."""
        return self.when if self.hop_rows is None else "count"

    @property
    def hop_text(self) -> str:
        """Return how far apart hops are, as people read it."""
        return format_duration(self.every_us) if self.hop_rows is None else f"{self.hop_rows} rows"

    @property
    def counts(self) -> str | None:
        """Return what it counts in one place for all buckets, or None."""
        return None if self.hop_rows is None else f"HOP BY {self.hop_rows} ROWS counts the rows of all its streams"

    def ask_of_times(self, limit: str, **named: str) -> None:
        """Refuse what is asked of a query whose hops are no times, by a limit of its own."""
        if self.hop_rows is not None:
            raise refuse(limit, rows=self.hop_rows, **named)

    def hop_span_us(self, rows_per_s: float) -> int:
        """Return how far apart hops are in time, or are to be expected when so many rows come."""
        return self.every_us if self.hop_rows is None else max(1, round(self.hop_rows * 1e6 / max(rows_per_s, 1e-6)))

    def hop_before_us(self, hop_us: int) -> int:
        """Return the time of the hop before one; that time itself where it is not known."""
        return hop_us - self.every_us if self.hop_rows is None else hop_us

    @property
    def every_us(self) -> int:
        """Return how far apart the hops of a query are that hops by time."""
        assert self.hop_us is not None, "a query that hops by time"
        return self.hop_us

    @property
    def step_us(self) -> int | None:
        """Return how far apart in time its answers are, or None when rows alone bring them."""
        if self.when == HOP:
            return self.hop_us
        windows = [stage.window for stage in self.parts.stages]
        return min((w.slide_us for w in windows if isinstance(w, RangeInstances)), default=None)

    @property
    def timed_us(self) -> int:
        """Return how far windows of time over its joins reach back beyond what the joins hold."""
        return 0 if self.when == HOP else self.parts.timed_us

    def next_answer_us(self, time_us: int) -> int:
        """Return the first hop at a time or after it; without hops in time the time itself."""
        return time_us if self.hop_us is None else -(-time_us // self.hop_us) * self.hop_us

    @property
    def signed(self) -> bool:
        """Tell whether rows say if they come or go."""
        return self.emit in (CHANGES, DELTA)

    @property
    def takes_back(self) -> bool:
        """Tell whether a result can be taken back at any time, so that what was begun cannot be finished apart."""
        return self.emit == CHANGES

    @property
    def joint(self) -> bool:
        """Tell whether an answer is of all buckets together, at a time: no row of it leaves, or ends, by itself."""
        return self.when == HOP

    @property
    def output_schema(self) -> pa.Schema:
        """Return the select list and the columns that the system adds to it."""
        added = ["_time", "_version", *(["_hop"] if self.when == HOP else []), *(["_sign"] if self.signed else [])]
        return pa.schema([*self.schema, *(pa.field(name, pa.int64()) for name in added)])

    @cached_property
    def parts(self) -> Parts:
        """Return the parts of a query that does not hop."""
        return parts_of(self.root)

    def __str__(self) -> str:
        if self.when != HOP:
            return sql_text(self.parts)
        return self.text or f"(a hopping query over {', '.join(self.aliases)})"


def hop_query(root: Rel, hop_us: int, emit: Emit = COMPLETE, text: str = "") -> Query:
    """Return the query of a tree that answers at every multiple of `hop_us`."""
    return Query(root, HOP, emit, hop_us, text)


def row_query(root: Rel, text: str = "") -> Query:
    """Return the query of a tree that answers row by row, or when windows close."""
    slides = any(isinstance(rel, Windowed) for rel in operators(root))
    return Query(root, CLOSE if slides else ROW, CHANGES if isinstance(root, Except) else RESULTS, None, text)
