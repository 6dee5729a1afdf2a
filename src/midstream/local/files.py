"""Files that are there whole or not at all: written beside their place and moved there; what fails is one sentence."""

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from midstream.model.errors import MidstreamError, SinkError
from midstream.model.failpoint import reach
from midstream.model.format import document, whole


@contextlib.contextmanager
def writing(place: object, error: type[MidstreamError] = SinkError) -> Iterator[None]:
    """Say in one sentence that a place cannot be written."""
    try:
        yield
    except (pa.ArrowException, OSError) as failure:
        why = getattr(failure, "strerror", None) or first_line(failure)
        raise error(f"cannot write {place}: {why}") from failure


@contextlib.contextmanager
def opening(checkpoint: Path) -> Iterator[None]:
    """Say in one sentence that a run cannot begin: the disk is full or read-only, something else has a file's name."""
    try:
        yield
    except OSError as error:
        place = error.filename2 or error.filename or checkpoint
        raise MidstreamError(f"checkpoint {checkpoint} cannot be used: {place}: {error.strerror or error}") from error


def names_file_system(path: str | Path) -> bool:
    """Return whether a path begins with a file system, such as s3://; `Path` makes one slash of two.

    >>> names_file_system("s3a://bucket/out"), names_file_system(Path("hdfs://host/out")), names_file_system("a:b/out")
    (True, True, False)
    """
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", str(path)) is not None


def local_folder(path: str | Path, what: str) -> Path:
    """Return the path of a folder, wherever this process goes later; refuse one in another file system: it would be
    made here, under that name.
    """
    if not isinstance(path, str | Path):
        raise MidstreamError(f"{what} must be the path of a folder, not {type(path).__name__}")
    if path == "" or "\0" in str(path):
        raise MidstreamError(f"{what} must be the path of a folder, not {str(path)!r}")
    if names_file_system(path):
        raise MidstreamError(f"{what} must be a folder that this machine and its Spark can write, not {path}")
    return Path(path).absolute()


def check_apart(sink: Path, checkpoint: Path) -> Path:
    """Return the folder of results; refuse that of the checkpoint: one is for readers, one for this user alone."""
    if sink.resolve() == checkpoint.resolve():
        raise SinkError(f"the sink and the checkpoint are one folder, {sink}; give each a folder of its own")
    return sink


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


def write_text(file: Path, text: str) -> None:
    """Write a text that this user alone can read."""
    with open(file, "w", encoding="utf-8", opener=private_file) as written:
        written.write(text)


def replace_json(file: Path, document: dict[str, Any]) -> None:
    """Replace a document that this user alone can read; several processes may try to."""
    text = json.dumps(document, indent=1) + "\n"
    replace_whole(file, lambda p: write_text(p, text), f"{file.name} pending", f"{os.getpid()}.pending")


def read_json(file: Path) -> dict[str, Any] | None:
    """Return a document, or None where there is none."""
    try:
        return document(file, file.read_bytes())
    except FileNotFoundError:
        return None


def results_folder(folder: Path) -> Path:
    """Make a folder for results, if it is not there."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def private_file(file: str | Path, flags: int = os.O_WRONLY | os.O_CREAT | os.O_TRUNC) -> int:
    """Open a file that this user alone can read, whatever the umask; also as the `opener` of one."""
    return os.open(file, flags | os.O_CLOEXEC, 0o600)


def write_table(file: Path, table: pa.Table) -> None:
    """Write a table as an Arrow file that this user alone can read."""
    os.close(private_file(file))
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_table(file: Path) -> pa.Table:
    """Read a table that `write_table` wrote."""
    with whole(file), pa.OSFile(str(file), "rb") as source:
        table = pa.ipc.open_file(source).read_all()
        table.validate(full=True)
        return table
