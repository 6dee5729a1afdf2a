"""Windows: which rows of a stream can still take part in results."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.model.time import format_duration
from midstream.plan.expr import Column, Expr, Shown, quoted


def _name(column: Column) -> str:
    return str(column) if isinstance(column, Shown) else quoted(column.name)


@dataclass(frozen=True)
class RangeWindow:
    """`[RANGE w]`: rows no more than `width_us` older than the latest row."""

    width_us: int

    def __post_init__(self) -> None:
        if self.width_us < 0:
            raise PlanError(f"a window cannot be negative: [RANGE {format_duration(self.width_us)}]")
        if self.width_us >= 2**62:
            raise PlanError("a window this long cannot be counted in microseconds")

    def __str__(self) -> str:
        return f"[RANGE {format_duration(self.width_us)}]"


@dataclass(frozen=True)
class RowsWindow:
    """`[ROWS n]` or `[ROWS n PARTITION BY k, ...]`: the last `count` rows, of the stream or of each key."""

    count: int
    partition_by: tuple[Column, ...] = ()

    def __post_init__(self) -> None:
        if self.count < 0:
            raise PlanError(f"a window cannot be negative: [ROWS {self.count}]")
        if self.count == 0:
            raise PlanError("a window of 0 rows never holds a row: [ROWS 0]")

    def __str__(self) -> str:
        by = f" PARTITION BY {', '.join(map(_name, self.partition_by))}" if self.partition_by else ""
        return f"[ROWS {self.count}{by}]"


Window = RangeWindow | RowsWindow


@dataclass(frozen=True)
class RangeInstances:
    """`[RANGE r SLIDE s]`: the rows with `T - width_us <= time < T`, for every multiple T of `slide_us`."""

    called: ClassVar[str] = "a window that slides"

    width_us: int
    slide_us: int

    def __post_init__(self) -> None:
        if self.width_us <= 0 or self.slide_us <= 0:
            raise PlanError(f"a window that slides is longer than nothing, and so is its slide: {self}")
        if max(self.width_us, self.slide_us) >= 2**60:
            raise PlanError("a window this long cannot be counted in microseconds")

    def __str__(self) -> str:
        return f"[RANGE {format_duration(self.width_us)} SLIDE {format_duration(self.slide_us)}]"

    @property
    def reads(self) -> tuple[Expr, ...]:
        """Return what decides which instances a row is in, but for its time: nothing."""
        return ()

    def with_columns(self, by: Callable[[Expr], Expr]) -> "RangeInstances":
        """Return the same window: it reads no column."""
        return self


@dataclass(frozen=True)
class RowsInstances:
    """`[ROWS n SLIDE m]` or `[ROWS n SLIDE m PARTITION BY k, ...]`: rows j*m to j*m + n - 1, for j = 0, 1, ...

    Rows are counted from where the query started, in the stream or in each key. An instance closes with its last row.
    """

    called: ClassVar[str] = "a window that slides"

    count: int
    slide: int
    partition_by: tuple[Column, ...] = ()

    def __post_init__(self) -> None:
        if self.count <= 0 or self.slide <= 0:
            raise PlanError(f"a window that slides has a row at least, and so has its slide: {self}")

    def __str__(self) -> str:
        by = f" PARTITION BY {', '.join(map(_name, self.partition_by))}" if self.partition_by else ""
        return f"[ROWS {self.count} SLIDE {self.slide}{by}]"

    @property
    def reads(self) -> tuple[Expr, ...]:
        """Return what decides which instances a row is in."""
        return self.partition_by

    def with_columns(self, by: Callable[[Expr], Expr]) -> "RowsInstances":
        """Return the same window over other columns."""
        return replace(self, partition_by=tuple(c for c in map(by, self.partition_by) if isinstance(c, Column)))


@dataclass(frozen=True)
class PredicateWindow:
    """`[START WHEN p END WHEN q]`: from a row where p is true to the first row, itself included, where q is true.

    A row where p is true starts a window only when none is open; rows outside belong to none.
    """

    called: ClassVar[str] = "a window that begins and ends by conditions"

    start: Expr
    end: Expr

    def __post_init__(self) -> None:
        for name, condition in (("START WHEN", self.start), ("END WHEN", self.end)):
            if not (pa.types.is_boolean(condition.type) or pa.types.is_null(condition.type)):
                raise PlanError(f"{name} needs a condition, but {condition} is {condition.type}")

    def __str__(self) -> str:
        return f"[START WHEN {self.start} END WHEN {self.end}]"

    @property
    def reads(self) -> tuple[Expr, ...]:
        """Return what decides which instances a row is in."""
        return (self.start, self.end)

    def with_columns(self, by: Callable[[Expr], Expr]) -> "PredicateWindow":
        """Return the same window over other columns."""
        return PredicateWindow(by(self.start), by(self.end))


Instances = RangeInstances | RowsInstances | PredicateWindow
"""Windows that are a sequence of instances, for aggregates."""
