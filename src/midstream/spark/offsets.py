"""Offsets: what Spark has planned to read and has committed, as its own checkpoint has it. Needs no PySpark.

offsets/N   what micro-batch N reads: a version, settings, a line for each source
commits/N   that it is over: a version, settings

A power cut may leave the last of them empty or in part. Spark then ends in a stack trace; here they are named.
"""

import json
import re
from pathlib import Path

from midstream.model.errors import BrokenFileError
from midstream.model.format import RESTORE
from midstream.model.names import digits

LOOKED_AT = 2
"""The last files of a kind, which Spark reads when a query is started."""
_VERSION = re.compile(r"v[0-9]+")
_AGAIN = "remove it, and its .crc if there is one: its micro-batch is run again, and nothing is lost"


def planned_batch(place: Path) -> int:
    """Return the last micro-batch that was planned in a checkpoint of Spark's, -1 if there is none.

    Remove what a driver left that was killed while it wrote its first offsets: Spark begins in empty folders. Refuse
    files that a power cut has left empty or in part.
    """
    offsets = place / "offsets"
    if not offsets.is_dir():
        return -1
    planned = _numbers(offsets)
    if not planned:
        for file in [*offsets.glob(".*.tmp"), *offsets.glob(".*.crc")]:
            file.unlink()
        return -1
    sources = [_sources(offsets / str(number)) for number in planned[-LOOKED_AT:]]
    if sources[-1] < sources[0]:
        raise _broken(offsets / str(planned[-1]), RESTORE)
    for number in _numbers(place / "commits")[-LOOKED_AT:]:
        _lines(place / "commits" / str(number), _AGAIN if number == planned[-1] else RESTORE)
    return planned[-1]


def _numbers(folder: Path) -> list[int]:
    """Return the micro-batches of which there is a file."""
    found = (digits(file.name) for file in folder.iterdir()) if folder.is_dir() else ()
    return sorted(number for number in found if number is not None)


def _sources(file: Path) -> int:
    """Return of how many sources some offsets are."""
    return len(_lines(file, RESTORE)) - 1


def _lines(file: Path, do: str) -> list[str]:
    """Return what stands below the version, if all of it is whole."""
    try:
        version, *lines = file.read_text(encoding="utf-8").splitlines()
        if not _VERSION.fullmatch(version) or not lines:
            raise ValueError("no version")
        for line in lines:
            if line != "-":  # of a source that has nothing yet
                json.loads(line)
    except (OSError, ValueError) as error:
        raise _broken(file, do) from error
    return lines


def _broken(file: Path, do: str) -> BrokenFileError:
    return BrokenFileError(f"{file}, which Spark wrote, is broken, it is empty or cut short; {do}")
