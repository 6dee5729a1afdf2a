"""Rehearsals of many tests at once, as buckets of one streaming query.

    test ──▶ rehearse ──▶ staged rows, spec ─┐                     ┌──▶ its lines ──▶ its merger, sink, report ──▶ test
    test ──▶ rehearse ──▶ staged rows, spec ─┼──▶ one query, n-th ─┼──▶ its lines ──▶ ...
    test ──▶ rehearse ──▶ staged rows, spec ─┘    batch of each    └──▶ its lines ──▶ ...

A streaming query takes many seconds to start and little to go on, so tests marked `together` run side by side, each in
a thread of its own, one of them at a time, until all of them wait for a rehearsal; then one query runs all those.
Rows go through the real packer and each bucket through the real processor; what a rehearsal does with its lines is its
own code; control rows it sends to itself come back with the next micro-batch. What differs is that a bucket shares its
partition with those of others. A bucket that fails fails its test.
"""

import os
import shutil
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark.cloudpickle
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from midstream.engine.bucket.spec import BucketSpec
from midstream.live.control_log import ControlLog
from midstream.live.lines import of_lines
from midstream.live.mailbox import Mailbox
from midstream.live.pack import CONTROL, PACKED, Packer, packed_batch
from midstream.spark import rehearse
from midstream.spark.processor import OUTPUT, BucketProcessor
from midstream.spark.settings import with_settings

STAGED = f"run int, stream int, {rehearse.STAGED}"
HELD = ("high", "clock", "last", "blob")
STAGED_ARROW = pa.schema(
    zip(
        ("run", "stream", *HELD), (pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.bool_(), pa.binary()), strict=True
    )
)
FAILED = -9
"""The kind of a line that says why a bucket failed."""
PARTITIONS = 2
Run = Any
"""A rehearsal of `midstream.spark.rehearse`."""


@dataclass
class Waiting:
    """A rehearsal that waits for its micro-batches."""

    run: Run
    labels: tuple[int, ...]
    spec: BucketSpec
    shared: str
    """What its shared memory is called."""
    packers: list[Packer]
    staged: list[Path]
    """The folder of each stream, one file per micro-batch."""
    done: threading.Event
    mail: Mailbox | None = None
    failure: BaseException | None = None

    @property
    def batches(self) -> int:
        return int(self.run.total)


class PackAll:
    """Packs the rows of all rehearsals, each by the packer of its stream."""

    def __init__(self, packers: dict[tuple[int, int], Packer]) -> None:
        self._packers = packers

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place, (run, stream) in enumerate(zip(*(batch.column(k).to_pylist() for k in (0, 1)), strict=True)):
                table = pa.Table.from_batches([batch.slice(place, 1).select(list(HELD))])
                yield packed_batch(self._packers[run, stream].lines(table, 0))


class ControlAll:
    """Sends control rows to all buckets of the rehearsal they are of."""

    def __init__(self, labels: dict[int, tuple[int, ...]]) -> None:
        self._labels = labels

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = []
            for line in batch.column(0).to_pylist():
                run, _, row = line.partition(" ")
                rows += [(label, CONTROL, 0, 0, 0, 0, row.encode()) for label in self._labels[int(run)]]
            yield packed_batch(rows)


