"""Window instances of time, of a count of rows, and between two conditions: which close, and which rows they hold.

    arriving rows ──▶ admit: those that an instance will hold ──▶ rows ──▶ close: instances that are complete
                                                                       ──▶ forget: rows that no open instance holds

State: how far the window has come. The rows themselves are the stage's.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Mask, Matrix, Vector
from midstream.kernels.instances import close_times, follow_conditions
from midstream.model.time import FOREVER_US
from midstream.operators.aggregate.stage_rows import StageRows
from midstream.operators.expression.evaluate import truth
from midstream.plan.expr import Column
from midstream.plan.window import PredicateWindow, RangeInstances, RowsInstances

ColumnOf = Callable[[Column], pa.Array]

NEVER_US = -(2**63)
"""Before all time: nothing has closed yet."""


@dataclass(frozen=True)
class Closing:
    """Instances that close together.

    Instance i holds the rows at `places[lows[i]:highs[i]]`; neither lows nor highs decrease. `trigger` is what closed
    each. `ranks` orders the instances by trigger, equal triggers having equal ranks.
    """

    places: Vector
    lows: Vector
    highs: Vector
    trigger: Matrix
    ranks: Vector

    def __len__(self) -> int:
        return len(self.lows)


class InstancesState(ABC):
    """How far a window has come; unless said otherwise, rows leave in the order they came."""

    @abstractmethod
    def admit(self, column: ColumnOf, trigger_us: Vector) -> Mask | None:
        """Take notice of arriving rows and tell which of them an instance will hold; None for all."""

    @abstractmethod
    def close(self, rows: StageRows, fresh: int, clock_us: int) -> Closing | None:
        """Return the instances that are complete, the last `fresh` rows being those just admitted."""

    @abstractmethod
    def forget(self, rows: StageRows, handed_out: int) -> None:
        """Drop rows that are not needed, all of them or once they are many.

        Rows numbered below `handed_out` have been handed out to be written down.
        """

    def panes(self, rows: StageRows) -> Vector | None:
        """Number the rows so that those with the same number are in the same instances; None: all may be in others."""
        return None

    def open_rows(self, rows: StageRows) -> Mask | None:
        """Tell which rows an open instance holds; None for all."""
        return None

    def needed_rows(self, rows: StageRows) -> Mask | None:
        """Tell which rows must be there to go on; None for all."""
        return None

    def durable_rows(self, rows: StageRows) -> Mask | None:
        """Tell which rows are to be handed out: also those that say that earlier ones are not needed; None for all."""
        return None

    def columns(self, places: Vector) -> dict[str, pa.Array]:
        """Return what the window knows of each of these rows, to be written down."""
        return {}

    @abstractmethod
    def counters(self) -> dict[str, int]:
        """Return how far the window has come, beside its rows."""

    @abstractmethod
    def restore(self, rows: StageRows, written: pa.Table, counters: dict[str, int]) -> None:
        """Go on from what was written down; the rows are loaded already."""

    def drain(self, rows: StageRows, position_us: int) -> None:  # noqa: B027 - most are over when the open ones close
        """Open no instance any more that holds no row from before a position, where that could go on for ever."""

    def in_step(self, other: Any, mine: Vector, theirs: Vector) -> bool:
        """Tell whether another one opens and closes instances at the same rows; both need those at the given places."""
        return True

    @property
    def nbytes(self) -> int:
        """Return the memory held beside the rows."""
        return 0


class RangeInstancesState(InstancesState):
    """Instances at the multiples of a slide, by the time of the rows' triggers."""

    def __init__(self, window: RangeInstances) -> None:
        self.width_us, self.slide_us = window.width_us, window.slide_us
        self.closed_us = NEVER_US
        """The last multiple that has closed."""

    def admit(self, column: ColumnOf, trigger_us: Vector) -> Mask | None:
        """Tell which rows are not between two instances."""
        if self.width_us >= self.slide_us:
            return None
        inside: Mask = (trigger_us + self.width_us) // self.slide_us * self.slide_us > trigger_us
        return inside

    def close(self, rows: StageRows, fresh: int, clock_us: int) -> Closing | None:
        """Close the instances up to the clock that hold a row."""
        limit = int(clock_us) // self.slide_us * self.slide_us
        before, self.closed_us = self.closed_us, max(self.closed_us, limit)
        if limit <= before or not len(rows):
            return None
        times = rows.trigger_us.view()
        none = np.empty(0, np.int64)
        count = close_times(times, before, limit, self.width_us, self.slide_us, none, none, none)
        if not count:
            return None
        at, lows, highs = (np.empty(count, np.int64) for _ in range(3))
        close_times(times, before, limit, self.width_us, self.slide_us, at, lows, highs)
        trigger = np.full((count, 4), -1, np.int64)
        trigger[:, 0] = at
        return Closing(np.arange(highs[-1]), lows, highs, trigger, np.arange(count))

    def forget(self, rows: StageRows, handed_out: int) -> None:
        """Drop rows whose last instance has closed."""
        first_us = self.closed_us + self.slide_us - self.width_us
        if first_us > NEVER_US:
            times = rows.trigger_us.view()
            rows.drop_front(len(times) if first_us > FOREVER_US else int(np.searchsorted(times, first_us)))

    def panes(self, rows: StageRows) -> Vector:
        """Number the rows by the first and the last instance that holds them: neither of them decreases."""
        times: Vector = rows.trigger_us.view()
        return times // self.slide_us + (times + self.width_us) // self.slide_us

    def counters(self) -> dict[str, int]:
        """Return the last multiple that has closed."""
        return {"closed_us": self.closed_us}

    def restore(self, rows: StageRows, written: pa.Table, counters: dict[str, int]) -> None:
        """Go on from what was written down."""
        self.closed_us = counters["closed_us"]


