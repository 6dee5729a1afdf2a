"""Statistics of a hopping query's recorded streams, from their first rows."""

from collections.abc import Sequence

from midstream.engine.planning.statistics import distinct_values
from midstream.local.sources import RecordedStream
from midstream.optimize.hopping.statistics import HopStatistics
from midstream.plan.query import Query
from midstream.plan.window import RangeWindow, RowsWindow

LOOKED_AT = 200_000
"""Rows of each stream that are looked at."""


def look_at_streams(query: Query, streams: Sequence[RecordedStream]) -> HopStatistics | None:
    """Return statistics of the recorded streams a query reads, from their first rows; None if one is not recorded."""
    found = HopStatistics()
    by_name = {s.schema.name: s for s in streams}
    if any(source.stream.name not in by_name for source in query.sources):
        return None
    for source in query.sources:
        stream = by_name[source.stream.name]
        names = query.columns_of(source.alias)
        seen, first, last = 0, None, 0
        distinct = dict.fromkeys(names, 0)
        for chunk in stream.chunks(names):
            if not len(chunk.times):
                continue
            first = int(chunk.times.min()) if first is None else min(first, int(chunk.times.min()))
            last = max(last, int(chunk.times.max()))
            seen += len(chunk.times)
            for name in names:
                distinct[name] = max(distinct[name], distinct_values(chunk.rows.column(name)))
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
