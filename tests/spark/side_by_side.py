"""Live queries side by side, as buckets of one streaming query.

    script ──▶ rows of the n-th micro-batch ─┐                    ┌──▶ its lines ──▶ its driver, control log ─┐
    script ──▶ rows of the n-th micro-batch ─┼──▶ one query, n-th ─┼──▶ its lines ──▶ ...                      │
       ▲                                     ┘    batch of all     └──▶ ...                                    │
       └──────────── control rows come back with the next micro-batch ─────────────────────────────────────────┘

As `together` does with rehearsals. Rows go through the packer of live queries, buckets through the processor, lines to
the driver of a live query with its merger log, repository and control log; only the sink is a list.
"""

import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark.cloudpickle
from pyspark import TaskContext
from pyspark.sql import Row, SparkSession
from spark.together import FAILED, PARTITIONS, ControlAll, ProcessAll

from midstream.change.request import ChangeRequest
from midstream.engine.control.controls import CHANGE, DRAIN, MIGRATE
from midstream.engine.control.runs import Runs
from midstream.engine.results.output import ORDER
from midstream.live.blobs import from_blob, to_blob
from midstream.live.change import prepare_known, stored_versions
from midstream.live.checkpoint import Checkpoint
from midstream.live.lines import RESULT
from midstream.live.pack import PACKED, Packer, packed_batch
from midstream.live.query import LiveQuery
from midstream.live.repository import Catalog, register
from midstream.live.shared_memory import forget_query
from midstream.migrate.request import MigrationRequest
from midstream.model.timing import Timing
from midstream.plan.plan import Plan
from midstream.spark.processor import OUTPUT
from midstream.spark.settings import with_settings
from oracle.change_run import Change
from oracle.live_scripts import IDLE, LiveScript

STAGED = "run int, stream int, blob binary"
Values = tuple[Any, ...]


