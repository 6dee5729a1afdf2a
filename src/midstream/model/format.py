"""Formats: everything durable names its own; what was written in another one, and what is broken, is refused by name.

bytes of a file ──▶ document: is it whole? ──▶ check_format: is it ours? ──▶ whole: has it all that it should?
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from midstream.model.errors import BrokenFileError, MidstreamError, PlanError

RESTORE = "restore it from a copy, or start with a new checkpoint"
"""What to do when a file is broken that cannot be spared."""
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""What an Arrow stream ends with; one that is cut between two batches reads as a shorter one."""


def check_format(what: str, found: object, known: int, oldest: int | None = None) -> None:
    """Refuse what was written in another form than the known one, or those since the oldest that is still read."""
    number = found if type(found) is int else None
    if number is None or not (known if oldest is None else oldest) <= number <= known:
        newer = number is not None and number > known
        do = "go on with the release that wrote it, or a later one" if newer else "start with a new checkpoint"
        raise MidstreamError(f"{what} was written in format {found}, and this release reads format {known}; {do}")


def document(file: object, data: bytes, do: str = RESTORE) -> dict[str, Any]:
    """Return the document that a file has, or say that the file is broken.

    >>> document("a.json", b'{"format": 1}')
    {'format': 1}
    >>> document("a.json", b'{"format"')
    Traceback (most recent call last):
    midstream.model.errors.BrokenFileError: a.json is broken, it is no JSON or cut short; restore it from a copy, or \
start with a new checkpoint
    """
    if not data.strip(b"\0 \n"):
        raise BrokenFileError(f"{file} is broken, it is empty; {do}")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BrokenFileError(f"{file} is broken, it is no JSON or cut short; {do}")
    return found


SENSELESS = (
    pa.ArrowException, LookupError, TypeError, ValueError, AttributeError, EOFError, AssertionError, ArithmeticError,
)  # fmt: skip
"""What comes of values that are not as they should be."""


@contextmanager
def whole(file: object, do: str = RESTORE) -> Iterator[None]:
    """Say that a file is broken when what is read from it inside is not as it should be."""
    try:
        yield
    except FileNotFoundError as error:
        raise BrokenFileError(f"{file} is missing; {do}") from error
    except PlanError as error:
        raise MidstreamError(f"{file}: {error}") from error
    except SENSELESS as error:
        raise BrokenFileError(f"{file} is broken, it is cut short or something in it is wrong; {do}") from error
    except OSError as error:
        why = error.strerror or str(error).strip().split("\n")[0]
        raise BrokenFileError(f"{file} cannot be read: {why}; {do}") from error


def stream_table(file: object, data: bytes, do: str = RESTORE) -> pa.Table:
    """Return the table that a file has as an Arrow stream, or say that the file is broken."""
    with whole(file, do):
        if not data.endswith(END_OF_STREAM):
            raise ValueError("no end")
        table = pa.ipc.open_stream(data).read_all()
        table.validate(full=True)
        return table
