"""A simulated disk: folders and files with what a power cut leaves of them, and what is seen until then.

    data ──▶ seen at once ──▶ sync of the file ──▶ outlasts a power cut
    name ──▶ seen at once ──▶ sync of the folder ──▶ outlasts a power cut

What was not synced may be there after a power cut, in part, or not: data are cut off somewhere, and of the changes to
the names in a folder the first so many are kept. A rename is one change.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class File:
    """What is in a file."""

    def __init__(self) -> None:
        self.data = b""
        self.kept: bytes | None = b""
        """What outlasts a power cut; None: something between what was kept before and what is there now."""
        self.before = b""
        self.written_ns = 0
        """When it was written, as the clock said."""

    def change(self, data: bytes) -> None:
        if self.kept is not None:
            self.before, self.kept = self.kept, None
        self.data = data

    def sync(self) -> None:
        self.kept = self.data

    def cut(self, rnd: random.Random) -> None:
        """Lose what was not synced, or some of it."""
        if self.kept is None:
            # What was only added to keeps what was there.
            least = len(self.before) if self.data.startswith(self.before) else 0
            self.data = rnd.choice([self.before, self.data, self.data[: rnd.randint(least, len(self.data))]])
            self.kept = self.data


class Folder:
    """Names, what they lead to, and the changes that are not synced: the names they touch, and what those led to."""

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.kept: dict[str, Node] = {}
        self.changes: list[dict[str, Node | None]] = []

    def change(self, **names: "Node | None") -> None:
        self.set(names)

    def set(self, names: "dict[str, Node | None]") -> None:
        self.changes.append(names)
        _apply(self.names, names)

    def sync(self) -> None:
        self.kept, self.changes = dict(self.names), []

    def cut(self, rnd: random.Random) -> None:
        """Lose changes that were not synced, from one of them on."""
        for names in self.changes[: rnd.choice([0, len(self.changes), rnd.randint(0, len(self.changes))])]:
            _apply(self.kept, names)
        self.names, self.changes = dict(self.kept), []


Node = File | Folder


def _apply(held: dict[str, Node], names: "dict[str, Node | None]") -> None:
    for name, node in names.items():
        if node is None:
            held.pop(name, None)
        else:
            held[name] = node


class SimulatedDisk:
    """The files of a simulated machine, as system calls change them, one at a time."""

    def __init__(self) -> None:
        self.root = Folder()
        self.locks: dict[str, Any] = {}
        """Who holds the lock on a file."""
        self.changed = 0
        """How often a name or a file has changed."""

    def find(self, path: Path) -> Node | None:
        """Return the file or folder of that name."""
        node: Node | None = self.root
        for name in path.parts[1:]:
            if not isinstance(node, Folder):
                return None
            node = node.names.get(name)
        return node

    def file(self, path: Path) -> File:
        node = self.find(path)
        if isinstance(node, Folder):
            raise IsADirectoryError(str(path))
        if node is None:
            raise FileNotFoundError(f"no such file: {path}")
        return node

    def folder(self, path: Path) -> Folder:
        node = self.find(path)
        if node is None:
            raise FileNotFoundError(f"no such folder: {path}")
        if not isinstance(node, Folder):
            raise NotADirectoryError(str(path))
        return node

    def create(self, path: Path) -> File:
        """Return the file of that name, a new one if there is none."""
        folder = self.folder(path.parent)
        node = folder.names.get(path.name)
        if node is None:
            node = File()
            folder.set({path.name: node})
            self.changed += 1
        assert isinstance(node, File)
        return node

    def rename(self, old: Path, new: Path) -> None:
        source, target = self.folder(old.parent), self.folder(new.parent)
        node = source.names.get(old.name)
        if node is None:
            raise FileNotFoundError(f"no such file: {old}")
        if source is target:
            source.set({old.name: None, new.name: node})
        else:
            target.set({new.name: node})
            source.set({old.name: None})
        self.changed += 1

    def link(self, old: Path, new: Path) -> None:
        node, target = self.file(old), self.folder(new.parent)
        if new.name in target.names:
            raise FileExistsError(str(new))
        target.set({new.name: node})
        self.changed += 1

    def unlink(self, path: Path) -> None:
        folder = self.find(path.parent)
        if isinstance(folder, Folder) and path.name in folder.names:
            folder.set({path.name: None})
            self.changed += 1

    def anchor(self, path: Path) -> None:
        """Let a folder that was synced last under its name, whoever made those above it: so journals have it."""
        for below in (path, *path.parents[:-1]):
            above = self.folder(below.parent)
            if below.name:
                above.kept.setdefault(below.name, above.names[below.name])

    def power_cut(self, rnd: random.Random) -> None:
        """Lose what was not synced, or some of it."""
        self.locks.clear()
        for node in list(walk(self.root)):
            if isinstance(node, Folder):
                node.cut(rnd)
        for node in walk(self.root):
            if isinstance(node, File):
                node.cut(rnd)
        self.changed += 1


def walk(folder: Folder) -> Iterator[Node]:
    """Yield a folder and everything in it."""
    yield folder
    for _, node in sorted(folder.names.items()):
        if isinstance(node, Folder):
            yield from walk(node)
        else:
            yield node
