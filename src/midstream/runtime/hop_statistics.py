"""Statistics of a hopping query's rows: from the first rows of recorded streams, or from what a running one holds."""

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from midstream.operators.hopping.build import window_columns
from midstream.operators.hopping.build_execution import HopExecution
from midstream.optimize.hopping.statistics import HopStatistics
from midstream.plan.hopping import HopPlan
from midstream.plan.window import RangeWindow, RowsWindow
from midstream.runtime.hopping import HopRuntime
from midstream.runtime.sources import RecordedStream

LOOKED_AT = 200_000
"""Rows of each stream that are looked at."""


def look_at_streams(plan: HopPlan, streams: Sequence[RecordedStream]) -> HopStatistics:
    """Return statistics of the recorded streams a plan reads, from their first rows."""
    found = HopStatistics()
    by_name = {s.schema.name: s for s in streams}
    for source in plan.query.sources:
        stream = by_name[source.stream.name]
        names = plan.query.columns_of(source.alias)
        seen, first, last = 0, None, 0
        distinct = dict.fromkeys(names, 0)
        for chunk in stream.chunks(names):
            if not len(chunk.times):
                continue
            first = int(chunk.times.min()) if first is None else min(first, int(chunk.times.min()))
            last = max(last, int(chunk.times.max()))
            seen += len(chunk.times)
            for name in names:
                distinct[name] = max(distinct[name], pc.count_distinct(chunk.rows.column(name)).as_py())
            if seen >= LOOKED_AT:
                break
        if first is None:
            continue
        rate = seen / max((last - first) / 1e6, 1e-6)
        found.rows_per_s[source.alias] = rate
        window = source.window
        if isinstance(window, RangeWindow):
            found.window_rows[source.alias] = min(float(stream.rows), rate * window.width_us / 1e6)
        elif isinstance(window, RowsWindow) and not window.partition_by:
            found.window_rows[source.alias] = float(min(stream.rows, window.count))
        found.distinct.update({(source.alias, name): float(count) for name, count in distinct.items()})
    return found


def told_windows(execution: HopExecution) -> dict[str, tuple[int, int, dict[str, int]]]:
    """Return of each window how many rows have come, how many are held, and different values of each column."""
    found = {}
    for alias, fields in window_columns(execution.plan).items():
        window = execution.windows[alias]
        rows = window.held()[-LOOKED_AT:]
        values = {c.name: len(np.unique(rows[:, k])) for k, c in enumerate(fields.given)}
        found[alias] = (window.came, window.tuples, values)
    return found


def look_at_windows(runtime: HopRuntime) -> HopStatistics:
    """Return statistics of the rows that a running query holds, right behind a hop."""
    found = HopStatistics()
    plan, hops = runtime.plan, max(runtime.hops_with_plan, 1)
    for alias, fields in window_columns(plan).items():
        windows = [e.windows[alias] for e in runtime.executions]
        came = sum(w.came for w in windows) - runtime.came_before.get(alias, 0)
        found.rows_per_s[alias] = came * 1e6 / (hops * runtime.hop_us)
        found.window_rows[alias] = float(sum(w.tuples for w in windows))
        for k, column in enumerate(fields.given):
            count = sum(len(np.unique(w.held()[-LOOKED_AT:, k])) for w in windows)
            found.distinct[alias, column.name] = float(max(count, 1))
    return found
