"""A soak: tiny micro-batches without end through the whole live path, in memory; what must stay flat is looked at.

    rows of a micro-batch ──▶ pack ──▶ buckets, put together anew each time ──▶ driver ──▶ checkpoint, results
    a change, a migration, a snapshot, a late row now and then; results are taken away, as a reader would

Flat: the heads and tables of the buckets, the files of the checkpoint and their sizes, the memory of this process, what
is written in a micro-batch, and all that the driver remembers. Seldom is it started again, so that what a restart
would take away is seen to grow. `make soak BATCHES=1000000` prints them, and the time of a micro-batch, as it goes.
"""

import argparse
import errno
import gc
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
from engine.live_host import HostedRun, some_rows, two_streams
from engine.memory_store import MemoryStore

from midstream.engine.world import Data, World
from midstream.live.kept import Retention
from midstream.live.repository import _plans, _rows
from midstream.live.result_folder import ResultFolder
from midstream.local.disk import RandomNames
from midstream.plan.plan import Plan

FIRST = """SELECT a.k, a.v, b.v AS w FROM a [RANGE 20 SECONDS], b [ROWS 40] WHERE a.k = b.k AND a.v < b.v"""
SECOND = FIRST.replace("20 SECONDS", "10 SECONDS")
TAKEN_EVERY = 200
"""Micro-batches after which results and late rows are taken away."""
RESTARTED_EVERY = 300_000


class Unlocked:
    """A lock that nobody else wants."""

    def release(self) -> None:
        """Do nothing."""


class MemoryFiles:
    """Files in this process. State: what is in each, by folder."""

    def __init__(self) -> None:
        self.folders: dict[str, dict[str, bytes]] = {}
        self.written = 0

    def _at(self, file: Path) -> tuple[dict[str, bytes], str]:
        return self.folders.setdefault(str(file.parent), {}), file.name

    def read(self, file: Path) -> bytes:
        folder, name = self._at(file)
        if name not in folder:
            raise FileNotFoundError(errno.ENOENT, "No such file", str(file))
        return folder[name]

    def exists(self, path: Path) -> bool:
        folder, name = self._at(path)
        return name in folder or str(path) in self.folders

    def names(self, folder: Path) -> list[str]:
        below = (PurePath(f) for f in self.folders if PurePath(f).parent == folder)
        return sorted({*self.folders.get(str(folder), {}), *(f.name for f in below)})

    def make_folder(self, folder: Path) -> None:
        self.folders.setdefault(str(folder), {})

    def write(self, file: Path, data: Data, lasting: bool = True) -> None:
        folder, name = self._at(file)
        folder[name] = bytes(data)
        self.written += len(folder[name])

    def append(self, file: Path, data: Data) -> None:
        folder, name = self._at(file)
        folder[name] = folder.get(name, b"") + bytes(data)
        self.written += len(bytes(data))

    def sync(self, path: Path) -> None:
        """Everything is there."""

    def move(self, old: Path, new: Path, lasting: bool = True) -> None:
        data = self.read(old)
        self.remove(old)
        folder, name = self._at(new)
        folder[name] = data

    def link(self, old: Path, new: Path) -> None:
        folder, name = self._at(new)
        if name in folder:
            raise FileExistsError(errno.EEXIST, "File exists", str(new))
        folder[name] = self.read(old)

    def remove(self, file: Path) -> None:
        folder, name = self._at(file)
        folder.pop(name, None)

    def remove_folder(self, folder: Path) -> None:
        for name in [f for f in self.folders if f == str(folder) or f.startswith(f"{folder}/")]:
            del self.folders[name]

    def lock(self, file: Path) -> Unlocked:
        return Unlocked()


class TickingClock:
    """A clock that goes on by a millisecond whenever it is looked at."""

    def __init__(self) -> None:
        self._ns = 1_700_000_000_000_000_000

    def now_ns(self) -> int:
        self._ns += 1_000_000
        return self._ns

    def elapsed_s(self) -> float:
        return self.now_ns() / 1e9

    def pause(self, seconds: float) -> None:
        self._ns += int(seconds * 1e9)


class CountingStore(MemoryStore):
    """A store that counts the bytes that Spark would write."""

    written = 0

    def write_state(self, state: str) -> None:
        self.written += len(state)
        super().write_state(state)

    def write(self, key: Any, table: pa.Table) -> None:
        self.written += table.nbytes
        super().write(key, table)


class KeptOperators:
    """The operators of a bucket from one micro-batch to the next, as shared memory keeps them."""

    trouble = ""

    def __init__(self) -> None:
        self._held: dict[int, tuple[str, Any]] = {}

    def take(self, version: int, token: str, plan: Plan) -> Any | None:
        found, exported = self._held.pop(version, ("", None))
        return exported if found == token else None

    def publish(self, version: int, token: str, exported: Any) -> bool:
        self._held[version] = token, exported
        return True

    def forget(self, version: int) -> None:
        self._held.pop(version, None)


@dataclass
class Sizes:
    """What must stay flat, as it was after some micro-batches."""

    head: int
    tables: int
    files: int
    file_bytes: int
    written: float
    memory: int
    batch_ms: float
    remembered: dict[str, int]
    """What the driver remembers that is not written down, and how many of them."""

    def __str__(self) -> str:
        return (
            f"head {self.head:,} B, {self.tables} tables, {self.files} files of {self.file_bytes:,} B, "
            f"{self.written:,.0f} B written a batch, {self.memory / 1e6:,.1f} MB, {self.batch_ms:.2f} ms a batch; "
            f"remembered: {', '.join(f'{count} {name}' for name, count in self.remembered.items())}"
        )


