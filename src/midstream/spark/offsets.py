"""Offsets: what Spark has planned to read, as its own checkpoint has it. Needs no PySpark."""

from pathlib import Path

from midstream.model.names import digits


def planned_batch(place: Path) -> int:
    """Return the last micro-batch that was planned in a checkpoint of Spark's, -1 if there is none.

    Remove what a driver left that was killed while it wrote its first offsets: Spark begins in empty folders.
    """
    offsets = place / "offsets"
    if not offsets.is_dir():
        return -1
    planned = max((n for file in offsets.iterdir() if (n := digits(file.name)) is not None), default=-1)
    if planned < 0:
        for file in [*offsets.glob(".*.tmp"), *offsets.glob(".*.crc")]:
            file.unlink()
    return planned
