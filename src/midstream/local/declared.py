"""Declared streams: a checkpoint is of the streams it was written with, by name, order, columns and time.

Their places in the declaration order rows that have the same time, and name states: so streams may be added at the
end, everything else is refused by name.
"""

from collections.abc import Sequence
from pathlib import Path

from midstream.model.errors import MidstreamError
from midstream.model.stream import StreamSchema


def check_order(checkpoint: Path, known: Sequence[StreamSchema], schemas: Sequence[StreamSchema]) -> None:
    """Refuse columns in another order than they were: for a checkpoint that names a query by its columns."""
    for old, new in zip(known, schemas, strict=False):
        before, now = old.columns.names, new.columns.names
        if now[: len(before)] != before:
            raise MidstreamError(
                f"stream '{old.name}': its columns were {', '.join(before)} when checkpoint {checkpoint} was written, "
                f"in this order; now they are {', '.join(now)}: declare the same ones first, or start with a new "
                "checkpoint"
            )


def check_declared(checkpoint: Path, known: Sequence[StreamSchema], schemas: Sequence[StreamSchema]) -> None:
    """Refuse streams that are declared otherwise than they were."""
    before, now = [s.name for s in known], [s.name for s in schemas]
    if now[: len(before)] != before:
        raise MidstreamError(
            f"checkpoint {checkpoint} was written with the streams {', '.join(before)}, declared in this order; "
            f"now they are {', '.join(now)}: declare the same ones first, new ones after them, or start with a new "
            "checkpoint"
        )
    for old, new in zip(known, schemas, strict=False):
        for column in old.columns:
            place = new.columns.get_field_index(column.name)
            if place < 0 or new.columns.field(place).type != column.type:
                what = "is not there" if place < 0 else f"is {new.columns.field(place).type}"
                raise MidstreamError(
                    f"stream '{old.name}': column '{column.name}' was {column.type} when checkpoint {checkpoint} was "
                    f"written, and {what} now; start with a new checkpoint"
                )
        if old.time != new.time:
            raise MidstreamError(
                f"stream '{old.name}': its time was column '{old.time}' when checkpoint {checkpoint} was written, and "
                f"is '{new.time}' now; start with a new checkpoint"
            )
