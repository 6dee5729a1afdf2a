"""Statistics of recorded streams: rows in windows, rates, different keys; from their first rows."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from midstream.local.sources import RecordedStream
from midstream.model.statistics import Statistics
from midstream.plan.expr import Column, aliases
from midstream.plan.plan import Plan
from midstream.plan.window import RangeWindow, RowsWindow

LOOKED_AT = 200_000
"""Rows of each stream that are looked at."""


def look_at(plan: Plan, streams: Sequence[RecordedStream]) -> Statistics:
    """Return statistics of the streams a plan reads."""
    stats = Statistics()
    by_name = {s.schema.name: s for s in streams}
    for source in plan.query.sources:
        members = {
            group: m.name
            for group, cls in enumerate(plan.predicates.classes)
            for m in cls.members
            if isinstance(m, Column) and aliases(m) == {source.alias}
        }
        stream = by_name[source.stream.name]
        seen, first, last, keys = 0, None, 0, dict.fromkeys(members, 0)
        for chunk in stream.chunks(sorted(set(members.values()))):
            if not len(chunk.times):
                continue
            first = int(chunk.times.min()) if first is None else min(first, int(chunk.times.min()))
            last = max(last, int(chunk.times.max()))
            seen += len(chunk.times)
            for group, name in members.items():
                keys[group] = max(keys[group], distinct_values(chunk.rows.column(name)))
            if seen >= LOOKED_AT:
                break
        span_s = max((last - first) / 1e6, 1e-6) if first is not None else 1.0
        rate = seen / span_s
        stats.rows_per_s[source.alias] = rate
        held = float(stream.rows)
        if isinstance(source.window, RangeWindow):
            held = min(held, rate * source.window.width_us / 1e6)
        elif isinstance(source.window, RowsWindow) and not source.window.partition_by:
            held = min(held, float(source.window.count))
        stats.window_rows[source.alias] = held
        for group, count in keys.items():
            stats.distinct[group, source.alias] = float(count)
    return stats


def distinct_values(array: pa.Array | pa.ChunkedArray) -> int:
    """Return how many different values there are, NULL not counted."""
    return 0 if pa.types.is_null(array.type) else int(pc.count_distinct(array).as_py())
