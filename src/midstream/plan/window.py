"""Windows: which rows of a stream can still take part in results."""

from dataclasses import dataclass

from midstream.model.errors import PlanError
from midstream.model.time import format_duration
from midstream.plan.expr import Column, quoted


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
        by = f" PARTITION BY {', '.join(quoted(c.name) for c in self.partition_by)}" if self.partition_by else ""
        return f"[ROWS {self.count}{by}]"


Window = RangeWindow | RowsWindow