class ProcessAll(StatefulProcessor):
    """Hosts buckets of many rehearsals: what one does is up to its label."""

    def __init__(self, specs: dict[int, tuple[BucketSpec, str]], mail: dict[int, Mailbox] | None = None) -> None:
        self._specs = specs
        self._mail = mail or {}

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._one = BucketProcessor(lambda label: self._specs[label][0], "")
        self._one.init(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        label = int(key[0])
        try:
            self._one._shared = self._specs[label][1]
            self._one._mail = self._mail.get(label)
            yield from list(self._one.handleInputRows(key, rows, timerValues))
        except Exception:
            yield Row(bucket=label, kind=FAILED, rows=0, blob=traceback.format_exc().encode())

    def close(self) -> None:
        pass


class Together:
    """Runs tests side by side; their rehearsals take turns in common queries."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._baton = threading.Lock()
        """Whoever has it runs; all others wait."""
        self._threads: set[int] = set()
        self._waiting: list[Waiting] = []
        self._labels = 0
        self.queries = 0
        """Queries started so far."""

    def run(self, bodies: Mapping[Hashable, Callable[[], None]]) -> dict[Hashable, BaseException | None]:
        """Run all to their end and return what each of them raised."""
        raised: dict[Hashable, BaseException | None] = {}
        plain, plain_labels = rehearse._run, rehearse.labels_of

        def run_one(key: Hashable, body: Callable[[], None]) -> None:
            with self._baton:
                try:
                    body()
                    raised[key] = None
                except BaseException as error:
                    raised[key] = error

        def run_rehearsal(spark: SparkSession, run: Run, folder: Path, shared: str) -> None:
            if threading.get_ident() in self._threads:
                self._wait_for(run, folder, shared)
            else:
                plain(spark, run, folder, shared)

        def labels_of(spark: SparkSession, buckets: int) -> tuple[int, ...]:
            if threading.get_ident() not in self._threads:
                return plain_labels(spark, buckets)
            self._labels += buckets
            return tuple(range(self._labels - buckets, self._labels))

        rehearse._run, rehearse.labels_of = run_rehearsal, labels_of
        threads = [threading.Thread(target=run_one, args=item) for item in bodies.items()]
        try:
            for thread in threads:
                with self._baton:
                    thread.start()
                    self._threads.add(thread.ident or 0)
            while self._settle(threads):
                self._run_query()
        finally:
            rehearse._run, rehearse.labels_of = plain, plain_labels
            self._threads.clear()
        return raised

    def _settle(self, threads: list[threading.Thread]) -> bool:
        """Wait until every test is over or waits for a rehearsal; tell whether one waits."""
        while True:
            for thread in threads:
                thread.join(0.02)
            with self._baton:
                alive = sum(thread.is_alive() for thread in threads)
                if alive <= len(self._waiting):
                    return bool(self._waiting)

    def _wait_for(self, run: Run, folder: Path, shared: str) -> None:
        """Let a query run a rehearsal."""
        loop = run.loop
        used = {s.stream.name: s for plan in (loop.plan, *loop.versions) for s in plan.query.sources}
        names = [s.schema.name for s in loop.streams if s.schema.name in used]
        run.begin(ControlLog(folder / "control") if run.sends_control else None)
        packers = [
            Packer(run.versions.wanted, name, used[name].position, used[name].stream.time, run.labels, True)
            for name in names
        ]
        staged = sorted((folder / "in").iterdir(), key=lambda p: int(p.name.removeprefix("stream")))
        mail = None if run.mail is None else run.mail.box
        mine = Waiting(run, run.labels, run.spec(), shared, packers, staged, threading.Event(), mail)
        self._waiting.append(mine)
        self._baton.release()
        mine.done.wait()
        self._baton.acquire()
        if mine.failure is not None:
            raise mine.failure

    def _run_query(self) -> None:
        """Run all rehearsals that wait, and let their tests go on."""
        with self._baton:
            runs, self._waiting = self._waiting, []
        folder = Path(tempfile.mkdtemp(prefix="midstream-together-"))
        self.queries += 1
        try:
            stage(runs, folder / "in")
            self._stream(runs, folder)
        except Exception as error:
            for run in runs:
                run.failure = run.failure or error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            for run in runs:
                run.done.set()

    def _stream(self, runs: list[Waiting], folder: Path) -> None:
        owner = {label: run for run in runs for label in run.labels}
        controls = Controls(runs, folder / "control")
        over = threading.Event()

        def on_batch(lines: Any, number: int) -> None:
            rows: dict[int, list[Row]] = {id(run): [] for run in runs}
            for row in lines.collect():
                if row.kind == FAILED:
                    failure = RuntimeError(f"bucket {row.bucket} failed\n{bytes(row.blob).decode()}")
                    owner[row.bucket].failure = owner[row.bucket].failure or failure
                rows[id(owner[row.bucket])].append(row)
            for run in runs:
                if number < run.batches and run.failure is None:
                    try:
                        run.run.on_batch(of_lines(rows[id(run)]), number, time.perf_counter())
                    except Exception as error:
                        run.failure = error
            controls.forward(number + 1)
            if number + 1 >= max(run.batches for run in runs):
                over.set()

        packers = {(n, k): packer for n, run in enumerate(runs) for k, packer in enumerate(run.packers)}
        with with_settings(self._spark, PARTITIONS, rehearsal=True):
            frame = self._spark.readStream.schema(STAGED).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
            packed = frame.mapInArrow(PackAll(packers), PACKED)
            labels = {n: run.labels for n, run in enumerate(runs)}
            sent = self._spark.readStream.text(str(controls.folder)).mapInArrow(ControlAll(labels), PACKED)
            mail = {label: run.mail for label, run in owner.items() if run.mail is not None}
            processor = ProcessAll({label: (run.spec, run.shared) for label, run in owner.items()}, mail)
            lines = packed.unionByName(sent).groupBy("bucket").transformWithState(processor, OUTPUT, "Append", "None")
            writer = lines.writeStream.foreachBatch(on_batch).option("checkpointLocation", str(folder / "checkpoint"))
            query = writer.start()
        while query.isActive and not over.wait(0.05):
            pass
        if over.is_set():
            query.stop()
        query.awaitTermination()


class Controls:
    """The control rows that rehearsals send to themselves, as one stream."""

    def __init__(self, runs: list[Waiting], folder: Path) -> None:
        self._runs = runs
        self._seen: set[Path] = set()
        self.folder = folder
        folder.mkdir()
        self.forward(0)

    def forward(self, number: int) -> None:
        """Send on what rehearsals have sent before the micro-batch of that number, unless it is none of theirs."""
        for n, run in enumerate(self._runs):
            if run.run.log is not None and number < run.batches:
                for file in sorted({*run.run.log.folder.glob("*.json")} - self._seen):
                    self._seen.add(file)
                    pending = self.folder / f".{n}-{file.name}"
                    pending.write_text(f"{n} {file.read_text(encoding='utf-8')}", encoding="utf-8")
                    pending.rename(self.folder / f"{n}-{file.name}")


def stage(runs: list[Waiting], folder: Path) -> None:
    """Write one file per micro-batch with what was staged for the n-th of every rehearsal."""
    folder.mkdir(parents=True)
    for number in range(max(run.batches for run in runs)):
        parts = []
        for n, run in enumerate(runs):
            for k, place in enumerate(run.staged if number < run.batches else ()):
                held = pq.read_table(place / f"{number:08d}.parquet")
                columns = [
                    pa.array([n], pa.int32()),
                    pa.array([k], pa.int32()),
                    held["high"],
                    held["clock"],
                    held["last"],
                    held["blob"],
                ]
                parts.append(pa.table(columns, schema=STAGED_ARROW))
        file = folder / f"{number:08d}.parquet"
        pq.write_table(pa.concat_tables(parts), file, compression="none")
        os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))  # Spark takes files in order of their age


# Workers do not import tests: what runs there goes to them with its code.
pyspark.cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["x"]))