@dataclass
class Soak:
    """A run that is asked for something now and then."""

    seed: int
    buckets: int = 2
    sizes: list[Sizes] = field(default_factory=list)
    rows_out: int = 0

    def __post_init__(self) -> None:
        self.rnd = random.Random(self.seed)
        self.files = MemoryFiles()
        self.world = World(self.files, TickingClock(), RandomNames())
        self.folder = Path("/soak")
        self.stores: dict[int, Any] = {}
        self.memories = {label: KeptOperators() for label in range(self.buckets)}
        self.batch, self.changed = 0, 0
        self.run = self._opened()

    def _opened(self) -> HostedRun:
        sink = ResultFolder(self.folder / "out", self.world)
        return HostedRun(
            FIRST, two_streams(), self.folder, self.stores, self.buckets, sink, self.world, 500_000,
            lambda label: CountingStore(), self.memories, Retention(event_bytes=65_536),
        )  # fmt: skip

    def step(self) -> None:
        """Run a micro-batch, and ask for something now and then."""
        if self.batch % 97 == 50:
            self.changed += 1
            method = ("drain", "immediate", "graceful-drain", "delayed-drain", "graceful-immediate")[self.changed % 5]
            self.run.change(SECOND if self.changed % 2 else FIRST, method)
        if self.batch % 61 == 20 and not self.run.live.under_way():
            self.run.migrate("(b a)" if self.batch % 2 else "(a b)", "moving-state")
        if self.batch % 13 == 5:
            self.run.snapshot()
        rows = some_rows(self.seed, self.batch, 3)
        if self.batch % 29 == 28:  # one row comes too late
            rows["a"] = pa.concat_tables([rows["a"], some_rows(self.seed, self.batch - 20, 1)["a"]])
        self.run.tick(rows)
        self.batch += 1
        if self.batch % TAKEN_EVERY == 0:
            self._take()
        if self.batch % RESTARTED_EVERY == 0:
            self.run.end()
            self.run = self._opened()

    def _take(self) -> None:
        for name in ("out", "checkpoint/late"):
            folder = self.files.folders.get(str(self.folder / name), {})
            self.rows_out += sum(name.startswith("batch-") for name in folder)
            for file in [n for n in folder if n.startswith("batch-")][:-5]:
                del folder[file]

    def go(self, batches: int, looks: int, show: bool = False) -> None:
        """Run so many micro-batches; look at the sizes so many times."""
        every = batches // looks
        for _ in range(looks):
            written, began = self._written(), time.perf_counter()
            for _ in range(every):
                self.step()
            took_ms = (time.perf_counter() - began) * 1000 / every
            self._take()
            gc.collect()
            self.sizes.append(self._look((self._written() - written) / every, took_ms))
            if show:
                print(f"{self.batch:>9,} micro-batches: {self.sizes[-1]}", flush=True)

    def _written(self) -> int:
        return self.files.written + sum(store.written for store in self.stores.values())

    def _look(self, written: float, batch_ms: float) -> Sizes:
        stores = self.stores.values()
        files = [data for folder in self.files.folders.values() for data in folder.values()]
        with open("/proc/self/statm", encoding="ascii") as statm:
            memory = int(statm.read().split()[1]) * 4096
        return Sizes(
            max(len(store.head or "") for store in stores), sum(len(store.tables) for store in stores), len(files),
            sum(map(len, files)), written, memory, batch_ms, self._remembered(),
        )  # fmt: skip

    def _remembered(self) -> dict[str, int]:
        run, live, events = self.run, self.run.live, self.run._checkpoint.events
        return {
            "plans": sum(map(len, _plans.values())), "rows": sum(map(len, _rows.values())),
            "changes": len(live.records.all()), "lives": len(live._merger.control.lives),
            "retired": len(live._retired), "migrations": len(run._records.all()), "gaps": len(run._gap_s),
            "noted": len(events._noted or ()), "states": len(events._states),
        }  # fmt: skip

    def grown(self) -> list[str]:
        """Return what has grown: larger in the last third of the looks than ever in those before, by a quarter."""
        third = len(self.sizes) // 3
        before, last = self.sizes[third : 2 * third], self.sizes[-third:]
        out = []
        for name in ("head", "tables", "files", "file_bytes", "written", "memory"):
            was, now = max(getattr(s, name) for s in before), sum(getattr(s, name) for s in last) / third
            if now > 1.25 * was + (20_000_000 if name == "memory" else 0):
                out.append(f"{name}: {was:,.0f} became {now:,.0f}")
        for name in last[-1].remembered:
            most, now = (max(s.remembered[name] for s in part) for part in (before, last))
            if now > 1.25 * most + 2:
                out.append(f"{name}: {most:,} became {now:,}")
        return out


def main() -> None:
    """Run so many micro-batches, and say what has grown."""
    asked = argparse.ArgumentParser(description=main.__doc__)
    asked.add_argument("--batches", type=int, default=1_000_000)
    asked.add_argument("--seconds", type=float, default=1e9)
    asked.add_argument("--seed", type=int, default=1)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory():
        soak, began = Soak(given.seed), time.monotonic()
        every = min(max(given.batches // 60, 100), 1000)
        while soak.batch < given.batches and time.monotonic() - began < given.seconds:
            soak.go(every, 1, show=True)
        found = soak.grown()
    print(f"{soak.batch:,} micro-batches, {soak.changed:,} changes, {len(_plans)} queries; grown: {found or 'nothing'}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
