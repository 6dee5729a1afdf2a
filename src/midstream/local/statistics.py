"""Statistics of recorded streams, from their first rows."""

from collections.abc import Sequence

from midstream.engine.planning.gathering import Gathering
from midstream.local.sources import RecordedStream
from midstream.model.errors import SourceError
from midstream.model.statistics import Statistics
from midstream.plan.query import Query

FIRST_ROWS = 200_000
"""Rows of each stream that are read."""


def gather(query: Query, streams: Sequence[RecordedStream]) -> Statistics | None:
    """Return statistics of the streams a query reads; None when one is not recorded or cannot be read."""
    recorded = {s.schema.name: s for s in streams}
    if any(s.stream.name not in recorded for s in query.sources):
        return None
    read = {s.alias: recorded[s.stream.name] for s in query.sources}
    counts = {alias: stream.rows for alias, stream in read.items()}
    try:
        return Gathering(query, lambda alias, names: read[alias].first(names, FIRST_ROWS), counts).statistics()
    except SourceError:
        return None  # whoever runs the query reports it
