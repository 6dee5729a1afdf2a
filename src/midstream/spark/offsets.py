"""Offsets: what Spark has planned to read and has committed, as its own checkpoint has it. Needs no PySpark.

offsets/N   what micro-batch N reads: a version, settings, a line for each source
commits/N   that it is over: a version, settings
sources/K/N   what source K has read, a line for each file or an offset; now and then N.compact has all before
metadata    Spark's own name of the query
state/O/P/N.changelog, N.zip   the state of a partition; state/O/_metadata what it is

Spark syncs none of them, so a power cut may leave the last of them empty or in part. It then ends in a stack trace, or
in a sentence that does not say of which file; here they are named. What a micro-batch reads is synced before anybody
sees results of it: it is not planned anew, over other rows, under a number that is taken.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from zipfile import is_zipfile

from midstream.local.disk import THIS_MACHINE
from midstream.model.errors import BrokenFileError
from midstream.model.format import RESTORE
from midstream.model.names import digits

LOOKED_AT = 2
"""The last files of a kind, which Spark reads when a query is started."""
_VERSION = re.compile(r"v[0-9]+")
_AGAIN = "remove it, and its .crc if there is one: its micro-batch is run again, and nothing is lost"
_ANEW = "remove it, and its .crc if there is one: its micro-batch is planned again, and nothing is lost"


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
    committed = _numbers(place / "commits")
    seen = max(committed, default=-1)
    do = {number: RESTORE if number <= seen else _ANEW for number in planned[-LOOKED_AT:]}
    sources = [len(_lines(offsets / str(number), do[number])) - 1 for number in do]
    if sources[-1] < sources[0]:
        raise _broken(offsets / str(planned[-1]), do[planned[-1]])
    for number in committed[-LOOKED_AT:]:
        _lines(place / "commits" / str(number), _AGAIN if number == planned[-1] else RESTORE)
    _check_others(place)
    return planned[-1]


def keep_planned(place: Path, batch: int, sync: Callable[[Path], None] = THIS_MACHINE.files.sync) -> None:
    """Let what a micro-batch reads outlast a power cut."""
    sources = [file for ending in ("", ".compact") for file in place.glob(f"sources/*/{batch}{ending}")]
    for file in (place / "offsets" / str(batch), *sources):
        sync(file)
        sync(file.parent)


def _check_others(place: Path) -> None:
    """Refuse what Spark reads besides when a query is started and is empty or cut short."""
    states = [folder for folder in place.glob("state/*/[0-9]*") if folder.is_dir()]
    files = [file for folder in states for ending in (".changelog", ".zip") for file in _last(folder, ending)]
    logs = [*place.glob("sources/*"), *place.glob("state/*/_metadata/*")]
    files += [file for log in logs for ending in ("", ".compact") for file in _last(log, ending)]
    for file in (*sorted(files), place / "metadata"):
        try:
            _check_end(file)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise _broken(file, RESTORE) from error


def _check_end(file: Path) -> None:
    """Raise ValueError when a file has no end: what is written first is there first."""
    if not file.stat().st_size:
        raise ValueError("empty")
    if file.suffix == ".zip" and not is_zipfile(file) and file.exists():
        raise ValueError("no zip")
    if file.suffix not in (".zip", ".changelog"):
        data = file.read_bytes().rstrip(b"\n")
        last = data.rpartition(b"\n")[2]
        if not data or data.endswith(b"\0"):
            raise ValueError("zeros")
        if last.startswith(b"{"):
            json.loads(last)


def _last(folder: Path, ending: str = "") -> list[Path]:
    """Return the last files of a folder that are named by a number, with an ending."""
    names = [file.name for file in folder.iterdir() if file.suffix == ending] if folder.is_dir() else []
    found = sorted((number, name) for name in names if (number := digits(name.removesuffix(ending))) is not None)
    return [folder / name for _, name in found[-LOOKED_AT:]]


def _numbers(folder: Path) -> list[int]:
    """Return the micro-batches of which there is a file."""
    found = (digits(file.name) for file in folder.iterdir()) if folder.is_dir() else ()
    return sorted(number for number in found if number is not None)


def reads_segment(place: Path, batch: int) -> bool:
    """Return whether every source of a micro-batch that was planned reads a file, its one and next file."""
    _settings, *sources = _lines(place / "offsets" / str(batch), RESTORE)
    found = [json.loads(line) if line != "-" else None for line in sources]
    return all(isinstance(at, dict) and at.get("logOffset") == batch for at in found) and bool(found)


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