class RowsInstancesState(InstancesState):
    """Instances of a number of rows.

    Rows between two instances are never held, so the rows held are as if the slide were no longer than the instance.
    """

    def __init__(self, window: RowsInstances) -> None:
        self.size, self.slide = window.count, window.slide
        self.step = min(self.size, self.slide)
        self.seen = 0

    def admit(self, column: ColumnOf, trigger_us: Vector) -> Mask | None:
        """Tell which rows are not between two instances."""
        numbers = np.arange(self.seen, self.seen + len(trigger_us))
        self.seen += len(trigger_us)
        return None if self.slide <= self.size else numbers % self.slide < self.size

    def close(self, rows: StageRows, fresh: int, clock_us: int) -> Closing | None:
        """Close the instances whose last row is there; the first row held is the first of the oldest open one."""
        if len(rows) < self.size:
            return None
        lows = np.arange(0, len(rows) - self.size + 1, self.step)
        return closing(rows, np.arange(lows[-1] + self.size), lows, lows + self.size)

    def forget(self, rows: StageRows, handed_out: int) -> None:
        """Drop the rows before the oldest open instance."""
        if len(rows) >= self.size:
            rows.drop_front(((len(rows) - self.size) // self.step + 1) * self.step)

    def in_step(self, other: "RowsInstancesState", mine: Vector, theirs: Vector) -> bool:
        """Tell whether instances begin at the same rows."""
        return (self.seen - other.seen) % self.slide == 0

    def counters(self) -> dict[str, int]:
        """Return how many rows have come."""
        return {"seen": self.seen}

    def restore(self, rows: StageRows, written: pa.Table, counters: dict[str, int]) -> None:
        """Go on from what was written down."""
        self.seen = counters["seen"]


class PredicateInstancesState(InstancesState):
    """Instances from a row where one condition is true to a row where another is."""

    def __init__(self, window: PredicateWindow) -> None:
        self.start, self.end = window.start, window.end
        self.is_open = False
        self._closers = np.empty(0, np.int64)
        """Which of the rows just admitted close an instance."""
        self._done = 0
        """How many of the rows held are of instances that have closed."""

    def admit(self, column: ColumnOf, trigger_us: Vector) -> Mask | None:
        """Tell which rows are inside."""
        count = len(trigger_us)
        starts, ends = (truth(e, count, column) for e in (self.start, self.end))
        inside, closes, is_open = follow_conditions(starts, ends, self.is_open)
        self.is_open = bool(is_open)
        self._closers = np.flatnonzero(closes[inside])
        return inside

    def close(self, rows: StageRows, fresh: int, clock_us: int) -> Closing | None:
        """Close what the rows just admitted have closed; before them are the rows of the one that was open."""
        highs = self._closers + (len(rows) - fresh + 1)
        self._closers = np.empty(0, np.int64)
        if not len(highs):
            return None
        self._done = int(highs[-1])
        return closing(rows, np.arange(highs[-1]), np.concatenate([[0], highs[:-1]]), highs)

    def forget(self, rows: StageRows, handed_out: int) -> None:
        """Drop all rows but those of the open instance, if there is one."""
        rows.drop_front(self._done)
        self._done = 0

    def in_step(self, other: "PredicateInstancesState", mine: Vector, theirs: Vector) -> bool:
        """Tell whether an instance is open in both or in none."""
        return self.is_open == other.is_open

    def panes(self, rows: StageRows) -> Vector:
        """Number all rows alike: they are in the instance that is open."""
        return np.zeros(len(rows), np.int64)

    def counters(self) -> dict[str, int]:
        """Return whether an instance is open."""
        return {"open": int(self.is_open)}

    def restore(self, rows: StageRows, written: pa.Table, counters: dict[str, int]) -> None:
        """Go on from what was written down."""
        self.is_open = bool(counters["open"])


def closing(rows: StageRows, places: Vector, lows: Vector, highs: Vector) -> Closing:
    """Return instances that their last rows have closed."""
    last = places[highs - 1]
    trigger = rows.triggers(last)
    order = ascending(last)
    there = trigger if order is None else trigger[order]
    ranks = np.zeros(len(lows), np.int64)
    ranks[1:] = np.cumsum(np.any(there[1:] != there[:-1], axis=1))
    if order is not None:
        ranks[order] = ranks.copy()
    return Closing(places, lows, highs, trigger, ranks)


def ascending(values: Vector) -> Vector | None:
    """Return places in ascending order of values, those of equal ones as they are; None when all are in order."""
    return None if bool((values[1:] >= values[:-1]).all()) else np.argsort(values, kind="stable")
