"""Statistics of a hopping query's rows, from what its windows hold.

    executions, one in each bucket ──▶ a look at each ──▶ statistics of the whole query

A look is plain values, so that buckets elsewhere can report theirs.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from midstream.engine.planning.sizes import SeenSizes, summed
from midstream.model.statistics import Statistics
from midstream.operators.hopping.build import window_columns
from midstream.operators.hopping.build_execution import HopExecution
from midstream.operators.hopping.node import OperatorStatistics
from midstream.plan.plan import Plan

LOOKED_AT = 200_000
"""Rows of each stream that are looked at."""


@dataclass(frozen=True)
class WindowStatistics:
    """What one bucket sees of a window."""

    rows: int
    rows_per_s: float | None
    values: dict[str, int] = field(default_factory=dict)
    """Different values of each column."""


@dataclass(frozen=True)
class BucketStatistics:
    """What one bucket sees of its part of a query, right after a hop."""

    windows: dict[str, WindowStatistics] = field(default_factory=dict)
    """The windows, by alias of the query."""
    given: list[OperatorStatistics | None] = field(default_factory=list)
    """What each operator has lately given, in the order of the plan."""

    def to_dict(self) -> dict[str, Any]:
        """Return the statistics as plain values."""
        return asdict(self)

    @staticmethod
    def of(plain: dict[str, Any]) -> "BucketStatistics":
        """Return statistics from plain values."""
        windows = {alias: WindowStatistics(**seen) for alias, seen in plain["windows"].items()}
        return BucketStatistics(
            windows, [None if seen is None else OperatorStatistics(**seen) for seen in plain["given"]]
        )


def look_at(execution: HopExecution) -> BucketStatistics:
    """Look at what a bucket holds."""
    rates, found = execution.rows_per_s(), {}
    fields = window_columns(execution.plan)
    for alias in (s.alias for s in execution.plan.query.sources):
        window = execution.windows[alias]
        rows = window.held()[-LOOKED_AT:]
        values = {c.name: _different(rows[:, k]) for k, c in enumerate(fields[alias].given)}
        found[alias] = WindowStatistics(window.tuples, rates.get(alias), values)
    return BucketStatistics(found, execution.lately())


def _different(codes: npt.NDArray[np.int64]) -> int:
    return distinct_values(pa.array(np.ascontiguousarray(codes)))


def statistics_of(plan: Plan, looks: Sequence[BucketStatistics], sizes: SeenSizes) -> Statistics:
    """Return the statistics of a query from a look at each of its buckets; sizes of operators are remembered."""
    found = Statistics()
    for alias in looks[0].windows:
        seen = [look.windows[alias] for look in looks]
        found.window_rows[alias] = float(sum(w.rows for w in seen))
        rates = [w.rows_per_s for w in seen if w.rows_per_s is not None]
        if rates:
            found.rows_per_s[alias] = sum(rates)
        for name in seen[0].values:
            found.distinct[alias, name] = float(max(sum(w.values[name] for w in seen), 1))
    return sizes.see(plan, summed([look.given for look in looks]), found)


def distinct_values(array: pa.Array | pa.ChunkedArray) -> int:
    """Return how many different values there are, NULL not counted."""
    return 0 if pa.types.is_null(array.type) else int(pc.count_distinct(array).as_py())
