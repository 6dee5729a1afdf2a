"""Files that are there whole or not at all: written beside their place and moved there; what fails is one sentence."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from midstream.model.errors import MidstreamError, SinkError
from midstream.model.failpoint import reach


@contextlib.contextmanager
def writing(place: object, error: type[MidstreamError] = SinkError) -> Iterator[None]:
    """Say in one sentence that a place cannot be written."""
    try:
        yield
    except (pa.ArrowException, OSError) as failure:
        why = getattr(failure, "strerror", None) or first_line(failure)
        raise error(f"cannot write {place}: {why}") from failure


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, without a closing full stop."""
    return str(error).strip().split("\n")[0].rstrip(".")


def replace_whole(file: Path, write: Callable[[Path], object], point: str, pending: str = "pending") -> None:
    """Let `write` make a file beside its place, and move it there; `point` is the failpoint between the two."""
    beside = file.with_name(f".{file.name}.{pending}")
    try:
        write(beside)
        reach(point)
        os.replace(beside, file)
    except (pa.ArrowException, OSError):
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def replace_json(file: Path, document: dict[str, Any]) -> None:
    """Replace a document; several processes may try to."""
    text = json.dumps(document, indent=1) + "\n"
    replace_whole(
        file, lambda p: p.write_text(text, encoding="utf-8"), f"{file.name} pending", f"{os.getpid()}.pending"
    )


def read_json(file: Path) -> dict[str, Any] | None:
    """Return a document, or None where there is none."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found


def results_folder(folder: Path) -> Path:
    """Make a folder for results, if it is not there."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_table(file: Path, table: pa.Table) -> None:
    """Write a table as an Arrow file."""
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_table(file: Path) -> pa.Table:
    """Read a table that `write_table` wrote."""
    with pa.OSFile(str(file), "rb") as source:
        return pa.ipc.open_file(source).read_all()
