"""Statistics of a hopping query's recorded streams, from their first rows."""

from collections.abc import Sequence

from midstream.engine.planning.statistics import distinct_values
from midstream.local.first_rows import read_first
from midstream.local.sources import RecordedStream
from midstream.optimize.hopping.statistics import HopStatistics
from midstream.plan.query import Query
from midstream.plan.window import RangeWindow, RowsWindow


def gather_for_hops(query: Query, streams: Sequence[RecordedStream]) -> HopStatistics | None:
    """Return statistics of the recorded streams a query reads, from their first rows; None if one is not recorded."""
    found = HopStatistics()
    by_name = {s.schema.name: s for s in streams}
    if any(source.stream.name not in by_name for source in query.sources):
        return None
    for source in query.sources:
        stream, alias, window = by_name[source.stream.name], source.alias, source.window
        names = query.columns_of(alias)
        rows = read_first(stream, names)
        if not len(rows):
            continue
        found.rows_per_s[alias] = rows.per_s
        if isinstance(window, RangeWindow):
            found.window_rows[alias] = min(float(stream.rows), rows.per_s * window.width_us / 1e6)
        elif isinstance(window, RowsWindow) and not window.partition_by:
            found.window_rows[alias] = float(min(stream.rows, window.count))
        for name in names:
            found.distinct[alias, name] = float(distinct_values(rows.columns.column(name)))
    return found
