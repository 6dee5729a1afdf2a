"""Reach: when a query answers and from which rows, as far as that is sure at every position and for all rows.

query ─▶ by what it emits: results of rows and windows | changes of a difference | answers at hops
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

from midstream.change.span import Span, Step, over, span_of_windows, unit
from midstream.plan.plan import Plan
from midstream.plan.query import CHANGES, COMPLETE, DELTA, RESULTS, Emit, Query
from midstream.plan.window import Instances, PredicateWindow, RangeInstances, RowsInstances


class Reach:
    """What changes want to know of a query; what is said here holds where nothing better is known."""

    of_rows: ClassVar[bool] = True
    """Results depend on rows, so that two queries may be known to depend on different ones."""
    drains: ClassVar[bool] = True
    """What was begun can be finished apart from what comes later."""
    rows_to_answer: int | None = None
    """How many rows of one stream it takes at least until there is an answer; None: nobody can say."""
    size: int | None = None
    """How many rows every result depends on; None: that differs."""
    prompt: bool = False
    """Every result leaves with the latest row it depends on."""
    windows: tuple[Instances, ...] = ()
    """The windows that slide, the innermost first."""

    def __init__(self, query: Query) -> None:
        self.query = query

    @property
    def streams(self) -> set[str]:
        """Return the names of the streams that are read."""
        return {s.stream.name for s in self.query.sources}

    @property
    def span(self) -> Span:
        """Return how far a result reaches."""
        raise NotImplementedError

    @property
    def silence(self) -> str | None:
        """Return why there may never be an answer though rows keep coming, or None."""
        raise NotImplementedError

    def answers_s(self, rows_per_s: Mapping[str, float]) -> tuple[float, float] | None:
        """Estimate after how long there is a first answer, at the latest, and how long from one to the next."""
        return None


class _OfRows(Reach):
    """Rows of one stream, or joins, under windows that slide."""

    @cached_property
    def span(self) -> Span:
        """Return how far a result reaches: windows of time in time, windows of rows in rows.

        They add up. A window of each key and a predicate window end when a row comes that may never come.
        """
        query = self.query
        if len(query.sources) == 1:
            alias = None if query.parts.first.conjuncts else query.sources[0].alias
            span, step = Span(), Step(of=unit(query), alias=alias)
        else:
            span, step = span_of_windows(query), Step(of="results of the join")
        for stage in query.parts.stages:
            span, step = over(replace(span, in_turn=True), step, stage)
        return span

    @property
    def silence(self) -> str | None:
        if len(self.query.sources) > 1:
            return "its rows may never match"
        if self.query.parts.first.conjuncts:
            return "no row may pass its WHERE"
        for stage in self.query.parts.stages:
            window = stage.window
            if isinstance(window, PredicateWindow):
                return f"{window} may never start and end"
            if isinstance(window, RowsInstances) and window.partition_by and window.count > 1:
                return f"{window} may never be full"
            if isinstance(window, RangeInstances) and window.width_us < window.slide_us:
                return f"{window} may never hold a row"
            if stage.having:
                return "nothing may pass its HAVING"
            if stage.keys and stage.conjuncts:
                return "no row may pass its WHERE"
        return None

    @property
    def rows_to_answer(self) -> int:  # type: ignore[override]
        rows, step = 1, 1
        for stage in self.query.parts.stages:
            if isinstance(stage.window, RowsInstances):
                rows += (stage.window.count - 1) * step
                step = 0 if stage.keys or stage.window.partition_by else stage.window.slide * step
            else:
                step = 0
        return rows

    @property
    def size(self) -> int | None:  # type: ignore[override]
        query = self.query
        if len(self.streams) < len(query.sources):
            return None
        rows, step = len(query.sources), 1
        last = len(query.parts.stages) - 1
        for k, stage in enumerate(query.parts.stages):
            window = stage.window
            if len(query.sources) > 1 or not isinstance(window, RowsInstances) or stage.keys or stage.conjuncts:
                return None
            if k < last and (window.partition_by or stage.having or window.slide > window.count):
                return None
            rows, step = rows + (window.count - 1) * step, window.slide * step
        return rows

    @property
    def prompt(self) -> bool:  # type: ignore[override]
        return all(
            not isinstance(s.window, RangeInstances)
            and (not (s.keys or s.conjuncts) or (isinstance(s.window, RowsInstances) and s.window.count == 1))
            for s in self.query.parts.stages
        )

    @property
    def windows(self) -> tuple[Instances, ...]:  # type: ignore[override]
        return tuple(stage.window for stage in self.query.parts.stages)

    def answers_s(self, rows_per_s: Mapping[str, float]) -> tuple[float, float] | None:
        rate = rows_per_s.get(self.query.sources[0].alias)
        if self.silence or not rate:
            return None
        first_s = every_s = 1 / rate
        for window in self.windows:
            if isinstance(window, RangeInstances):
                every_s = window.slide_us / 1e6
                first_s += every_s
            elif isinstance(window, RowsInstances):
                first_s += (window.count - 1) * every_s
                every_s *= window.slide
        return first_s, every_s


class _OfDifference(Reach):
    """Changes of a difference: what has left can be taken back at any time."""

    drains = False

    @property
    def span(self) -> Span:
        return Span(unknown="what a difference gives can be taken back at any time")

    @property
    def silence(self) -> str:
        return "its rows may never match"


class _OfHops(Reach):
    """Answers at hops: of all rows in the windows together, at known times."""

    of_rows = False

    @cached_property
    def span(self) -> Span:
        return span_of_windows(self.query)

    @property
    def silence(self) -> str:
        return "its answers may have no rows"

    def answers_s(self, rows_per_s: Mapping[str, float]) -> tuple[float, float] | None:
        every_s = self.query.hop_span_us(sum(rows_per_s.values())) / 1e6
        return every_s, every_s


_REACHES: dict[Emit, type[Reach]] = {RESULTS: _OfRows, CHANGES: _OfDifference, COMPLETE: _OfHops, DELTA: _OfHops}


def reach_of(plan: Plan) -> Reach:
    """Return when a plan's query answers, and from which rows."""
    return _REACHES[plan.query.emit](plan.query)