class Lines:
    """The lines of one query, as its driver asks a DataFrame for them."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def collect(self) -> list[Row]:
        return self.rows


class Kept:
    """Keeps the results of every micro-batch."""

    def __init__(self) -> None:
        self.rows: list[Values] = []

    def begin(self, owner: Any) -> None:
        """Nobody else keeps them."""

    def fence(self, first: int, check_newest: Any) -> None:
        """There is one run."""

    def write_lines(self, lines: Any, schema: pa.Schema, number: int, ordered: bool) -> list[Row]:
        blobs = [from_blob(bytes(row.blob)) for row in lines.collect() if row.kind == RESULT]
        tables = [t.select([*schema.names, ORDER]).replace_schema_metadata() for t in blobs if t.num_rows]
        if tables:
            rows = pa.concat_tables(tables).to_pylist()
            self._keep(sorted(rows, key=lambda row: row[ORDER]), schema)
        return [row for row in lines.collect() if row.kind != RESULT]

    def write(self, departures: Sequence[Any], schema: pa.Schema, number: int) -> None:
        for departure in departures:
            self._keep(departure.rows.to_pylist(), departure.rows.schema)

    def _keep(self, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
        self.rows += [tuple(row[name] for name in schema.names) for row in rows]


@dataclass
class LiveRun:
    """A live query that runs a script in some buckets."""

    script: LiveScript
    buckets: int
    folder: Path
    kept: Kept = field(default_factory=Kept)
    failure: BaseException | None = None

    @property
    def batches(self) -> int:
        return len(self.script.cuts) + IDLE + 1

    def begin(self, labels: tuple[int, ...]) -> None:
        self.labels = labels
        self.checkpoint = Checkpoint(self.folder)
        self.plans: list[Plan] = self.script.plans()
        versions = stored_versions(self.checkpoint, uuid.uuid4().hex, self.plans[0], {})
        self.live = LiveQuery(self.checkpoint, versions, labels, self.kept, ordered=True)
        used = {s.stream.name: s for plan in self.plans for s in plan.query.sources}
        self.packers = [
            Packer(self.live.versions.wanted, name, used[name].position, "ts", labels, False)
            for name in self.script.streams
        ]
        streams = [s.stream for s in used.values()]
        self.catalog = Catalog(tuple(streams), tuple(s.name for s in streams), {}, self.plans[0])
        self.numbers = [self._register(*both) for both in zip(self.script.case.changes, self.plans[1:], strict=True)]
        self.spec = self.live.spec({used[name].position: Timing() for name in self.script.streams}, Runs())
        self.shared = f"side-{uuid.uuid4().hex}"
        self.ask(0)

    def _register(self, change: Change, plan: Plan) -> int:
        """Return the number by which a query is changed to, where scripts do it by number."""
        if not self.script.registered or change.query.sql == self.script.case.first.sql:
            return 1
        return register(self.checkpoint.versions, change.query.sql, plan)

    def ask(self, number: int) -> None:
        """Send what the micro-batch of that number is to read."""
        script, controls = self.script, self.checkpoint.controls
        for k, batch in enumerate(script.read):
            if batch == number:
                change = script.case.changes[k]
                method, _, order = change.method.partition("/")
                request = ChangeRequest(change.query.sql, method, order or None, audit=True)
                if self.script.registered:
                    prepare_known(self.checkpoint, self.catalog, self.numbers[k], replace(request, sql="")).send()
                    continue
                identity = controls.new_id()
                version = self.live.versions.files.add(change.query.sql, self.plans[k + 1], identity)
                controls.send(CHANGE, identity=identity, change=request.to_dict(), version=version)
        for batch, plan, strategy in script.migrations:
            if batch == number:
                controls.send(MIGRATE, migration=MigrationRequest(plan, strategy).to_dict())
        if number + 1 == self.batches:
            controls.send(DRAIN)

    def on_batch(self, rows: list[Row], number: int) -> None:
        self.live.on_batch(Lines(rows), number)
        self.ask(number + 1)

    def records(self) -> list[dict[str, Any]]:
        """Return what became of each change, the run being over."""
        control = self.live._merger.control
        control.finish()
        return [asdict(record) for record in control.records()]


class PackAll:
    """Packs the rows of all queries, each by the packer of its stream."""

    def __init__(self, packers: dict[tuple[int, int], Packer]) -> None:
        self._packers = packers

    def __call__(self, batches: Any) -> Any:
        part = TaskContext.get().partitionId()
        for batch in batches:
            for row in batch.to_pylist():
                lines = self._packers[row["run"], row["stream"]].lines(from_blob(row["blob"]), part)
                yield packed_batch(lines)


def run_side_by_side(spark: SparkSession, runs: Sequence[LiveRun]) -> None:
    """Run all of them to their end; one that fails says so in `failure`."""
    folder = Path(tempfile.mkdtemp(prefix="midstream-live-"))
    given = 0
    for run in runs:
        run.begin(tuple(range(given, given + run.buckets)))
        given += run.buckets
    try:
        _stage(runs, folder / "in")
        _stream(spark, runs, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for run in runs:
            forget_query(run.shared)


def _stream(spark: SparkSession, runs: Sequence[LiveRun], folder: Path) -> None:
    owner = {label: run for run in runs for label in run.labels}
    last = max(run.batches for run in runs)
    over = threading.Event()
    seen: set[Path] = set()
    (folder / "control").mkdir()

    def forward() -> None:
        for n, run in enumerate(runs):
            for file in sorted({*run.checkpoint.controls.folder.glob("*.json")} - seen):
                seen.add(file)
                pending = folder / "control" / f".{n}-{file.name}"
                pending.write_text(f"{n} {file.read_text(encoding='utf-8')}", encoding="utf-8")
                pending.rename(folder / "control" / f"{n}-{file.name}")

    def on_batch(lines: Any, number: int) -> None:
        rows: dict[int, list[Row]] = {id(run): [] for run in runs}
        for row in lines.collect():
            run = owner[row.bucket]
            if row.kind == FAILED:
                run.failure = run.failure or RuntimeError(f"bucket {row.bucket}\n{bytes(row.blob).decode()}")
            rows[id(run)].append(row)
        for run in runs:
            if number < run.batches and run.failure is None:
                try:
                    run.on_batch(rows[id(run)], number)
                except Exception as error:
                    run.failure = error
        forward()
        if number + 1 >= last:
            over.set()

    forward()
    with with_settings(spark, PARTITIONS, rehearsal=True):
        frame = spark.readStream.schema(STAGED).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        packers = {(n, k): packer for n, run in enumerate(runs) for k, packer in enumerate(run.packers)}
        packed = frame.mapInArrow(PackAll(packers), PACKED)
        labels = {n: run.labels for n, run in enumerate(runs)}
        sent = spark.readStream.text(str(folder / "control")).mapInArrow(ControlAll(labels), PACKED)
        processor = ProcessAll({label: (run.spec, run.shared) for label, run in owner.items()})
        lines = packed.unionByName(sent).groupBy("bucket").transformWithState(processor, OUTPUT, "Append", "None")
        writer = lines.writeStream.foreachBatch(on_batch).option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.start()
    while query.isActive and not over.wait(0.05):
        pass
    if over.is_set():
        query.stop()
    query.awaitTermination()


def _stage(runs: Sequence[LiveRun], folder: Path) -> None:
    """Write one file per micro-batch with what the n-th of every run brings."""
    folder.mkdir(parents=True)
    for number in range(max(run.batches for run in runs)):
        held: list[tuple[int, int, bytes]] = []
        for n, run in enumerate(runs):
            for k, name in enumerate(run.script.streams if number < run.batches else ()):
                rows = run.script.table(name, number if number < len(run.script.cuts) else None)
                held.append((n, k, to_blob(rows if number < len(run.script.cuts) else rows.slice(0, 0))))
        columns = zip(zip(*held, strict=True), (pa.int32(), pa.int32(), pa.binary()), strict=True)
        table = pa.table([pa.array(v, t) for v, t in columns], names=["run", "stream", "blob"])
        file = folder / f"{number:08d}.parquet"
        pq.write_table(table, file, compression="none")
        os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))  # Spark takes files in order of their age


# Workers do not import tests: what runs there goes to them with its code.
pyspark.cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["x"]))
