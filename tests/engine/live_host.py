"""A live run without Spark: micro-batches one after the other, buckets on stores of their own, a driver on a folder.

What Spark would keep, the stores of the buckets, is kept here from one run to the next.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from engine.memory_store import MemoryStore

from midstream.engine.bucket.bucket import Bucket
from midstream.engine.bucket.store import Store
from midstream.engine.bucket.version import OperatorMemory
from midstream.engine.planning.optimizing import Optimizing
from midstream.engine.run.contract import Framework
from midstream.engine.world import World
from midstream.lang.sql import parse_query
from midstream.live.kept import Retention
from midstream.live.lines import Lines, PartWriter, to_lines
from midstream.live.pack import CONTROL, Packer, unpack
from midstream.live.planned import LiveStream, PlannedLive
from midstream.live.result_folder import ResultFolder
from midstream.live.run import EndOfRun, LiveRun
from midstream.live.settings import LiveSettings
from midstream.live.sink import BatchSink
from midstream.local.changes import ask_change
from midstream.local.disk import THIS_MACHINE
from midstream.local.replay import make_plan
from midstream.local.sites import SITES, DeclaredSites, place_plan
from midstream.model.stream import StreamSchema
from midstream.model.timing import Timing


class Line:
    """A line as the driver gets it from Spark, and as a processor does."""

    def __init__(self, bucket: int, kind: int, blob: bytes | None, version: int = 0, alias: int = 0, part: int = 0,
                 high: int = 0) -> None:  # fmt: skip
        self.bucket, self.kind, self.blob = bucket, kind, blob
        self.version, self.alias, self.part, self.high = version, alias, part, high


class HeldLines(Lines):
    """The lines of one micro-batch, in this process."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = list(lines)

    def collect(self) -> list[Any]:
        return list(self._lines)

    def written(self, write: PartWriter) -> list[Any]:
        columns = {
            "bucket": pa.array([line.bucket for line in self._lines], pa.int32()),
            "kind": pa.array([line.kind for line in self._lines], pa.int32()),
            "blob": pa.array([line.blob for line in self._lines], pa.binary()),
        }
        handed = write(iter([pa.RecordBatch.from_pydict(columns)]), 0)
        return [Line(row["bucket"], row["kind"], row["blob"]) for batch in handed for row in batch.to_pylist()]


class HostedRun(LiveRun):
    """A run of a query that this process brings micro-batches to."""

    def __init__(
        self,
        sql: str,
        streams: Sequence[StreamSchema],
        folder: Path,
        stores: dict[int, Store],
        buckets: int = 1,
        sink: BatchSink | None = None,
        world: World = THIS_MACHINE,
        lateness_us: int = 0,
        make_store: Callable[[int], Store] = lambda label: MemoryStore(),
        memories: Mapping[int, OperatorMemory] | None = None,
        kept: Retention | None = None,
        framework: Framework | None = None,
        sites: DeclaredSites | None = None,
        optimize: Optimizing | None = None,
        load: Mapping[str, Any] | None = None,
    ) -> None:
        live = [LiveStream(stream, Timing(lateness_us)) for stream in streams]

        def plan(query: Any, order: str | None = None, join: str = "auto") -> Any:
            return make_plan(parse_query(query, streams), order, join)

        first = plan(sql)
        if sites is not None:
            first, declared = place_plan(first, sites)
            framework = Framework(SITES, sites=declared)
        asked = PlannedLive("q", first, live, plan, {})
        more = {"kept": kept or Retention(), "framework": framework or Framework(), "optimize": optimize, "load": load}
        super().__init__(asked, LiveSettings(folder / "checkpoint", buckets, **more), world)
        self._open(sink or ResultFolder(folder / "out", world), tuple(range(self.buckets)))
        for label in range(self.buckets):
            stores.setdefault(label, make_store(label))
        self.stores, self.open, self._memories = stores, True, memories or {}
        names = [s.name for s in streams]
        labels = tuple(range(self.buckets))
        self._packers = {
            s.name: Packer(self.live.versions.wanted, s.name, names.index(s.name), s.time, labels, False)
            for s in streams if s.name in self.catalog.read
        }  # fmt: skip
        self._heard: set[str] = set()
        self.number = self._next_number()
        try:
            self._begin(lambda: self.number - 1)
        except BaseException:
            self._checkpoint.release()
            raise

    def _next_number(self) -> int:
        heads = [store.read_state() for store in self.stores.values()]
        return max((json.loads(head)["batches"] for head in heads if head is not None), default=0)

    def lives(self) -> bool:
        return self.open

    def tick(self, tables: Mapping[str, pa.Table | None]) -> bool:
        """Run one micro-batch with the rows of each stream; return False after the one that has ended the run."""
        lines: list[Line] = []
        for name, packer in self._packers.items():
            for packed in packer.lines(tables.get(name), 0):
                bucket, kind, version, alias, part, high, blob = packed
                lines.append(Line(bucket, kind, blob, version, alias, part, high))
        # Those that were there in an earlier run have been read by it.
        fresh = [i for i in self._checkpoint.controls.ids() if i not in self._heard]
        self._heard |= set(fresh)
        for identity in fresh:
            try:
                data = self._world.files.read(self._checkpoint.controls.folder / f"{identity}.json")
            except OSError:  # Spark passes over it
                continue
            lines += [Line(label, CONTROL, row) for row in data.splitlines() for label in self.stores]
        out: list[Line] = []
        for label, store in self.stores.items():
            mine = [line for line in lines if line.bucket == label]
            bucket = Bucket(self.bucket_spec().of_batch(self.number), label, store, self._memories.get(label))
            given = unpack(mine, bucket.spec, self.number)
            if self.live.mail is not None:
                given.mail = self.live.mail.box.read(self.number, label)
            output = bucket.on_batch(given)
            out += [Line(label, kind, blob) for kind, _, blob in to_lines(output)]
        try:
            self.on_batch(HeldLines(out), self.number)
        except EndOfRun:
            return False
        self.number += 1
        return True

    def end(self) -> None:
        """End the run."""
        self.open = False
        self._end(None)


def two_streams() -> list[StreamSchema]:
    """Return two streams of the same columns."""
    columns = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
    return [StreamSchema(name, columns, "ts") for name in "ab"]


def some_rows(seed: int, batch: int, count: int = 5) -> dict[str, pa.Table]:
    """Return rows of both streams for the second that a micro-batch is of."""
    out = {}
    for place, name in enumerate("ab"):
        rnd = np.random.default_rng((seed, batch, place))
        times = np.sort(batch * 1_000_000 + rnd.integers(0, 1_000_000, count))
        k, v = rnd.integers(0, 8, count), rnd.integers(0, 100, count)
        out[name] = pa.table({"ts": times, "k": k, "v": v, "s": [f"{name}{x}" for x in v]})
    return out


def batches_of(seed: int, first: int, end: int) -> Iterator[dict[str, pa.Table]]:
    """Yield the rows of some micro-batches."""
    return (some_rows(seed, n) for n in range(first, end))


__all__ = ["HostedRun", "ask_change", "batches_of", "some_rows", "two_streams"]
