"""How far a micro-batch goes: by a width of event time, or by rows where none is asked for.

By rows it ends after about so many of one stream, and no later than a few answers that time alone brings (hops, ends of
window instances): neither many small micro-batches, nor one whose results fill the memory. It depends on the rows
alone, so that the same input has the same micro-batches. Results never depend on them.
"""

from collections.abc import Iterable, Sequence

from midstream.local.arrivals import StreamReader
from midstream.model.time import FOREVER, format_duration
from midstream.plan.query import Query

BATCH_ROWS = 16_384
"""Rows of one stream in a micro-batch."""
MOST_ANSWERS = 64
"""Hops, or ends of window instances, in a micro-batch."""
PARTS_OF_HOP = 16
"""Micro-batches of a hop that adapts: its windows are looked at when one ends, which has to be soon after the hop."""


def end_by_rows(
    earliest_us: int, readers: Sequence[StreamReader], queries: Iterable[Query], adapts: bool, look_us: int = FOREVER
) -> int:
    """Return the time before which the rows of the next micro-batch are; no row is before `earliest_us`.

    `look_us` is the event time between two looks at windows, which are made when a micro-batch ends.
    """
    full = min(reader.time_of(BATCH_ROWS) for reader in readers)
    end = full + 1 if full < FOREVER else max(reader.last_time() for reader in readers) + 1
    for step_us in (query.step_us for query in queries):
        if step_us is not None:
            span_us = max(step_us // PARTS_OF_HOP, 1) if adapts else step_us * MOST_ANSWERS
            end = min(end, (earliest_us // span_us + 1) * span_us)
    return end if look_us == FOREVER else min(end, (earliest_us // look_us + 1) * look_us)


def describe(batch_us: int | None) -> str:
    """Say how far micro-batches go.

    >>> describe(5_000_000), describe(None)
    ('5 SECONDS', '16384 rows')
    """
    return f"{BATCH_ROWS} rows" if batch_us is None else format_duration(batch_us)
