"""Span: how far the rows reach that a result of a query depends on, and what it takes until a drain of it is over."""

from dataclasses import dataclass, replace

from midstream.model.time import format_duration
from midstream.plan.parts import Stage
from midstream.plan.query import Query
from midstream.plan.window import PredicateWindow, RangeInstances, RangeWindow, RowsWindow


@dataclass(frozen=True)
class Counted:
    """Rows a result reaches over, and how many must follow a position until no result can hold an older row.

    `alias`: whose rows they are; None when not every row counts, so that the next one may never come.
    """

    rows: int
    of: str
    alias: str | None
    left: int

    def __str__(self) -> str:
        return f"{self.rows:,} {self.of}"


@dataclass(frozen=True)
class Span:
    """How far the rows reach that a result of a query depends on; nothing of it set: it depends on one row."""

    us: int = 0
    counted: tuple[Counted, ...] = ()
    unknown: str | None = None
    """Why nobody can say, or None."""
    in_turn: bool = False
    """Its windows stand one over the other, so that rows leave them one after the other, not side by side."""

    @property
    def rows(self) -> int:
        """Return the rows of all streams together."""
        return sum(c.rows for c in self.counted)

    @property
    def at_once(self) -> bool:
        """Return whether no result can hold rows from both sides of a position: there is nothing to drain."""
        return self.unknown is None and self.us == 0 and all(c.left == 0 for c in self.counted)

    @property
    def endless(self) -> str | None:
        """Return why a drain may never end though rows keep coming, or None."""
        waiting = [c for c in self.counted if c.alias is None and c.left]
        return self.unknown or (f"{waiting[0].of} may never come" if waiting else None)

    @property
    def drain(self) -> str:
        """Say what it takes until no result can hold a row from before a position."""
        parts = [format_duration(self.us).lower()] if self.us else []
        parts += [f"{c.left:,} more {c.of}" for c in self.counted if c.left]
        return self.unknown or " and ".join(parts) or "nothing"

    def __str__(self) -> str:
        parts = [format_duration(self.us).lower()] if self.us else []
        parts += [str(c) for c in self.counted]
        return self.unknown or " and ".join(parts) or "one row"


@dataclass(frozen=True)
class Step:
    """What it takes until one more row enters a stage: event time, or `rows` of something."""

    us: int = 0
    rows: int = 1
    of: str = "results of the query inside"
    alias: str | None = None


def span_of_windows(query: Query) -> Span:
    """Return the span of a result that holds rows of all windows at a time, or all that are in them."""
    windows = [(s, s.window) for s in query.sources]
    keyed = next((w for _, w in windows if isinstance(w, RowsWindow) and w.partition_by), None)
    return Span(
        max((w.width_us for _, w in windows if isinstance(w, RangeWindow)), default=0),
        # The last old row stays until as many rows of its stream have followed as the window holds.
        tuple(Counted(w.count, f"rows of {s.alias}", s.alias, w.count) for s, w in windows
              if isinstance(w, RowsWindow) and not w.partition_by),
        f"{keyed} holds rows of a key until others of that key come, which may be never" if keyed else None,
    )  # fmt: skip


def unit(query: Query) -> str:
    """Name what a window of rows right above a query of one stream counts."""
    where = f" where {' AND '.join(map(str, query.parts.first.conjuncts))}" if query.parts.first.conjuncts else ""
    return f"rows of {query.sources[0].stream.name}{where}"


def over(span: Span, step: Step, stage: Stage) -> tuple[Span, Step]:
    """Return span and step of a stage over something with the given ones."""
    window = stage.window
    after = Step()
    if isinstance(window, PredicateWindow):
        return replace(span, unknown=span.unknown or f"{window} ends with a row that may never come"), after
    surely = not stage.having and not (stage.keys and stage.conjuncts)
    if isinstance(window, RangeInstances):
        surely = surely and window.width_us >= window.slide_us  # or rows may come between two instances, always
        return replace(span, us=span.us + window.width_us), Step(us=window.slide_us) if surely else after
    if window.partition_by:
        why = f"{window} is full when enough rows of a key have come, which may be never"
        return (span if window.count == 1 else replace(span, unknown=span.unknown or why)), after
    further = window.count - 1
    if step.us:
        span = replace(span, us=span.us + further * step.us)
        return span, Step(us=window.slide * step.us) if surely else after
    before = next((c.rows for c in span.counted if c.of == step.of), 1)
    rows = before + further * step.rows
    others = tuple(c for c in span.counted if c.of != step.of)
    span = replace(span, counted=(*others, Counted(rows, step.of, step.alias, rows - 1)))
    return span, replace(step, rows=window.slide * step.rows) if surely else after
