"""World: what a running query touches besides its rows: files, the clock, and names that nobody else has.

    query ──▶ World ──▶ this machine (`local/disk.py`), or a simulated one that fails on purpose (`tests/simulation`)

Everything that must outlast a process goes through here, one small step at a time; a crash can come between any two.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from midstream.model.format import RESTORE, document

Data: TypeAlias = bytes | pa.Buffer
"""What a file can be written from."""


class Lock(Protocol):
    """A lock that goes with the process that holds it."""

    def release(self) -> None:
        """Let somebody else have it."""


class Files(Protocol):
    """Files and folders. What a method has done outlasts a power cut, unless it says otherwise."""

    def read(self, file: Path) -> bytes:
        """Return what is in a file; FileNotFoundError where there is none."""

    def exists(self, path: Path) -> bool:
        """Return whether there is a file or folder of that name."""

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder, in order; none where there is no folder."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder and those above it; one that is there stays."""

    def write(self, file: Path, data: Data, lasting: bool = True) -> None:
        """Write a file, in place of one of the same name; a crash may leave a part of it. See `lasting` of `move`."""

    def append(self, file: Path, data: Data) -> None:
        """Add to the end of a file; a crash may leave a part of what was added."""

    def sync(self, path: Path) -> None:
        """Let a file that somebody else wrote, or the names in a folder, outlast a power cut."""

    def move(self, old: Path, new: Path, lasting: bool = True) -> None:
        """Give a file or folder another name at once, in place of a file there; not `lasting`: that may be undone."""

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name at once; FileExistsError where that name is taken."""

    def remove(self, file: Path) -> None:
        """Remove a file, if it is there. May be undone by a power cut."""

    def remove_folder(self, folder: Path) -> None:
        """Remove a folder and what is in it, if it is there. May be undone, or half done, by a power cut."""

    def lock(self, file: Path) -> Lock | None:
        """Hold a lock, or return None when somebody else does."""


class Clock(Protocol):
    """Time as this machine tells it. It may step, back too: nothing that must be right goes by it."""

    def now_ns(self) -> int:
        """Return the time of day, in nanoseconds since 1970."""

    def elapsed_s(self) -> float:
        """Return seconds since some moment; never steps back."""

    def pause(self, seconds: float) -> None:
        """Wait."""


class Names(Protocol):
    """Names that nobody else has."""

    def new(self) -> str:
        """Return 32 hexadecimal digits."""


@dataclass(frozen=True)
class World:
    """Files, clock and names."""

    files: Files
    clock: Clock
    names: Names
    readable: Files | None = None
    """Files that others may read as well, where `files` are of this user alone; None: the same."""

    def for_readers(self) -> "World":
        """Return this world with files that others may read, if the user lets them."""
        return self if self.readable is None else replace(self, files=self.readable)

    def put(self, file: Path, data: Data, lasting: bool = True, point: Callable[[], None] = lambda: None) -> None:
        """Replace a file whole: a reader sees what was there before or what is there now, also after a crash.

        `point` is called between the two steps, and may refuse the second one.
        """
        pending = file.with_name(f".{file.name}.{self.names.new()[:8]}.pending")
        try:
            self.files.write(pending, data, lasting)
            point()
            self.files.move(pending, file, lasting)
        except Exception:
            self.files.remove(pending)
            raise

    def add(self, file: Path, data: Data, point: Callable[[], None] = lambda: None) -> bool:
        """Write a file whole, unless there is one of that name: then return False, and leave it as it is."""
        pending = file.with_name(f".{file.name}.{self.names.new()[:8]}.pending")
        try:
            self.files.write(pending, data)
            point()
            self.files.link(pending, file)
        except FileExistsError:
            return False
        finally:
            self.files.remove(pending)
        return True

    def put_json(
        self, file: Path, document: Any, lasting: bool = True, point: Callable[[], None] = lambda: None
    ) -> None:
        """Replace a file by a document."""
        self.put(file, document_bytes(document), lasting, point)

    def read_json(self, file: Path, do: str = RESTORE) -> dict[str, Any] | None:
        """Return a document, or None where there is none; `do` says what to do when it is broken."""
        try:
            return document(file, self.files.read(file), do)
        except FileNotFoundError:
            return None


def document_bytes(document: Any) -> bytes:
    """Return a document as it is written: a line for each of its fields, which is quick to write and can be read."""
    if not isinstance(document, dict) or not document:
        return (json.dumps(document) + "\n").encode()
    fields = ",\n ".join(f"{json.dumps(str(name))}: {json.dumps(value)}" for name, value in document.items())
    return f"{{\n {fields}\n}}\n".encode()
