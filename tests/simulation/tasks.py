"""Tasks of a micro-batch: rows are packed, buckets run, lines go to the driver or into files of the workers.

    rows of a stream ──▶ pack ──▶ shuffle ──▶ bucket ──▶ lines ──▶ driver
                                                           └──▶ PartFiles

A task may fail and run again, run twice, or linger: its first attempt goes on while a second one does the work.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from midstream.engine.bucket.bucket import Bucket
from midstream.engine.bucket.spec import BucketSpec
from midstream.live.lines import PartWriter, to_lines
from midstream.live.pack import CONTROL, Packer, unpack
from midstream.live.repository import StoredVersions
from midstream.live.result_folder import PartFiles
from simulation.fiber import Fiber
from simulation.log import TaskStore
from simulation.memory import TaskMemory
from simulation.process import Crash, Process

if TYPE_CHECKING:
    from simulation.host import SimulatedHost

MOST_ATTEMPTS = 4


class PackedLine(NamedTuple):
    """A packed line as a bucket gets it."""

    bucket: int
    kind: int
    version: int
    alias: int
    part: int
    high: int
    blob: bytes | None


class Line(NamedTuple):
    """A line as the driver gets it."""

    bucket: int
    kind: int
    blob: bytes


class TaskFailed(Exception):
    """A task has failed as often as it may."""


LINES = pa.schema([("bucket", pa.int32()), ("kind", pa.int32()), ("blob", pa.binary())])


@dataclass
class SimulatedLines:
    """The lines of one micro-batch: tasks run when somebody wants them."""

    host: "SimulatedHost"
    batch: int
    controls: Sequence[bytes]

    def collect(self) -> list[Any]:
        return self.written(_as_they_are)

    def written(self, write: PartWriter) -> list[Any]:
        """Let `write` take the lines of each bucket in its task; return those it hands on."""
        self.host.sim.on_run(self.host, self.batch)
        packed = self._packed()
        lines: list[Line] = []
        for part, label in enumerate(self.host.labels):
            mine = [line for line in packed if line.bucket == label]
            lines += self._task(f"bucket {label}", lambda p, a=(part, label, mine): self._bucket(p, *a, write))
        return lines

    def _packed(self) -> list[PackedLine]:
        host = self.host
        packed: list[PackedLine] = []
        number = 0
        for position, stream in host.inputs:
            for table in host.sim.script.parts(self.batch, stream.name):
                args = (position, stream, table, number)
                attempts = [
                    self._task(f"pack {stream.name}", lambda p, a=args: self._pack(p, *a))
                    for _ in range(2 if host.sim.script.reorders else 1)
                ]
                for label in host.labels:  # each bucket may get its rows from another attempt
                    attempt = attempts[0] if len(attempts) == 1 else host.process.machine.rnd.choice(attempts)
                    packed += [line for line in attempt if line.bucket == label]
                number += 1
        for text in self.controls:
            packed += [PackedLine(label, CONTROL, 0, 0, 0, 0, text) for label in host.labels]
        return packed

    def _task(self, name: str, work: Any) -> list[Any]:
        """Run a task until an attempt succeeds."""
        driver, machine = self.host.process, self.host.process.machine
        for _ in range(MOST_ATTEMPTS):
            driver.step(f"start task {name}", changes=False)
            process = machine.process(f"{driver.name} {name}")
            if machine.take("linger"):
                found: list[Any] = []
                fiber = Fiber(lambda p=process: found.append(work(p)), process.name)  # noqa: B023 - this attempt's
                machine.run(fiber, machine.rnd.randint(0, 12))
                machine.leave(fiber)
                if found:
                    return list(found[0])
                continue
            try:
                lines = work(process)
                if machine.take("task twice"):
                    continue
                return list(lines)
            except Crash:
                driver.step(f"task {name} is lost", changes=False)
        raise TaskFailed(f"{name} of micro-batch {self.batch}")

    def _versions(self, process: Process) -> StoredVersions:
        return replace(self.host.live.versions, world=process.world)

    def _pack(self, process: Process, position: int, stream: Any, table: pa.Table | None, part: int) -> list[Any]:
        versions, spec = self._versions(process), self.host.spec_of(self.batch)
        if table is not None and self.host.sim.script.reorders:
            table = table.take(process.machine.rnd.sample(range(table.num_rows), table.num_rows))
        packer = Packer(
            versions.wanted, stream.name, position, stream.time, self.host.labels, False,
            spec.judges_ahead, spec.ahead_us(position),
        )  # fmt: skip
        lines = [PackedLine(*line) for line in packer.lines(table, part)]
        process.step("packed", changes=False)
        return lines

    def _bucket(
        self, process: Process, part: int, label: int, packed: list[PackedLine], write: PartWriter
    ) -> list[Line]:
        host = self.host
        rnd = process.machine.rnd
        spec: BucketSpec = replace(host.spec_of(self.batch), plan_of=self._versions(process).plan_of)
        store = TaskStore(host.sim.log, label, self.batch)
        memory = TaskMemory(process.machine.memory, host.who["id"], label, process)
        packed = rnd.sample(packed, len(packed))
        process.step("bucket opened", changes=False)
        given = unpack(packed, spec, self.batch)
        if host.live.mail is not None:
            given.mail = replace(host.live.mail.box, world=process.world).read(self.batch, part)
        output = Bucket(spec, label, store, memory).on_batch(given)
        memory.release()
        process.step("bucket done", changes=False)
        rows = [(label, kind, blob) for kind, _, blob in to_lines(output)]
        columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), LINES, strict=True)]
        early = rnd.random() < 0.5
        if early:
            store.commit()
        if isinstance(write, PartFiles):
            write = replace(write, world=process.world)
        handed = [*write(iter([pa.RecordBatch.from_arrays(columns, schema=LINES)]), part)]
        process.step("task done", changes=False)
        if not early:
            store.commit()
        return [Line(*row.values()) for batch in handed for row in batch.to_pylist()]


def _as_they_are(batches: Iterator[pa.RecordBatch], part: int) -> Iterator[pa.RecordBatch]:
    yield from batches
